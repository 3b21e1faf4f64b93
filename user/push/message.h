/* SPDX-License-Identifier: Apache-2.0 */
/* What is sent at a time: some rows of one event and window, in a receiver's format. */
#ifndef ASCRIBE_PUSH_MESSAGE_H
#define ASCRIBE_PUSH_MESSAGE_H

#include "push/target.h"

/* A request; one without a body is left out. */
struct push_post {
	char path[2048 + 512]; /* "": the target's; a token is its end */
	struct buf body;
	struct buf witness; /* SQL that counts a row of it in the tables; empty: nobody asks */
};

#define PUSH_POSTS_MAX 5

struct push_message {
	const struct push_target *to;
	const struct store_block *block; /* the window */
	struct export_source src;	 /* its part: below */
	struct export_part part;
	struct push_post posts[PUSH_POSTS_MAX]; /* in the order of sending */
	size_t n_posts;
	struct buf packed; /* while it is compressed */
	void *state;	   /* of the format */
};

/*
 * Write the rows from m->part.from on into m->posts, compressed as the target has it; m->part.end
 * says how many fitted.
 */
int push_message_encode(struct push_message *m, struct err *err);
/* Write what the format sends at the end of a window. */
int push_message_end_window(struct push_message *m, struct err *err);
/* Compress a body that stands in a post. */
int push_message_compress(struct push_message *m, struct push_post *p, struct err *err);
void push_message_fini(struct push_message *m);

/* The formats' encoders. */
int push_encode_otlp(struct push_message *m, struct err *err);
int push_encode_pprof(struct push_message *m, struct err *err);
int push_encode_pyroscope(struct push_message *m, struct err *err);
int push_encode_parca(struct push_message *m, struct err *err);
int push_encode_otel_table(struct push_message *m, struct err *err);

/* One part of the rows in m->src as pprof, behind what m->packed has. */
int push_add_pprof(struct push_message *m, struct export_part *part, struct err *err);

#endif
