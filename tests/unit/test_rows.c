/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a block: sorted, written by groups, read in pieces; columns that say something else. */
#include "store/block/rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 8 /* from COLUMN_LEAF on */
#define SETS 9
#define LEAVES 40
#define MOST 700

static const struct store_event events[2] = { { "a", "u", 0, 10 }, { "b", "u", 0, 3 } };
static const struct rows_limits limits = { SETS, LEAVES, 2, events };
static uint64_t random_state = 3;

static uint32_t draw(uint32_t below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(random_state >> 33) % below;
}

/* Sums by leaf, event and set: what any order of the rows comes to. */
struct model {
	uint64_t samples[LEAVES][2][SETS], value[LEAVES][2][SETS];
};

static void draw_rows(struct rows *r, size_t n, bool odd, struct model *m)
{
	*r = (struct rows){ .n = 0 };
	*m = (struct model){ 0 };
	for (size_t i = 0; i < n; i++) {
		struct store_row row = { draw(SETS), draw(LEAVES), draw(2), 1 + draw(9), 0 };
		row.value = row.samples * events[row.event].period + (odd ? draw(3) : 0);
		assert_int_equal(rows_add(r, &row), 0);
		m->samples[row.stack][row.event][row.set] += row.samples;
		m->value[row.stack][row.event][row.set] += row.value;
	}
}

static size_t count_sums(const struct model *m)
{
	size_t n = 0;
	for (size_t i = 0; i < LEAVES * 2 * SETS; i++)
		n += (&m->samples[0][0][0])[i] > 0;
	return n;
}

static void check_sorted(const struct rows *r, const struct model *m)
{
	uint64_t last = 0;
	assert_int_equal(r->n, count_sums(m));
	for (size_t i = 0; i < r->n; i++) {
		const struct store_row *v = &r->v[i];
		uint64_t place = ((uint64_t)v->stack * 2 + v->event) * SETS + v->set + 1;
		assert_true(place > last);
		last = place;
		assert_int_equal(v->samples, m->samples[v->stack][v->event][v->set]);
		assert_int_equal(v->value, m->value[v->stack][v->event][v->set]);
	}
}

/* On both sides of where another way to sort begins. */
static void sorted(void **state)
{
	static const size_t sizes[] = { 0, 1, 2, 3, 31, 32, 33, 100, 511, 512, 513, MOST };
	static struct model m;
	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (int k = 0; k < 4; k++) {
			struct rows r;
			draw_rows(&r, sizes[i], true, &m);
			rows_sort(&r);
			check_sorted(&r, &m);
			rows_fini(&r);
		}
}

static void put_groups(struct rows_writer *w, const struct rows *r)
{
	for (size_t i = 0, end; i < r->n; i = end) {
		for (end = i + 1; end < r->n && r->v[end].stack == r->v[i].stack &&
				  r->v[end].event == r->v[i].event;
		     end++)
			;
		assert_int_equal(rows_put(w, &r->v[i], end - i), 0);
	}
}

static struct block_head head_of(const struct block *b)
{
	return (struct block_head){ .info = b->info, .has = b->has };
}

/* Read in pieces of so many rows; 0: sums by set. */
static void check_back(const struct block *b, const struct model *m, unsigned cap)
{
	static struct model got;
	struct block_head h = head_of(b);
	struct rows_reader in;
	struct store_row some[64];
	int more, n;
	got = (struct model){ 0 };
	rows_begin(&in, &h, b->column + COLUMN_LEAF, true, &limits);
	while ((more = rows_next_group(&in)) > 0) {
		const struct store_row *g = &in.group;
		uint64_t samples = 0, value = 0;
		struct rows_sum by_set[SETS] = { 0 };
		if (!cap)
			assert_int_equal(rows_sum(&in, by_set), 0);
		while (cap && (n = rows_take(&in, some, cap)) > 0)
			for (int i = 0; i < n; i++) {
				assert_int_equal(some[i].stack, g->stack);
				assert_int_equal(some[i].event, g->event);
				by_set[some[i].set].samples += some[i].samples;
				by_set[some[i].set].value += some[i].value;
			}
		for (size_t k = 0; k < SETS; k++) {
			got.samples[g->stack][g->event][k] = by_set[k].samples;
			got.value[g->stack][g->event][k] = by_set[k].value;
			samples += by_set[k].samples;
			value += by_set[k].value;
		}
		assert_int_equal(samples, g->samples);
		assert_int_equal(value, g->value);
	}
	assert_int_equal(more, 0);
	assert_memory_equal(&got, m, sizeof(got));
}

