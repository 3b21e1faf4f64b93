/* SPDX-License-Identifier: Apache-2.0 */
/* Find our PID namespace, and check that /proc is of the same one. */
#include "proc/proc.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

/* The inode of the initial PID namespace: include/linux/proc_ns.h, since Linux 3.8. */
#define PROC_PID_INIT_INO 0xEFFFFFFCu

/*
 * /proc/self/status has our id in the namespace of that /proc, then in each one between that and
 * ours. Without the line (since Linux 4.1), the kernel has no PID namespaces.
 */
static bool is_proc_ours(void)
{
	char line[256];
	unsigned id, inner;
	int n = 0;
	FILE *f = fopen("/proc/self/status", "re");
	while (f && n <= 0 && fgets(line, sizeof(line), f))
		n = sscanf(line, "NSpid: %u %u", &id, &inner);
	if (f)
		fclose(f);
	return n < 2;
}

int proc_namespace(uint32_t *ret, struct err *err)
{
	struct stat st;
	/* Missing where /proc was mounted in a namespace below ours, or beside it. */
	if (stat("/proc/self/ns/pid", &st))
		return err_sys(err, -errno,
			       "/proc/self/ns/pid: /proc must be mounted in our PID namespace");
	if (!is_proc_ours())
		return err_set(
			err, -ENOTSUP,
			"/proc is that of another PID namespace, where processes have other ids: "
			"mount one in this namespace (unshare --mount-proc), or run in that one "
			"(Kubernetes: hostPID: true; docker and podman: --pid=host)");
	*ret = st.st_ino == PROC_PID_INIT_INO ? 0 : (uint32_t)st.st_ino;
	return 0;
}
