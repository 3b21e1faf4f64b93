/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of bench_store share. main.c describes the load and the commands. */
#ifndef BENCH_STORE_H
#define BENCH_STORE_H

#include "../figure.h"
#include "store/store.h"
#include "store/writer.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_NS 10000000000ll
/* 2026-01-01T00:00:00Z: a slot of every level up to a day begins here */
#define T0 1767225600000000000ll
#define SAMPLES 30000
#define TENANTS 200
#define QUERIES_MAX 2800
#define ZIPF 1.05
#define LOW_HOME 0.52
#define HIGH_HOME 0.2
#define MADE_FUNCTIONS 9921

/* ---- common.c ---- */

extern struct err err;

/* End the program with a message when rc is not 0, or p is NULL. */
void check(int rc, const char *what);
void *need(void *p);

/* Random numbers from a fixed seed: 64 bits; below a bound; in [0, 1). */
uint64_t draw64(void);
uint32_t draw(uint32_t below);
double draw_real(void);

/* Seconds on the clock; CPU seconds of this process. */
double wall(void);
double cpu(void);

/* The number behind `name` in /proc/self/<file>, as it stands there. */
uint64_t self_number(const char *file, const char *name);
double resident_mib(void);
/* Begin to measure the most memory that is resident, and tell how many MiB more it was since. */
double peak_begin(void);
double peak_mib(double begun);

/* A number of the environment, or another where there is none. */
uint32_t setting(const char *name, uint32_t otherwise);

struct zipf {
	uint32_t n, *alias;
	double *keep;
};
struct zipf zipf_new(uint32_t n);
uint32_t zipf_draw(const struct zipf *z);

#define N_LEVELS 10
extern const char *const level_names[N_LEVELS]; /* what the names of segment files begin with */

/* Bytes of the segments of a store by level, each with its dictionaries; and of all files. */
struct sizes {
	uint64_t level[N_LEVELS], all;
};
extern struct sizes sizes;
void measure(const char *dir);

/* ---- stacks.c ---- */

/*
 * Stacks as folded text, root first. A writer learns of a stack when it is drawn first, as from a
 * recorder.
 */
struct corpus {
	struct store_writer *w;
	char **lines;
	uint32_t *ids; /* 0: not yet in the store */
	size_t n, cap;
};

/* Take `want` distinct stacks of the *.folded files in dir, or make them up. */
void real_stacks(struct corpus *c, const char *dir, uint32_t want);
void made_stacks(struct corpus *c, uint32_t want);
uint32_t stack_id(const struct corpus *c, uint32_t i);

/* One window as it was recorded: stacks of the corpus, which must have all, and their samples. */
struct recorded {
	struct {
		uint32_t stack, samples;
	} *v;
	size_t n;
};
/* The windows of the *.folded files in dir, in the order of their names. */
size_t real_windows(const struct corpus *c, const char *dir, struct recorded **ret);

/* ---- the commands ---- */

void write_store(const char *dir, const char *kind, uint64_t windows, int64_t seconds,
		 const char *stacks);
void query_store(const char *dir, const char *only); /* only: of this range, NULL: of all */
void cover_store(const char *dir);
void compare(const char *dir, const char *scratch, uint64_t windows);

#endif