/* The groups alone, also where there are no rows. */
static void check_groups(const struct block *b, const struct model *m)
{
	struct block_head h = head_of(b);
	struct rows_reader in;
	uint64_t samples = 0, want = 0;
	int more;
	rows_begin(&in, &h, b->column + COLUMN_LEAF, false, &limits);
	while ((more = rows_next_group(&in)) > 0)
		samples += in.group.samples;
	assert_int_equal(more, 0);
	for (size_t i = 0; i < LEAVES * 2 * SETS; i++)
		want += (&m->samples[0][0][0])[i];
	assert_int_equal(samples, want);
}

static void written_and_read(void **state)
{
	static struct model m;
	(void)state;
	for (size_t n = 0; n < MOST; n += n < 20 ? 1 : 97)
		for (int odd = 0; odd < 2; odd++)
			for (int folded = 0; folded < 2; folded++) {
				struct rows r;
				struct block b = { 0 };
				struct rows_writer w = { .events = events, .folded = folded };
				draw_rows(&r, n, odd, &m);
				rows_sort(&r);
				put_groups(&w, &r);
				rows_finish(&w, &b);
				assert_int_equal(b.info.n_rows, folded ? 0 : r.n);
				bool values = b.has >> COLUMN_VALUE & 1;
				assert_true(values == (b.has >> COLUMN_SET_VALUE & 1) || folded);
				assert_false(values && !odd);
				assert_int_equal(b.has >> COLUMN_COUNT & 1, !folded);
				check_groups(&b, &m);
				for (unsigned cap = 0; !folded && cap < 5; cap++)
					check_back(&b, &m, cap);
				block_fini(&b);
				rows_fini(&r);
			}
}

/* As many rows and groups as a block may have. */
static void most(void **state)
{
	const struct store_row v[3] = { { 0, 1, 0, 1, 10 },
					{ 1, 1, 0, 1, 10 },
					{ 2, 1, 0, 1, 10 } };
	struct rows_writer w = { .events = events, .n_rows = (1u << 22) - 2 };
	(void)state;
	assert_int_equal(rows_put(&w, v, 3), -E2BIG);
	assert_int_equal(rows_put(&w, v, 2), 0);
	assert_int_equal(w.n_rows, 1u << 22);
	rows_writer_fini(&w);
	w = (struct rows_writer){ .events = events, .folded = true, .n_groups = (1u << 22) - 1 };
	assert_int_equal(rows_put(&w, v, 3), 0);
	assert_int_equal(rows_put(&w, v, 1), -E2BIG);
	rows_writer_fini(&w);
}

/* ---- columns that say something else ---- */

/*
 * Three groups: leaf 1, event 0, 5 samples in sets 2 and 4; leaf 1, event 1, a sample in set 0;
 * leaf 3, event 0, 4 samples in set 5.
 */
static const uint64_t base[COLUMNS][5] = {
	{ 3, 1, 0, 2 }, { 3, 0, 1, 0 },	   { 3, 5, 1, 4 }, { 0 },
	{ 2, 2, 1 },	{ 4, 2, 1, 0, 5 }, { 1, 1 },	   { 0 },
};
enum { LEAF, EVENT, SAMPLES, VALUE, COUNT, SET, SET_SAMPLES, SET_VALUE };

