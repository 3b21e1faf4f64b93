/* SPDX-License-Identifier: Apache-2.0 */
/* Check that our PID namespace is the initial one. */
#include "proc/proc.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

/* The inode of the initial PID namespace: include/linux/proc_ns.h, since Linux 3.8. */
#define PROC_PID_INIT_INO 0xEFFFFFFCu

int proc_check_namespace(struct err *err)
{
	struct stat st;
	/* Also missing where /proc was mounted in another PID namespace. */
	if (stat("/proc/self/ns/pid", &st))
		return err_sys(err, -errno,
			       "/proc/self/ns/pid: /proc must be mounted, and be that of the host");
	if (st.st_ino == PROC_PID_INIT_INO)
		return 0;
	return err_set(
		err, -ENOTSUP,
		"ascribe runs in a PID namespace of its own, where processes have other numbers "
		"than the kernel's: run it on the host, or give its container the host's PID "
		"namespace (Kubernetes: hostPID: true; docker and podman: --pid=host)");
}
