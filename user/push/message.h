/* SPDX-License-Identifier: Apache-2.0 */
/* What is sent at a time: some rows of one event and window, in a receiver's format. */
#ifndef ASCRIBE_PUSH_MESSAGE_H
#define ASCRIBE_PUSH_MESSAGE_H

#include "push/target.h"

struct push_message {
	const struct push_target *to;
	struct export_source src; /* its part: below */
	struct export_part part;
	struct buf body;
	struct buf packed; /* while it is compressed */
};

/*
 * Write the rows from m->part.from on into m->body, compressed as the target has it; m->part.end
 * says how many fitted.
 */
int push_message_encode(struct push_message *m, struct err *err);
void push_message_fini(struct push_message *m);

/* The formats' encoders. */
int push_encode_otlp(struct push_message *m, struct err *err);
int push_encode_pprof(struct push_message *m, struct err *err);
int push_encode_pyroscope(struct push_message *m, struct err *err);
int push_encode_parca(struct push_message *m, struct err *err);

/* One part of the rows in m->src as pprof, behind what m->packed has. */
int push_add_pprof(struct push_message *m, struct export_part *part, struct err *err);

#endif
