/* SPDX-License-Identifier: Apache-2.0 */
#include "util/own.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define CHILDREN_DEPTH 3 /* the nursery, its workers, what they begin */
#define CHILDREN_MAX 64

uint64_t own_cpu_ns(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000u +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

void own_thread_be_nice(void)
{
	/*
	 * On Linux PRIO_PROCESS and 0 name the calling thread: setpriority(2), "C library/kernel
	 * differences".
	 */
	if (getpriority(PRIO_PROCESS, 0) < 0)
		setpriority(PRIO_PROCESS, 0, 0);
}

static void read_statm(const char *path, unsigned long *ret_resident, unsigned long *ret_shared)
{
	unsigned long size, resident, shared;
	FILE *f = fopen(path, "re");
	*ret_resident = *ret_shared = 0;
	if (f && fscanf(f, "%lu %lu %lu", &size, &resident, &shared) == 3) {
		*ret_resident = resident;
		*ret_shared = shared;
	}
	if (f)
		fclose(f);
}

uint64_t own_rss_bytes(void)
{
	unsigned long resident, shared;
	read_statm("/proc/self/statm", &resident, &shared);
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t own_private_bytes(void)
{
	unsigned long resident, shared;
	read_statm("/proc/self/statm", &resident, &shared);
	return (uint64_t)(resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t own_child_bytes(int pid)
{
	unsigned long resident, shared;
	char path[40];
	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	read_statm(path, &resident, &shared);
	return (uint64_t)(resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

void own_raise_file_limit(void)
{
	struct rlimit l;
	if (!getrlimit(RLIMIT_NOFILE, &l) && l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
}

/* The kilobytes of a line "Name:  N kB" of /proc/PID/status, in bytes. */
static uint64_t status_bytes(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	unsigned long kb;
	return at && sscanf(at + strlen(name), " %lu", &kb) == 1 ? (uint64_t)kb * 1024 : 0;
}

static bool read_text(const char *path, char *text, size_t cap)
{
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(text, 1, cap - 1, f) : 0;
	if (f)
		fclose(f);
	text[n] = 0;
	return n != 0;
}

static void add_process(struct own_memory *m, long pid, bool is_child, unsigned depth);

/*
 * A name may have any character but ends with the last parenthesis: proc(5). utime and stime are
 * fields 14 and 15.
 */
static uint64_t stat_cpu_ns(const char *text)
{
	unsigned long user, system;
	const char *at = strrchr(text, ')');
	if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
			  &system) != 2)
		return 0;
	return (uint64_t)(user + system) * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

static pid_t left_out[N_OWN_CHILDREN];

void own_leave_out(enum own_child which, pid_t pid)
{
	left_out[which] = pid;
}

static pid_t counted_through; /* 0: none */

void own_count_through(pid_t pid)
{
	counted_through = pid;
}

static bool is_our_child(pid_t pid)
{
	char path[64], text[4096];
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	const char *at = read_text(path, text, sizeof(text)) ? strstr(text, "\nPPid:") : NULL;
	return at && strtol(at + strlen("\nPPid:"), NULL, 10) == getpid();
}

static bool is_left_out(long pid)
{
	bool is = false;
	for (size_t i = 0; i < N_OWN_CHILDREN; i++)
		is |= pid == left_out[i];
	return is;
}

static void add_children(struct own_memory *m, long pid, unsigned depth)
{
	char path[64], text[4096];
	snprintf(path, sizeof(path), "/proc/%ld/task/%ld/children", pid, pid);
	if (!read_text(path, text, sizeof(text)))
		return;
	for (char *p = text, *end; *p; p = end) {
		long child = strtol(p, &end, 10);
		if (end == p)
			return;
		if (!is_left_out(child))
			add_process(m, child, true, depth);
	}
}

static void add_process(struct own_memory *m, long pid, bool is_child, unsigned depth)
{
	char path[64], text[4096];
	snprintf(path, sizeof(path), "/proc/%ld/status", pid);
	if (!read_text(path, text, sizeof(text)))
		return;
	uint64_t mine = status_bytes(text, "RssAnon:") + status_bytes(text, "RssShmem:");
	if (is_child) {
		m->children += mine;
		m->n_children++;
	} else {
		m->anonymous = mine;
		m->files = status_bytes(text, "RssFile:");
		uint64_t now = status_bytes(text, "VmRSS:"), peak = status_bytes(text, "VmHWM:");
		m->more = peak > now ? peak - now : 0;
	}
	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	if (is_child && depth == 1 && read_text(path, text, sizeof(text)))
		m->first_children_cpu_ns += stat_cpu_ns(text);
	if (depth < CHILDREN_DEPTH && m->n_children < CHILDREN_MAX)
		add_children(m, pid, pid == counted_through ? depth : depth + 1);
}

bool own_begin_peak(void)
{
	static int fd = -1; /* it is opened once: later, paths may be limited */
	if (fd < 0)
		fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, "5", 1) == 1; /* only the peak: proc(5) */
}

void own_memory(struct own_memory *ret)
{
	*ret = (struct own_memory){ 0 };
	add_process(ret, getpid(), false, 0);
	if (counted_through && !is_our_child(counted_through))
		add_process(ret, counted_through, true, 1);
}
