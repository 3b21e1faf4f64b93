/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_key [ROUNDS]: what the key of a label set costs (include/ascribe/label_key.h), from the
 * labels' text on, in ns of CPU time per set. "key": a label is one text, as the agent's tags are;
 * so it is in the library, too, which keeps the hash of each key. "two texts": key and value hashed
 * afresh. Beside it, in the same rounds: sort, leave out what is there twice, hash the rest. The
 * datadog-agent's own benchmark was measured once on the machine of docs/benchmarks.md.
 */
#include <ascribe/label_key.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "figure.h"

#define LABELS_MAX 4096
#define SIZES 13
#define ROUNDS_MAX 101

struct text {
	const char *p;
	uint32_t len;
};

struct label {
	struct text key, value;
};

/*
 * For 1, 2, 4, ... 4096 labels; in the second row every label twice, so half as many different
 * ones. 0: not measured.
 */
static const double agent[2][SIZES] = {
	{ 18.6, 23.7, 35.8, 58.5, 104, 211, 421, 748, 1590, 8602, 37826, 0, 318076 },
	{ 18.7, 26.4, 39.5, 94, 196, 356, 740, 1975, 3962, 7937, 75268, 0, 730235 },
};

static struct ascribe_unique unique;
static char pool[LABELS_MAX * 24], message[LABELS_MAX * 24];
static struct label labels[LABELS_MAX];
static struct text texts[LABELS_MAX], sorted[LABELS_MAX];
static volatile uint64_t sink;

/* The label as one text, as the agent has its tags. */
ASCRIBE_HOT ascribe_u64 hash_text(const void *ctx, unsigned long i)
{
	const struct text *t = (const struct text *)ctx + i;
	return ascribe_hash(0, t->p, t->len);
}

ASCRIBE_HOT ascribe_u64 hash_pair(const void *ctx, unsigned long i)
{
	const struct label *l = (const struct label *)ctx + i;
	return ascribe_label_hash(0, ASCRIBE_KEY_STRING, l->key.p, l->key.len, l->value.p,
				  l->value.len);
}

static uint64_t run_text(size_t n)
{
	return ascribe_set_key(&unique, n, hash_text, texts);
}

static uint64_t run_pair(size_t n)
{
	return ascribe_set_key(&unique, n, hash_pair, labels);
}

static int text_cmp(const struct text *a, const struct text *b)
{
	int c = memcmp(a->p, b->p, a->len < b->len ? a->len : b->len);
	return c ? c : (a->len > b->len) - (a->len < b->len);
}

static int compare(const void *a, const void *b)
{
	return text_cmp(a, b);
}

static uint64_t run_sort(size_t n)
{
	uint64_t h = 0;
	memcpy(sorted, texts, n * sizeof(texts[0]));
	qsort(sorted, n, sizeof(sorted[0]), compare);
	for (size_t i = 0; i < n; i++)
		if (!i || text_cmp(&sorted[i - 1], &sorted[i]))
			h = ascribe_hash(h, sorted[i].p, sorted[i].len);
	return h;
}

static uint64_t rnd(uint64_t below)
{
	static uint64_t s = 20240901;
	s = s * 6364136223846793005ull + 1442695040888963407ull;
	return (s >> 33) % below;
}

/*
 * n labels of 18 to 22 bytes, key and value together, in no order, each of them `times` times. They
 * stand one behind the other as they do in a record or a message, a label that is said twice,
 * twice.
 */
static void make_labels(size_t n, size_t times)
{
	static const char *const stem[] = {
		"tenant", "query", "service", "database", "zone", "step"
	};
	char *at = pool;
	for (size_t i = 0; i < n; i++) {
		struct label *l = &labels[i];
		if (i >= n / times) {
			*l = labels[i - n / times];
			continue;
		}
		int k = sprintf(at, "%s%u", stem[rnd(6)], (unsigned)rnd(100));
		l->key = (struct text){ at, (uint32_t)k };
		at += k;
		int v = sprintf(at, "%0*u", (int)(18 + rnd(5)) - k, (unsigned)i);
		l->value = (struct text){ at, (uint32_t)v };
		at += v;
	}
	for (size_t i = n; i > 1; i--) {
		size_t k = rnd(i);
		struct label l = labels[i - 1];
		labels[i - 1] = labels[k];
		labels[k] = l;
	}
	at = message;
	for (size_t i = 0; i < n; i++) {
		struct label *l = &labels[i];
		texts[i] = (struct text){ at, l->key.len + l->value.len };
		/* The value stands right behind the key */
		l->key.p = memcpy(at, l->key.p, texts[i].len);
		l->value.p = at + l->key.len;
		at += texts[i].len;
	}
}

static double cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double measure(uint64_t (*run)(size_t), size_t n, long calls)
{
	double begin = cpu_ns();
	for (long i = 0; i < calls; i++)
		sink += run(n);
	return (cpu_ns() - begin) / (double)calls;
}

static void tell(const char *name, const char *who, size_t n, const double *v, int rounds)
{
	char id[64];
	snprintf(id, sizeof(id), "key/%s@%zu", name, n);
	figure(id, who, v, (size_t)rounds, 1);
}

static void row(size_t n, size_t times, double theirs, int rounds)
{
	double text[ROUNDS_MAX], pair[ROUNDS_MAX], sort[ROUNDS_MAX];
	const char *name = times == 1 ? "key" : "twice";
	make_labels(n, times);
	long calls = 20 + (long)(200000 / n), sorts = 1 + (long)(20000 / n);
	measure(run_text, n, calls);
	for (int r = 0; r < rounds; r++) {
		text[r] = measure(run_text, n, calls);
		pair[r] = measure(run_pair, n, calls);
		sort[r] = measure(run_sort, n, sorts);
	}
	tell(name, "ascribe", n, text, rounds);
	if (theirs > 0)
		tell(name, "the datadog-agent's key", n, &theirs, 1);
	if (times > 1)
		return;
	tell("afresh", "ascribe", n, pair, rounds);
	tell("sorted", "ascribe", n, sort, rounds);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 15;
	if (rounds < 1 || rounds > ROUNDS_MAX)
		rounds = 15;
	printf("The key of a label set, of labels of 18 to 22 bytes: ns per set, hashing included\n");
	for (int i = 0; i < SIZES; i++)
		row(1ul << i, 1, agent[0][i], rounds);
	for (int i = 1; i < SIZES; i++)
		row(1ul << i, 2, agent[1][i], rounds);
	return 0;
}
