/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Have a JVM (17 or later) write /tmp/perf-N.map, like `jcmd N Compiler.perfmap`. The attach
 * protocol: create .attach_pidN, send SIGQUIT, then send the command to the socket .java_pidN.
 *
 * SIGQUIT kills most programs, and the process chose the directory of the files. So a helper
 * (jvm_helper.h) does this, as the process's user and without capabilities, below the /tmp that was
 * opened through /proc/N/root. It can do nothing that this user could not. It continues only with
 * proof of HotSpot: libjvm.so and HotSpot's performance counters (/tmp/hsperfdata_USER/N, jdk:
 * hotspot/os/posix/perfMemory_posix.cpp) are mapped, SIGQUIT is caught, and the counters do not
 * have -XX:+DisableAttachMechanism among the arguments. OpenJ9 has no such file.
 */
#ifndef ASCRIBE_STACKS_JVM_H
#define ASCRIBE_STACKS_JVM_H

#include "proc/proc.h"

/* A JVM's map; all zero at first. */
struct jvm_map {
	uint32_t uid, gid, user;   /* of the helper that requested it; user: proc_user */
	bool ours;		   /* written at our request: remove it at the end */
	int tmp;		   /* its directory, while `ours` */
	struct jvm_helper *helper; /* of a request without an answer */
};

/* True when the process has a file libjvm.so mapped. */
bool jvm_is(const struct proc_image *im);

/*
 * Request the map, or look for the end of the request. -EINPROGRESS: it goes on, at most for
 * timeout_ms; call again. 0: the map is written. -EPERM: no proof of HotSpot with attach enabled.
 * -ETIMEDOUT. -EOPNOTSUPP: the JVM lacks the command. -EBUSY: too many helpers. -errno. Not
 * thread-safe.
 */
int jvm_write_map(const struct proc_root *root, uint32_t tgid, unsigned timeout_ms,
		  struct jvm_map *io_map);

/*
 * Give up a request, and have a helper remove the map if it is ours, as its user; it has
 * timeout_ms. The process may have ended.
 */
void jvm_remove_map(const struct proc_root *root, struct jvm_map *map, unsigned timeout_ms);

/* Wait for the helpers, at the end of the recording; at most timeout_ms. */
void jvm_finish(unsigned timeout_ms);

#endif
