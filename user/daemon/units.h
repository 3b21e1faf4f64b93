/* SPDX-License-Identifier: Apache-2.0 */
/* Which process is in which of the systemd units: deploy/. Texts are those of /proc/PID/cgroup. */
#ifndef ASCRIBE_DAEMON_UNITS_H
#define ASCRIBE_DAEMON_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define UNIT_RECORDER "ascribe.service"
#define UNIT_KEEPER "ascribe-keeper.service"
#define UNIT_WEB "ascribe-web@.service" /* a template: one for each connection */
#define UNIT_CGROUP_BYTES 4096

/*
 * True where own is of a process in UNIT_KEEPER, and peer of one in this unit (or an instance of
 * this template) beside it.
 */
bool unit_is_beside(const char *own, const char *peer, const char *unit);

/* The same for this process and that one. */
bool unit_has(const char *unit, pid_t pid);

#endif
