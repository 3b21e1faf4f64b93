/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a daemon does with its capabilities: a keeper has them (sandbox/keeper.h), the recorder has
 * none.
 */
#ifndef ASCRIBE_DAEMON_RIGHTS_H
#define ASCRIBE_DAEMON_RIGHTS_H

#include "daemon/running.h"

/* Start the keeper, while this process has capabilities. */
int daemon_keep_rights(const struct daemon *d, struct err *err);

/*
 * The same with a keeper of another unit (daemon/keeper_unit.h), process pid at the other end of
 * fd; and in that process, which then serves and never returns but with an error.
 */
void daemon_use_keeper(int fd, pid_t pid);
int daemon_serve_rights(const struct daemon *d, int fd, struct err *err);

/* Give up all capabilities, when everything has started that has no op of the keeper. */
int daemon_drop_rights(struct err *err);

/*
 * Write nowhere but into the store, and where sockets are now; start no program. After the store
 * was made.
 */
int daemon_limit_paths(const struct daemon *d, struct err *err);

/* -EPIPE: the keeper has ended. One that does not answer is in the log. */
int daemon_look_at_keeper(struct daemon *d, struct err *err);

#endif
