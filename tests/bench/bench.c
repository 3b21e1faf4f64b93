/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include "sampler/sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static unsigned cpus[BENCH_CPUS_MAX], n_cpus;
static pid_t loads[BENCH_CPUS_MAX];
static unsigned n_loads;
static char tmp[PATH_MAX];

void bench_die(const char *fmt, ...)
{
	va_list ap;
	fflush(stdout);
	fputs("bench: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	bench_cleanup();
	exit(1);
}

const char *bench_build(void)
{
	static char dir[PATH_MAX];
	if (dir[0])
		return dir;
	ssize_t n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
	if (n <= 0)
		bench_die("/proc/self/exe: %s", strerror(errno));
	dir[n] = 0;
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(dir, '/');
		if (slash)
			*slash = 0;
	}
	return dir;
}

const char *bench_tmp(void)
{
	const char *base = getenv("TMPDIR");
	if (tmp[0])
		return tmp;
	snprintf(tmp, sizeof(tmp), "%s/ascribe-bench-XXXXXX", base ? base : "/tmp");
	if (!mkdtemp(tmp)) {
		int cause = errno;
		tmp[0] = 0;
		bench_die("no temporary directory: %s", strerror(cause));
	}
	return tmp;
}

void bench_cleanup(void)
{
	bench_load_stop();
	if (!tmp[0])
		return;
	const char *const argv[] = { "rm", "-rf", tmp, NULL };
	bench_wait(bench_spawn(argv, NULL, NULL));
	tmp[0] = 0;
}

/* ---- CPUs, loads ---- */

static void take_cpu(void *ctx, unsigned cpu)
{
	(void)ctx;
	if (n_cpus < BENCH_CPUS_MAX)
		cpus[n_cpus++] = cpu;
}

unsigned bench_cpus(const unsigned **ret)
{
	if (!n_cpus &&
	    (sampler_cpu_list("/sys/devices/system/cpu/online", take_cpu, NULL) || !n_cpus))
		bench_die("/sys/devices/system/cpu/online cannot be read");
	if (ret)
		*ret = cpus;
	return n_cpus;
}

void bench_load_start(const char *frames, const char *label, const char *cold)
{
	char path[PATH_MAX + 32], cpu[16];
	bench_cpus(NULL);
	snprintf(path, sizeof(path), "%s/bench/bench_load", bench_build());
	for (unsigned i = 0; i < n_cpus; i++) {
		snprintf(cpu, sizeof(cpu), "%u", cpus[i]);
		const char *const argv[] = {
			path, cpu, frames, label ? label : "-", cold ? cold : "-", NULL
		};
		loads[n_loads++] = bench_spawn(argv, NULL, NULL);
	}
	bench_sleep_ms(cold ? 1000 : 200);
}

void bench_load_stop(void)
{
	for (unsigned i = 0; i < n_loads; i++)
		kill(loads[i], SIGKILL);
	while (n_loads)
		bench_wait(loads[--n_loads]);
}

/* ---- children ---- */

static int open_output(const char *name)
{
	char path[PATH_MAX + 64] = "/dev/null";
	if (name)
		snprintf(path, sizeof(path), "%s/%s", bench_tmp(), name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		bench_die("%s: %s", path, strerror(errno));
	return fd;
}

pid_t bench_spawn(const char *const *argv, const char *out, const char *err)
{
	fflush(stdout);
	/* In the parent: emptied before anybody reads them */
	int o = open_output(out), e = open_output(err);
	pid_t child = fork();
	if (child < 0)
		bench_die("fork: %s", strerror(errno));
	if (child) {
		close(o);
		close(e);
		return child;
	}
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	dup2(o, STDOUT_FILENO);
	dup2(e, STDERR_FILENO);
	execvp(argv[0], (char *const *)argv);
	_exit(127);
}

static double seconds(const struct timeval *t)
{
	return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

struct bench_cost bench_wait(pid_t tgid)
{
	struct rusage u;
	struct bench_cost c = { 0 };
	while (wait4(tgid, &c.status, 0, &u) < 0)
		if (errno != EINTR)
			bench_die("wait4: %s", strerror(errno));
	c.cpu_s = seconds(&u.ru_utime) + seconds(&u.ru_stime);
	c.rss_mib = (double)u.ru_maxrss / 1024;
	return c;
}

/*
 * Where the kernel groups processes by session, "nice" says nothing between sessions: the group's
 * own value does. The parent, in the old session, stays until the benchmark ends.
 */
void bench_first(void)
{
	int status = 0;
	fflush(stdout);
	pid_t child = fork();
	if (child < 0)
		bench_die("fork: %s", strerror(errno));
	if (child) {
		waitpid(child, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	}
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	setsid();
	setpriority(PRIO_PROCESS, 0, -20);
	FILE *f = fopen("/proc/self/autogroup", "we");
	if (f) {
		fputs("-20", f);
		fclose(f);
	}
}

/* ---- time, figures ---- */

uint64_t bench_now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void bench_sleep_ms(unsigned ms)
{
	struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };
	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double bench_median(double *v, size_t n)
{
	if (!n)
		return 0;
	qsort(v, n, sizeof(*v), by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}
