/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Push beside a recorder: in a process without capabilities, which may read the store and write its
 * cursor, and nothing else.
 *
 *   daemon -- exec --> keeper -- fork --> pusher: push_run
 *     ^                  | starts it anew when it ends     |
 *     '---- what it tells: struct push_stats --------------'
 *
 * The keeper is this program executed anew, so it holds nothing of the daemon, whose settings may
 * change at any time. It is told what to do over its socket.
 *
 * Not thread-safe.
 */
#ifndef ASCRIBE_PUSH_PUSHER_H
#define ASCRIBE_PUSH_PUSHER_H

#include "push/push.h"
#include "sandbox/keeper.h"

struct pusher;

/* For the keeper's table: starts the process. The store is the first of keeper_arguments. */
keeper_op pusher_op;

/* c says who it is; text is the same for the keeper, as it stands in the daemon's file. */
int pusher_start(struct pusher **ret, const struct push_config *c, const char *text,
		 struct err *err);
/* Let it end what is under way. pusher_free waits for that. */
void pusher_stop(struct pusher *p);
/* For wait_ms at most. NULL is fine. */
void pusher_free(struct pusher *p, unsigned wait_ms);

const char *pusher_name(const struct pusher *p);
/* What it told last; counts are those of all processes of this pusher. */
const struct push_stats *pusher_look(struct pusher *p);

/* ---- in the keeper: `ascribe push --keeper STORE` ---- */

#define PUSHER_TEXT_MAX (64u << 10) /* bytes of a section's text */

/* Take the text; to be freed. -errno: the daemon has ended. */
int pusher_take_text(char **ret);
_Noreturn void pusher_keep(const struct push_config *c);

#endif
