/* SPDX-License-Identifier: Apache-2.0 */
/* Stores of many windows for the tests of the segment tree, and what is wrong with a store. */
#ifndef TESTS_SEGMENTS_H
#define TESTS_SEGMENTS_H

#include "store/damage.h"
#include "store/writer.h"
#include "unit/store_model.h"

#define T0 1700000000000000000ll
#define SECOND 1000000000ll

static inline int commit_at(struct model *m, struct store_writer *sw, int64_t t0, size_t n_rows)
{
	struct err err = { 0 };
	struct model_window w = { .t0 = t0, .t1 = t0 + 10 * SECOND };
	uint64_t i = m->n, lost[2] = { i, 1 }, flagged[1] = { 2 };
	struct store_cpu_totals cpu = { 1, 100 + i, 99, lost, flagged };
	struct store_totals t = { &cpu, 1, i, 0, i };
	model_fill(m, sw, &w, n_rows);
	int rc = store_commit_window(sw, w.t0, w.t1, t0 - T0 + 1, &t, &err);
	if (rc)
		fail_msg("%s", err.text);
	m->w[m->n++] = w;
	return rc;
}

/*
 * Mostly one window after the other; pauses of all lengths; windows that come late, some after
 * their parents.
 */
static inline void fill(struct model *m, struct store_writer **sw, const char *dir,
			const struct store_options *o)
{
	int64_t t = T0;
	struct err err = { 0 };
	while (m->n < 400) {
		uint32_t what = model_random(m, 100);
		if (what < 5)
			t += SECOND * model_random(m, 100);
		else if (what < 8)
			t += 60 * SECOND * model_random(m, 300);
		else if (what < 10)
			t += 3600 * SECOND * model_random(m, 300);
		if (what >= 96 && m->n) {
			commit_at(m, *sw, t - SECOND * model_random(m, 4000), 12);
			continue;
		}
		if (what == 95) {
			store_writer_close(*sw);
			assert_int_equal(store_writer_open_with(sw, dir, &model_meta, o, &err), 0);
		}
		commit_at(m, *sw, t, 12);
		t += 10 * SECOND;
		if (store_writer_state(*sw)->parents_failed)
			fail_msg("%s", store_writer_state(*sw)->last_error);
	}
}

static inline int setup(void **state)
{
	struct store_writer *w;
	struct fixture *f = fixture_new(31, &model_options, &w);
	fill(&f->m, &w, f->dir, &model_options);
	fixture_open(f, w);
	*state = f;
	return 0;
}

struct findings {
	size_t damaged, torn, cut;
	char first[400];
};

static inline void count(void *ctx, const struct store_finding *f)
{
	struct findings *n = ctx;
	if (!n->damaged && f->kind == STORE_DAMAGED)
		snprintf(n->first, sizeof(n->first), "%s at %" PRIu64 ": %s", f->path, f->offset,
			 f->text);
	n->damaged += f->kind == STORE_DAMAGED;
	n->torn += f->kind == STORE_TORN;
	n->cut += f->kind == STORE_CUT;
}

static inline struct findings verify(const char *dir)
{
	struct findings n = { 0 };
	struct err err = { 0 };
	if (store_verify(dir, count, &n, &err)) {
		n.damaged++; /* both headers */
		assert_true(err.text[0] != 0);
	}
	return n;
}

#endif
