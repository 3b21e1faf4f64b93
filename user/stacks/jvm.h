/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking a JVM (17 or later) to write /tmp/perf-N.map, as `jcmd N Compiler.perfmap` does, by the attach protocol: a file .attach_pidN, SIGQUIT,
 * then a socket .java_pidN that takes a command.
 *
 * SIGQUIT kills most programs, and the files lie in a directory that the process chose. So a forked helper does it, as
 * the process's user and without capabilities, below the /tmp that was opened through /proc/N/root: it can do nothing
 * there that this user could not. It goes on only where HotSpot is proven: libjvm.so and HotSpot's own performance
 * counters (/tmp/hsperfdata_USER/N, jdk: hotspot/os/posix/perfMemory_posix.cpp) are mapped, SIGQUIT is caught, and the
 * counters do not name -XX:+DisableAttachMechanism among the arguments. OpenJ9 has no such file.
 */
#ifndef ASCRIBE_STACKS_JVM_H
#define ASCRIBE_STACKS_JVM_H

#include "proc/proc.h"

/* A JVM's map; all zero at first. */
struct jvm_map {
	uint32_t uid, gid; /* that asked for it */
	bool ours;	   /* it is there because we asked: to be removed */
	int tmp;	   /* the directory that it is in, while it is ours */
};

/* Does the process have a file called libjvm.so mapped? */
bool jvm_is(const struct proc_image *im);

/*
 * Ask and wait for the map to be written, at most timeout_ms, whatever the process does. 0; -EPERM: not proven to be
 * HotSpot with attach enabled; -ETIMEDOUT; -EOPNOTSUPP: it does not know the command; -errno. One thread.
 */
int jvm_write_map(const struct proc_root *root, uint32_t tgid, unsigned timeout_ms, struct jvm_map *io_map);

/* Remove the map if it is ours, as its user; at most timeout_ms. The process may have ended. */
void jvm_remove_map(const struct proc_root *root, struct jvm_map *map, unsigned timeout_ms);

#endif
