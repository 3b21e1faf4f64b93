/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a daemon and the store that it writes: at the start, and when it is reloaded. */
#ifndef ASCRIBE_DAEMON_RELOAD_H
#define ASCRIBE_DAEMON_RELOAD_H

#include "daemon/running.h"

/* daemon_settings_read of the arguments that the daemon was started with. */
int daemon_read_settings(struct daemon *d, struct daemon_settings *s, bool *ret_help,
			 struct err *err);

/* Open the store for writing: d->writer. -EBUSY: another process writes it. */
int daemon_open_writer(struct daemon *d, struct err *err);

/* Say so where the cgroup allows less memory than memory-max. */
void daemon_warn_of_limit(uint64_t memory_max);

/* Read the settings again. What cannot be taken up is in the log: the old ones stay. */
void daemon_reload(struct daemon *d);

#endif
