/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figures write DIR: make the store DIR, and say how large it is.
 * figures code DIR: run each case in a process of its own, so that none sees the heap of another.
 * DIR is that store. It runs in callgrind with --instr-atstart=no.
 * figures bpf: load the BPF programs, as root.
 */
#include "figures/figures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

static const struct figures_case cases[] = {
	{ "unwind", figures_unwind },
	{ "symbols", figures_symbols },
	{ "symbol-find", figures_symbol_find },
	{ "filter", figures_filter },
	{ "hist", figures_hist },
	{ "label-sets", figures_label_sets },
	{ "window", figures_window },
	{ "commit", figures_commit },
	{ "report", figures_report },
	{ "functions", figures_functions },
	{ "flame", figures_flame },
	{ "series", figures_series },
	{ "why", figures_why },
	{ "value", figures_value },
};

void figure(const char *kind, const char *name, uint64_t value, const char *unit, const char *what)
{
	printf("%s.%s\t%llu\t%s\t%s\n", kind, name, (unsigned long long)value, unit, what);
}

/* ---- in the place of libc's: count what this program and its libraries ask for ---- */

static struct {
	uint64_t allocations, bytes, reads, read_bytes;
} n;

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t each);
extern void *__libc_realloc(void *p, size_t n);

void *malloc(size_t size)
{
	n.allocations++;
	n.bytes += size;
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	n.allocations++;
	n.bytes += count * size;
	return __libc_calloc(count, size);
}

void *realloc(void *p, size_t size)
{
	n.allocations++;
	n.bytes += size;
	return __libc_realloc(p, size);
}

ssize_t pread(int fd, void *p, size_t size, off_t at)
{
	const ssize_t got = syscall(SYS_pread64, fd, p, size, at, 0, 0);
	n.reads++;
	n.read_bytes += got > 0 ? (uint64_t)got : 0;
	return got;
}

/* Tables have random seeds: the same ones each time. */
ssize_t getrandom(void *p, size_t size, unsigned flags)
{
	(void)flags;
	for (size_t i = 0; i < size; i++)
		((uint8_t *)p)[i] = (uint8_t)figures_draw(256);
	return (ssize_t)size;
}

void figures_begin(void)
{
	memset(&n, 0, sizeof(n));
	CALLGRIND_ZERO_STATS;
	CALLGRIND_START_INSTRUMENTATION;
}

void figures_end(const char *name, const char *what)
{
	char dump[64];
	CALLGRIND_STOP_INSTRUMENTATION;
	const uint64_t allocations = n.allocations, bytes = n.bytes;
	snprintf(dump, sizeof(dump), "instructions.%s", name);
	CALLGRIND_DUMP_STATS_AT(dump);
	printf("%s\t?\tinstructions\t%s\n", dump, what);
	if (allocations) {
		figure("allocations", name, allocations, "allocations", what);
		figure("allocated", name, bytes, "bytes", what);
	}
	if (n.reads) {
		figure("reads", name, n.reads, "calls", what);
		figure("read", name, n.read_bytes, "bytes", what);
	}
}

void figures_check(int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "figures: %s: %s\n", what, strerror(-rc));
	exit(1);
}

void *figures_need(void *p)
{
	figures_check(p ? 0 : -12, "memory");
	return p;
}

uint32_t figures_draw(uint32_t below)
{
	static uint64_t state = 23;
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(state >> 33) % below;
}

static void run_cases(const char *store)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int status = 1;
		const pid_t child = fork();
		if (!child) {
			cases[i].run(store);
			exit(fflush(stdout) != 0);
		}
		if (child < 0 || waitpid(child, &status, 0) != child || status) {
			fprintf(stderr, "figures: the case %s failed\n", cases[i].name);
			exit(1);
		}
	}
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "write"))
		figures_write(argv[2]);
	else if (argc == 3 && !strcmp(argv[1], "code"))
		run_cases(argv[2]);
	else if (argc == 2 && !strcmp(argv[1], "bpf"))
		figures_bpf();
	else
		return 2;
	return fflush(stdout) != 0;
}
