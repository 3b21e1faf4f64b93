/* SPDX-License-Identifier: Apache-2.0 */
/* Requests, each repeated until something is known of it. */
#ifndef ASCRIBE_PUSH_SENDER_H
#define ASCRIBE_PUSH_SENDER_H

#include "push/cursor.h"
#include "push/message.h"

enum push_verdict {
	PUSH_TAKEN,
	PUSH_REFUSED, /* it never will be */
	PUSH_SMALLER, /* less at a time */
	PUSH_PLAINER, /* not compressed */
	PUSH_AGAIN,
};

/* All but the answer is borrowed. */
struct push_sender {
	const struct push_config *c;
	struct push_message *m;	    /* the target, and room to compress in */
	struct push_cursor *cursor; /* its `again` */
	struct push_stats *st;
	struct web *web;
	struct buf answer; /* the last one */
	struct push_post question;
	/* Who sent before us may have had a message on its way: its age; 0: nobody did. */
	uint64_t left_ns;
};

int sender_init(struct push_sender *s, struct err *err);
void sender_fini(struct push_sender *s);

/* Wait. True: it is time to end, perhaps to be started again. */
bool sender_rest(const struct push_sender *s, unsigned ms);
void sender_report(const struct push_sender *s);

/*
 * Post until something is known of it: *ret is then not PUSH_AGAIN. part: what it has, for
 * PUSH_SMALLER; NULL: it cannot be cut. -EINTR: asked to end, between two tries; -ETIMEDOUT: given
 * up.
 */
int sender_post(struct push_sender *s, struct push_post *of, const struct export_part *part,
		enum push_verdict *ret, struct err *err);

#endif
