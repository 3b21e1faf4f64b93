/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking a JVM (17 or later) to write /tmp/perf-N.map, as `jcmd N Compiler.perfmap` does, by the attach protocol: a file .attach_pidN, SIGQUIT,
 * then a socket .java_pidN that takes a command.
 */
#ifndef ASCRIBE_COLLECT_JVM_H
#define ASCRIBE_COLLECT_JVM_H

#include "proc/proc.h"

/* Does the process have a JVM mapped? */
bool jvm_is(const struct proc_image *im);

/*
 * Ask and wait for the map to be written, at most timeout_ms. Only a process that catches SIGQUIT gets that signal. 0;
 * -ETIMEDOUT; -EOPNOTSUPP: it does not know the command; -errno.
 */
int jvm_write_map(const struct proc_root *root, uint32_t tgid, unsigned timeout_ms);

#endif
