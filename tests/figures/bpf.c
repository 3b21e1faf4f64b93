/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the verifier says of each BPF program: instructions that it looked at, and bytes of stack.
 * The programs are loaded as a recorder of two CPUs would. libbpf asks the kernel by syscall(), in
 * whose place is ours: it asks for the verifier's statistics, too.
 */
#include "figures/figures.h"
#include "sampler/programs.h"

#include <dlfcn.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOG_STATS 4 /* BPF_LOG_STATS of linux/bpf_verifier.h */
#define LOG_BYTES (1u << 20)

static const char *loading; /* what is recorded; NULL: nothing is loaded */

/* "stack depth 96+0+24": of the program and of each function that the verifier saw in it. */
static uint64_t sum_stack(const char *log)
{
	const char *p = strstr(log, "stack depth ");
	uint64_t sum = 0;
	for (p = p ? p + strlen("stack depth ") : ""; *p >= '0' && *p <= '9';) {
		char *end;
		sum += strtoul(p, &end, 10);
		p = *end == '+' ? end + 1 : end;
	}
	return sum;
}

/* Programs that an earlier recording had alike are printed once. */
struct verified {
	char name[BPF_OBJ_NAME_LEN];
	uint64_t instructions, stack;
};

static bool is_new(const struct verified *v)
{
	static struct verified seen[64];
	static size_t n;
	for (size_t i = 0; i < n; i++)
		if (!memcmp(&seen[i], v, sizeof(*v)))
			return false;
	figures_check(n < 64 ? 0 : -7, "programs");
	seen[n++] = *v;
	return true;
}

static void print_program(const char *name, const char *log)
{
	char full[64];
	const char *p = strstr(log, "processed ");
	struct verified v = { .stack = sum_stack(log) };
	figures_check(p ? 0 : -61, "the verifier's statistics");
	v.instructions = strtoul(p + strlen("processed "), NULL, 10);
	snprintf(v.name, sizeof(v.name), "%s", name);
	if (!is_new(&v))
		return;
	snprintf(full, sizeof(full), "%s.%s", loading, v.name);
	figure("verified", full, v.instructions, "instructions",
	       "of a BPF program, as the verifier follows it");
	figure("stack", full, v.stack, "bytes", "of it and of all its functions, summed");
}

long syscall(long number, ...)
{
	static long (*real)(long, ...);
	static char log[LOG_BYTES];
	long a[6];
	va_list ap;
	va_start(ap, number);
	for (size_t i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	union bpf_attr *attr = (union bpf_attr *)a[1];
	if (number != __NR_bpf || a[0] != BPF_PROG_LOAD || !loading || attr->log_level ||
	    strncmp(attr->prog_name, "on_", 3))
		return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	attr->log_level = LOG_STATS;
	attr->log_buf = (uint64_t)(uintptr_t)log;
	attr->log_size = sizeof(log);
	log[0] = 0;
	const long rc = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (rc >= 0)
		print_program(attr->prog_name, log);
	return rc;
}

static void load(const char *what, struct programs_wanted *w)
{
	struct programs p;
	struct err err = { 0 };
	w->n_cpus = 2;
	w->n_procs = SAMPLER_PROCESSES;
	w->cfg.hz = 99;
	w->cfg.window_s = 10;
	loading = what;
	const int rc = programs_load(&p, w, &err);
	if (rc)
		fprintf(stderr, "figures: %s: %s\n", what, err.text);
	figures_check(rc, what);
	programs_close(&p);
	loading = NULL;
}

static void add_event(struct programs_wanted *w, const char *text)
{
	struct err err = { 0 };
	const int rc = event_parse(&w->cfg.event[w->cfg.n_events++], text, 99, &err);
	if (rc)
		fprintf(stderr, "figures: %s\n", err.text);
	figures_check(rc, text);
}

void figures_bpf(void)
{
	struct programs_wanted cpu = { .cfg.selection = SELECTION_TGIDS }, calls = { 0 },
			       wall = { 0 };
	add_event(&cpu, "cpu-clock");
	load("cpu", &cpu);

	calls.cfg.event[calls.cfg.n_events++] =
		(struct event){ .name = "tracepoint", .tracepoint = true };
	calls.cfg.event[calls.cfg.n_events++] = (struct event){
		.name = "calls", .probe = true, .calls = true, .values = true, .label = 1
	};
	load("calls", &calls);

	add_event(&wall, "cpu-clock");
	add_event(&wall, EVENT_OFF);
	add_event(&wall, EVENT_RUNQ);
	load("wall", &wall);
	wall.cfg.wakers = true;
	load("waker", &wall);
	strcpy(wall.cfg.latency, "query_id");
	load("latency", &wall);
}
