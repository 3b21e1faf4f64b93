/* SPDX-License-Identifier: Apache-2.0 */
#include "util/own.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

uint64_t own_cpu_ns(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000u +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

uint64_t own_thread_cpu_ns(void)
{
	struct timespec t = { 0 };
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void own_thread_be_nice(void)
{
	/* On Linux PRIO_PROCESS and 0 name the calling thread: setpriority(2), "C library/kernel differences". */
	if (getpriority(PRIO_PROCESS, 0) < 0)
		setpriority(PRIO_PROCESS, 0, 0);
}

static void read_statm(unsigned long *ret_resident, unsigned long *ret_shared)
{
	unsigned long size, resident, shared;
	FILE *f = fopen("/proc/self/statm", "re");
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
	read_statm(&resident, &shared);
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t own_private_bytes(void)
{
	unsigned long resident, shared;
	read_statm(&resident, &shared);
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
