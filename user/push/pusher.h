/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Push beside a recorder: in a process without capabilities, which may read the store and write its
 * cursor, and nothing else (confine_pusher).
 *
 *   daemon -- fork --> keeper -- fork --> pusher: push_run
 *     ^                  | starts it anew when it ends     |
 *     '---- what it tells: struct push_stats --------------'
 *
 * Not thread-safe.
 */
#ifndef ASCRIBE_PUSH_PUSHER_H
#define ASCRIBE_PUSH_PUSHER_H

#include "push/push.h"

struct pusher;

/* Before there are threads, and before anything sensitive is open. */
int pusher_start(struct pusher **ret, const struct push_config *c, struct err *err);
/* Let it end what is under way, for wait_ms at most. NULL is fine. */
void pusher_free(struct pusher *p, unsigned wait_ms);

const char *pusher_name(const struct pusher *p);
/* What it told last; counts are those of all processes of this pusher. */
const struct push_stats *pusher_look(struct pusher *p);

#endif