static int read_columns(const uint64_t v[COLUMNS][5], uint32_t n_groups, uint32_t n_rows, bool sums)
{
	const struct rows_limits few = { 6, 4, 2, events };
	struct block_head h = { .info = { .n_folded = n_groups, .n_rows = n_rows } };
	struct buf raw[COLUMNS];
	struct rows_reader in;
	struct rows_sum by_set[6] = { 0 };
	int more;
	for (size_t i = 0; i < COLUMNS; i++) {
		raw[i] = (struct buf)BUF_INIT;
		for (size_t k = 1; k <= v[i][0]; k++)
			assert_int_equal(buf_add_varint(&raw[i], v[i][k]), 0);
	}
	rows_begin(&in, &h, raw, true, &few);
	while ((more = rows_next_group(&in)) > 0)
		if (sums && rows_sum(&in, by_set)) {
			more = -EBADMSG;
			break;
		}
	for (size_t i = 0; i < COLUMNS; i++)
		buf_fini(&raw[i]);
	return more;
}

static void one_number_wrong(void **state)
{
	static const struct {
		size_t column, at;
		uint64_t v;
		int rc;
	} changes[] = {
		{ LEAF, 3, 3, -EBADMSG },
		{ LEAF, 3, 1, 0 },
		{ LEAF, 1, 4, -EBADMSG },
		{ LEAF, 1, 0, 0 },
		{ LEAF, 3, 1ull << 32, -EBADMSG },
		{ EVENT, 2, 0, -EBADMSG },
		{ EVENT, 2, 2, -EBADMSG },
		{ EVENT, 3, 1, 0 },
		{ SAMPLES, 2, 0, -EBADMSG },
		{ SAMPLES, 3, 5, 0 },
		{ SAMPLES, 1, 2, -EBADMSG },
		{ SAMPLES, 1, 3, 0 },
		{ COUNT, 1, 0, -EBADMSG },
		{ COUNT, 1, 3, -EBADMSG },
		{ COUNT, 2, 0, -EBADMSG },
		{ COUNT, 2, 2, -EBADMSG },
		{ SET, 2, 2, 0 },
		{ SET, 2, 3, -EBADMSG },
		{ SET, 4, 6, -EBADMSG },
		{ SET, 2, 1ull << 32, -EBADMSG },
		{ SET_SAMPLES, 1, 3, 0 },
		{ SET_SAMPLES, 1, 4, -EBADMSG },
		{ SET_SAMPLES, 1, UINT64_MAX, -EBADMSG },
		{ LEAF, 0, 2, -EBADMSG },
		{ EVENT, 0, 2, -EBADMSG },
		{ SET, 0, 3, -EBADMSG },
		{ SET_SAMPLES, 0, 0, -EBADMSG },
		{ COUNT, 0, 1, -EBADMSG },
		{ LEAF, 0, 4, -EBADMSG },
		{ SAMPLES, 0, 4, -EBADMSG },
		{ COUNT, 0, 3, -EBADMSG },
		{ SET_SAMPLES, 0, 2, -EBADMSG },
	};
	(void)state;
	for (int sums = 0; sums < 2; sums++) {
		assert_int_equal(read_columns(base, 3, 4, sums), 0);
		assert_int_equal(read_columns(base, 2, 4, sums), -EBADMSG);
		assert_int_equal(read_columns(base, 4, 4, sums), -EBADMSG);
		assert_int_equal(read_columns(base, 3, 3, sums), -EBADMSG);
		assert_int_equal(read_columns(base, 3, 5, sums), -EBADMSG);
		for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
			uint64_t v[COLUMNS][5];
			memcpy(v, base, sizeof(v));
			v[changes[i].column][changes[i].at] = changes[i].v;
			int rc = read_columns(v, 3, 4, sums);
			if (rc != changes[i].rc)
				fail_msg("change %zu: %d", i, rc);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sorted),
		cmocka_unit_test(written_and_read),
		cmocka_unit_test(most),
		cmocka_unit_test(one_number_wrong),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
