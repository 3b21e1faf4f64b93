/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the benchmarks share: loads, programs of ours and of others as children with what they cost,
 * medians, figures. A benchmark that cannot run says why and exits 1.
 */
#ifndef ASCRIBE_TESTS_BENCH_H
#define ASCRIBE_TESTS_BENCH_H

#include "figure.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BENCH_CPUS_MAX 1024
#define BENCH_ARGS_MAX 16

/* Where the built programs are: the directory above the running benchmark. */
const char *bench_build(void);
/*
 * A directory of our own for stores and the like; removed by bench_cleanup, which ends the loads
 * too.
 */
const char *bench_tmp(void);
void bench_cleanup(void);

__attribute__((noreturn, format(printf, 1, 2))) void bench_die(const char *fmt, ...);

/* The online CPUs. */
unsigned bench_cpus(const unsigned **ret);

/*
 * Start one bench_load on each CPU, e.g. "20", "label"; wait until all run. bench_load_stop ends
 * them.
 */
void bench_load_start(const char *frames, const char *label, const char *cold);
void bench_load_stop(void);

/*
 * Start a program, its stdout and stderr into files of these names in bench_tmp (NULL: nowhere).
 * argv ends with NULL.
 */
pid_t bench_spawn(const char *const *argv, const char *out, const char *err);

struct bench_cost {
	double cpu_s; /* user and system, of the program and the children that it waited for */
	double rss_mib;
	int status;
};
struct bench_cost bench_wait(pid_t tgid);

/*
 * From here on this process and its children come before what else runs on the host. A load that
 * runs for a third of the time finds cold caches at every turn, and so do its samples.
 */
void bench_first(void);

uint64_t bench_now_ns(void);
void bench_sleep_ms(unsigned ms);

/* Sorts v. */
double bench_median(double *v, size_t n);

#endif
