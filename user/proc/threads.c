/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes whose first thread (the leader) has exited while others run. The leader stays as a
 * zombie without memory, root and working directory: /proc/TGID/maps is empty, and /proc/TGID/root
 * cannot be opened.
 */
#include "proc/proc_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS_LOOKED_AT 64 /* other zombie threads are reaped at once, unless they are traced */

/* False for a thread that does not exist or is a zombie. */
static bool thread_runs(uint32_t tid)
{
	char path[64], text[512];
	snprintf(path, sizeof(path), "/proc/%u/stat", tid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = 0;
	const char *comm_end = strrchr(text, ')'); /* the state follows: proc(5), /proc/pid/stat */
	return comm_end && comm_end[1] == ' ' && !strchr("ZXx", comm_end[2]);
}

uint32_t proc_thread(uint32_t tgid)
{
	char path[64];
	uint32_t found = 0;
	if (thread_runs(tgid))
		return tgid;
	snprintf(path, sizeof(path), "/proc/%u/task", tgid);
	DIR *d = opendir(path);
	struct dirent *e;
	for (unsigned i = 0; d && !found && i < THREADS_LOOKED_AT && (e = readdir(d)); i++) {
		unsigned long tid = strtoul(e->d_name, NULL, 10);
		if (tid && tid != tgid && tid <= UINT32_MAX && thread_runs((uint32_t)tid))
			found = (uint32_t)tid;
	}
	if (d)
		closedir(d);
	return found;
}

bool proc_image_alive(const struct proc_image *im)
{
	return im && im->to_ns == UINT64_MAX && (!im->leader_exited || proc_thread(im->tgid));
}

int proc_thread_switches(uint32_t tgid, uint32_t tid, uint64_t *ret)
{
	char path[64], line[256];
	unsigned long long n;
	unsigned found = 0;
	snprintf(path, sizeof(path), "/proc/%u/task/%u/status", tgid, tid);
	FILE *f = fopen(path, "re");
	*ret = 0;
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "voluntary_ctxt_switches: %llu", &n) == 1 ||
		    sscanf(line, "nonvoluntary_ctxt_switches: %llu", &n) == 1) {
			*ret += n;
			found++;
		}
	if (f)
		fclose(f);
	return found == 2 ? 0 : -ESRCH;
}
