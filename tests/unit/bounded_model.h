/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For test_bounded*.c: random stores with what is in them, stores by hand, and what questions take.
 */
#ifndef TESTS_BOUNDED_MODEL_H
#define TESTS_BOUNDED_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "count_bytes.h"
#include "store/store.h"
#include "store/writer.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a store and what is in it ---- */

#define TRIALS (COUNTS_BYTES ? 45 : 15) /* a sanitizer is many times slower */
#define WINDOW_NS 10000000000ll
#define FUNCTIONS 150
#define LINES 6
#define NODES_MAX 20000
#define WINDOWS_MAX 60

struct size {
	uint32_t windows, rows, tenants, queries, nodes;
	/* each function has LINES source lines: what differs in them alone is one node */
	bool lines;
};

struct row {
	uint32_t window, tenant, query, node, event, samples;
};

struct fixture {
	struct size size;
	char dir[64];
	struct store *s;
	struct row *rows;
	size_t n_rows;
	uint32_t parent[NODES_MAX], function[NODES_MAX], n_nodes;
	uint32_t child[NODES_MAX][FUNCTIONS]; /* 0: none */
	uint64_t random;
};

static uint32_t draw(struct fixture *f, uint32_t below)
{
	f->random = f->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(f->random >> 33) % below;
}

/* Small numbers are far more frequent. */
static uint32_t draw_skewed(struct fixture *f, uint32_t below)
{
	uint32_t x = draw(f, below);
	for (int i = 0; i < 3 && draw(f, 3); i++)
		x = draw(f, x + 1);
	return x;
}

static const struct store_meta meta = { .host = "h",
					.os = "o",
					.what = "w",
					.lost_names = (const char *const[]){ "x" },
					.n_lost = 1,
					.flagged_names = (const char *const[]){ "y" },
					.n_flagged = 1 };

/* An empty store in f->dir. */
static struct store_writer *begin_store(struct fixture *f, const struct store_options *o)
{
	struct store_writer *w;
	struct err err = { 0 };
	snprintf(f->dir, sizeof(f->dir), "/tmp/bounded.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	assert_int_equal(store_writer_open_with(&w, f->dir, &meta, o, &err), 0);
	return w;
}

static void add_labels(struct store_writer *w, const struct row *r, uint32_t *ret)
{
	char tenant[20], comm[20];
	snprintf(tenant, sizeof(tenant), "t%u", r->tenant);
	snprintf(comm, sizeof(comm), "c%u", r->tenant % 4);
	struct label l[3] = {
		{ .key = "comm",
		  .key_len = 4,
		  .str = comm,
		  .str_len = (uint32_t)strlen(comm),
		  .type = LABEL_STRING },
		{ .key = "query_id", .key_len = 8, .num = r->query, .type = LABEL_INT },
		{ .key = "tenant",
		  .key_len = 6,
		  .str = tenant,
		  .str_len = (uint32_t)strlen(tenant),
		  .type = LABEL_STRING },
	};
	assert_int_equal(store_add_set(w, l, r->query % 7 ? 3 : 1, ret),
			 0); /* some have no more than a comm */
}

/* id: some for each node, which are equal but for lines. */
static void make_stacks(struct fixture *f, struct store_writer *w, uint32_t (*id)[LINES])
{
	uint32_t frame[FUNCTIONS][LINES];
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		struct store_frame fr = { .kind = FRAME_USER };
		char name[20];
		snprintf(name, sizeof(name), "f%u", i);
		assert_int_equal(store_add_string(w, name, strlen(name), &fr.function), 0);
		for (uint32_t line = 0; line < LINES; line++) {
			fr.line = f->size.lines ? 10 + line : 0;
			assert_int_equal(store_add_frame(w, &fr, &frame[i][line]), 0);
		}
	}
	memset(id[0], 0, sizeof(id[0]));
	f->n_nodes = 1;
	for (uint32_t i = 1; i < f->size.nodes; i++) {
		uint32_t parent = draw_skewed(f, f->n_nodes), function = draw(f, FUNCTIONS);
		if (f->child[parent][function])
			continue;
		uint32_t n = f->n_nodes++;
		f->parent[n] = parent;
		f->function[n] = function;
		f->child[parent][function] = n;
		for (uint32_t line = 0; line < LINES; line++)
			assert_int_equal(store_add_stack(w, id[parent][(line + n) % LINES],
							 frame[function][line], &id[n][line]),
					 0);
	}
}

static void draw_row(struct fixture *f, uint32_t window, struct row *r)
{
	*r = (struct row){ window,
			   draw_skewed(f, f->size.tenants),
			   draw_skewed(f, f->size.queries),
			   0,
			   !draw(f, 5),
			   0 };
	r->node = draw(f, 40) ? draw_skewed(f, f->n_nodes) : 0;
	r->samples = 1 + (draw(f, 4) ? draw(f, 3) : draw(f, 400));
}

/* By hand: an unnamed one would be on the stack for a moment, and it is larger. */
static void empty(struct fixture *f, struct size size, uint64_t seed)
{
	memset(f, 0, sizeof(*f));
	f->size = size;
	f->random = seed;
}

static inline void make(struct fixture *f, struct size size, uint64_t seed)
{
	static const struct store_event events[2] = {
		{ "cpu-clock", "nanoseconds", 1000000, 1000000 }, { "page-faults", "count", 0, 1 }
	};
	struct store_options o;
	struct err err = { 0 };
	uint64_t zero = 0;
	empty(f, size, seed);
	store_options_default(&o);
	o.grace_ns = 0;
	o.reserve_bytes = 1;
	o.max_bytes = 1ull << 40;
	struct store_writer *w = begin_store(f, &o);
	uint32_t(*id)[LINES] = malloc(NODES_MAX * sizeof(*id)), event[2];
	make_stacks(f, w, id);
	f->rows = malloc((size_t)size.windows * size.rows * sizeof(*f->rows));
	for (int i = 0; i < 2; i++)
		assert_int_equal(store_add_event(w, &events[i], &event[i]), 0);
	for (uint32_t i = 0; i < size.windows; i++) {
		for (uint32_t k = 0; k < size.rows; k++) {
			struct row *r = &f->rows[f->n_rows++];
			uint32_t set;
			draw_row(f, i, r);
			add_labels(w, r, &set);
			assert_int_equal(store_add_row(w, set, id[r->node][k % LINES],
						       event[r->event], r->samples,
						       r->samples * events[r->event].period),
					 0);
		}
		struct store_cpu_totals cpu = { 0, 1, 1, &zero, &zero };
		struct store_totals t = { .cpu = &cpu, .n_cpus = 1 };
		int64_t t0 = 1700000000000000000ll + i * WINDOW_NS;
		assert_int_equal(store_commit_window(w, t0, t0 + WINDOW_NS, t0, &t, &err), 0);
	}
	assert_int_equal(store_compact(w, &err), 0);
	store_writer_close(w);
	free(id);
	assert_int_equal(store_open(&f->s, f->dir, &err), 0);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void fini(struct fixture *f)
{
	store_close(f->s);
	free(f->rows);
	nftw(f->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- memory ---- */

/* Blocks that are read, chunks of label texts, bits of stacks. */
#define ALLOWED ((int64_t)3 << 20)

static int64_t most_over;

static int64_t begin_memory(void)
{
	most = used;
	return used;
}

static void check_memory(int64_t before, size_t budget)
{
	int64_t over = most - before - (int64_t)budget;
	most_over = over > most_over ? over : most_over;
	if (COUNTS_BYTES && over > ALLOWED)
		fail_msg("%lld bytes over a budget of %zu", (long long)over, budget);
}

#endif
