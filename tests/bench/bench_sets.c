/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_sets [ROUNDS]: what it costs to find the label set of a row, in ns of CPU time per row. The
 * sets are known to the open window, as those of nearly all rows are. Two kinds of lists:
 *
 *  - as rows have them: labels of the system in the recorder's order, then those of the
 *    application;
 *  - labels of 18 to 22 bytes, key and value together, in no order, for the comparison.
 *
 * "sort first" is the same after labels_normalize. "agent" is the key alone, from the
 * datadog-agent's own benchmark, measured once on the machine of docs/benchmarks.md: it has no
 * look-up behind it.
 */
#include "labels/labels.h"
#include "store/dict/setpool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "figure.h"

#define LABELS_MAX 256
#define SETS 64 /* a few hundred KiB of texts with 16 labels each */
#define SIZES 7
#define ROUNDS_MAX 101
#define KEY_SIZE 16
#define VALUE_SIZE 128

static const size_t sizes[SIZES] = { 4, 8, 16, 32, 64, 128, 256 };
static const double agent[SIZES] = { 35.8, 58.5, 104, 211, 421, 748, 1590 };
static const char *const system_keys[] = { "comm",   "tgid",	  "tid", "thread", "exe",
					   "cgroup", "container", "pod", "unit" };
#define N_SYSTEM (sizeof(system_keys) / sizeof(system_keys[0]))

static struct label sets[SETS][LABELS_MAX];
static char keys[LABELS_MAX][KEY_SIZE], values[SETS][LABELS_MAX][VALUE_SIZE];
static struct setpool pool;
static volatile uint32_t sink;

static void set_text(struct label *l, char *room, const char *key, unsigned int set)
{
	l->key = key;
	l->key_len = (uint32_t)strlen(key);
	if (!strcmp(key, "tid") || !strcmp(key, "tgid")) {
		l->type = LABEL_INT;
		l->num = 4000 + set;
		return;
	}
	if (!strcmp(key, "cgroup"))
		snprintf(room, VALUE_SIZE, "/system.slice/docker-%064u.scope", set % 8);
	else if (!strcmp(key, "container"))
		snprintf(room, VALUE_SIZE, "%064u", set % 8);
	else
		snprintf(room, VALUE_SIZE, "%s-of-%u", key, set % 16);
	l->str = room;
	l->str_len = (uint32_t)strlen(room);
}

/* Labels of the application are sorted among themselves, as their definitions are. */
static void make_rows(size_t n)
{
	for (size_t i = 0; i < n; i++)
		snprintf(keys[i], KEY_SIZE, "app.key%03u", (unsigned int)(i % 1000));
	for (unsigned int s = 0; s < SETS; s++)
		for (size_t i = 0; i < n; i++) {
			sets[s][i] = (struct label){ .type = LABEL_STRING };
			set_text(&sets[s][i], values[s][i], i < N_SYSTEM ? system_keys[i] : keys[i],
				 s);
		}
}

static uint32_t rnd(uint32_t below)
{
	static uint64_t state = 20240901;
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(state >> 33) % below;
}

static void make_plain(size_t n)
{
	for (size_t i = 0; i < n; i++)
		snprintf(keys[i], KEY_SIZE, "tenant%03u", (unsigned int)(i % 1000));
	for (unsigned int s = 0; s < SETS; s++) {
		for (size_t i = 0; i < n; i++) {
			struct label *l = &sets[s][i];
			snprintf(values[s][i], VALUE_SIZE, "%0*u", (int)(9 + rnd(5)), s);
			*l = (struct label){ .type = LABEL_STRING,
					     .key = keys[i],
					     .key_len = (uint32_t)strlen(keys[i]),
					     .str = values[s][i],
					     .str_len = (uint32_t)strlen(values[s][i]) };
		}
		for (size_t i = n; i > 1; i--) {
			size_t k = rnd((uint32_t)i);
			struct label l = sets[s][i - 1];
			sets[s][i - 1] = sets[s][k];
			sets[s][k] = l;
		}
	}
}

static void find_sets(size_t n, bool sort)
{
	struct label v[LABELS_MAX];
	for (size_t s = 0; s < SETS; s++) {
		const struct label *list = sets[s];
		size_t n_list = n;
		uint32_t id;
		if (sort) {
			list = memcpy(v, sets[s], n * sizeof(*v));
			n_list = labels_normalize(v, n);
		}
		if (setpool_add(&pool, list, n_list, &id))
			abort();
		sink += id;
	}
}

static double cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double measure(size_t n, bool sort, long calls)
{
	double begin = cpu_ns();
	for (long i = 0; i < calls; i++)
		find_sets(n, sort);
	return (cpu_ns() - begin) / (double)calls / SETS;
}

static void tell(const char *name, const char *who, size_t n, const double *v, int rounds)
{
	char id[64];
	snprintf(id, sizeof(id), "row/%s@%zu", name, n);
	figure(id, who, v, (size_t)rounds, 1);
}

/* Lists of n labels as they are in `sets` now. */
static void measure_both(const char *name, size_t n, int rounds)
{
	double found[ROUNDS_MAX], sorted[ROUNDS_MAX];
	char sorted_name[32];
	long calls = 1 + (long)(4000 / n);
	if (setpool_init(&pool))
		abort();
	measure(n, false, calls);
	for (int r = 0; r < rounds; r++) {
		found[r] = measure(n, false, calls);
		sorted[r] = measure(n, true, calls);
	}
	setpool_fini(&pool);
	snprintf(sorted_name, sizeof(sorted_name), "%s-sorted", name);
	tell(name, "ascribe", n, found, rounds);
	tell(sorted_name, "ascribe", n, sorted, rounds);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 15;
	if (rounds < 1 || rounds > ROUNDS_MAX)
		rounds = 15;
	printf("The label set of a row, one of %d: ns per row\n", SETS);
	for (int i = 0; i < SIZES; i++) {
		size_t n = sizes[i];
		make_rows(n);
		measure_both("row", n, rounds);
		make_plain(n);
		measure_both("text", n, rounds);
		tell("agent", "the datadog-agent's key", n, &agent[i], 1);
	}
	return 0;
}
