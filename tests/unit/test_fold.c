/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small rows of a window become (other): sums of each label set stay, the largest rows stay, the
 * count is kept.
 */
#include "store/write/writer_int.h"
#include "store/writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SETS 6
#define EVENTS 3 /* the last one is never folded */
#define STACKS 3000

static char dir[64];
static struct store_writer *w;
static uint32_t set[SETS], event[EVENTS], stack[STACKS], other, pinned;
static uint64_t seed = 1;

struct sum {
	uint64_t samples, value;
};

static uint32_t draw(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % below;
}

static uint32_t make_stack(const char *name)
{
	struct store_frame f = { .kind = FRAME_USER };
	uint32_t frame, id;
	assert_int_equal(store_add_string(w, name, strlen(name), &f.function), 0);
	assert_int_equal(store_add_frame(w, &f, &frame), 0);
	assert_int_equal(store_add_stack(w, 0, frame, &id), 0);
	return id;
}

static int set_up(void **state)
{
	static const char *const names[EVENTS] = { "cpu-clock", "off-cpu", "off-cpu.lengths" };
	const struct store_meta meta = { .host = "h", .os = "o", .what = "w", .created_ns = 1 };
	struct err err = { 0 };
	char name[32];
	(void)state;
	strcpy(dir, "/tmp/test_fold.XXXXXX");
	assert_non_null(mkdtemp(dir));
	strcat(dir, "/s");
	assert_int_equal(store_writer_open(&w, dir, &meta, &err), 0);
	for (unsigned i = 0; i < EVENTS; i++) {
		struct store_event e = { .name = names[i], .unit = "nanoseconds" };
		assert_int_equal(store_add_event(w, &e, &event[i]), 0);
	}
	for (unsigned i = 0; i < STACKS; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		stack[i] = make_stack(name);
	}
	other = make_stack("(other)");
	pinned = make_stack("[no stack]");
	for (unsigned i = 0; i < SETS; i++) {
		snprintf(name, sizeof(name), "v%u", i);
		struct label l = { .key = "tenant",
				   .key_len = 6,
				   .str = name,
				   .str_len = 2,
				   .type = LABEL_STRING };
		assert_int_equal(store_add_set(w, &l, 1, &set[i]), 0);
	}
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *f)
{
	(void)st, (void)flag, (void)f;
	return remove(path);
}

static int tear_down(void **state)
{
	(void)state;
	store_writer_close(w);
	*strrchr(dir, '/') = 0;
	return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void add_up(struct sum sums[SETS][EVENTS])
{
	memset(sums, 0, sizeof(struct sum[SETS][EVENTS]));
	for (size_t i = 0; i < w->rows.n; i++) {
		const struct store_row *r = &w->rows.v[i];
		for (unsigned s = 0; s < SETS; s++)
			for (unsigned e = 0; e < EVENTS; e++)
				if (r->set == set[s] && r->event == event[e]) {
					sums[s][e].samples += r->samples;
					sums[s][e].value += r->value;
				}
	}
}

/* The first sets have by far the most rows. */
static void add_rows(unsigned n)
{
	while (n--) {
		unsigned s = draw(3) ? draw(2) : draw(SETS), e = draw(EVENTS),
			 k = draw(s < 2 && e < 2 ? STACKS : 20);
		assert_int_equal(store_add_row(w, set[s], draw(50) ? stack[k] : pinned, event[e],
					       1 + draw(9), draw(100000)),
				 0);
	}
}

static struct store_folding_rule rule(size_t max)
{
	return (struct store_folding_rule){ max, other, pinned, event, 2 };
}

static void few_rows_stay_as_they_are(void **state)
{
	uint64_t samples = 7;
	(void)state;
	add_rows(50);
	size_t n = w->rows.n;
	const struct store_folding_rule r = rule(n);
	assert_int_equal(store_fold_small_rows(w, &r, &samples), 0);
	assert_int_equal(samples, 0);
	assert_int_equal(w->rows.n, n);
}

static void sums_stay(void **state)
{
	struct sum before[SETS][EVENTS], after[SETS][EVENTS];
	uint64_t samples, in_other = 0, smallest = UINT64_MAX;
	(void)state;
	for (unsigned round = 0; round < 4; round++) {
		add_rows(12000);
		add_up(before);
		size_t kept = 0;
		for (size_t i = 0; i < w->rows.n; i++)
			kept += w->rows.v[i].event == event[2] || w->rows.v[i].stack == pinned;
		uint64_t had = in_other;
		const struct store_folding_rule r = rule(2 * (kept + 1000));
		assert_true(w->rows.n > r.max);
		assert_int_equal(store_fold_small_rows(w, &r, &samples), 0);
		add_up(after);
		assert_memory_equal(before, after, sizeof(before));
		assert_true(w->rows.n <= r.max / 2);
		assert_true(w->rows.n > r.max / 4);
		in_other = 0;
		for (size_t i = 0; i < w->rows.n; i++)
			in_other += w->rows.v[i].stack == other ? w->rows.v[i].samples : 0;
		assert_int_equal(in_other, had + samples);
	}
	assert_true(in_other > 0);
	/* Of one set and event the rows that stay are the largest. */
	for (size_t i = 0; i < w->rows.n; i++) {
		const struct store_row *r = &w->rows.v[i];
		if (r->set == set[0] && r->event == event[0] && r->stack != other &&
		    r->stack != pinned && r->value < smallest)
			smallest = r->value;
	}
	assert_true(smallest > 30000 && smallest < UINT64_MAX);
	/* Rows are found again: adding to one makes none. */
	size_t n = w->rows.n;
	for (size_t i = 0; i < n; i++) {
		const struct store_row r = w->rows.v[i];
		assert_int_equal(store_add_row(w, r.set, r.stack, r.event, 1, 0), 0);
	}
	assert_int_equal(w->rows.n, n);
}

/* More label sets than rows: each keeps one row, and a moved row without samples goes. */
static void one_row_for_each_set(void **state)
{
	struct sum before[SETS][EVENTS], after[SETS][EVENTS];
	uint64_t samples;
	(void)state;
	assert_int_equal(store_add_row(w, set[5], pinned, event[1], 3, 30), 0);
	add_up(before);
	const struct store_folding_rule r = rule(1);
	assert_int_equal(store_fold_small_rows(w, &r, &samples), 0);
	add_up(after);
	assert_memory_equal(before, after, sizeof(before));
	for (size_t i = 0; i < w->rows.n; i++)
		assert_true(w->rows.v[i].event == event[2] || w->rows.v[i].stack == pinned ||
			    w->rows.v[i].stack == other);
}

/* Memory of a window is given back when the window is committed, and not before. */
static void memory_is_given_back(void **state)
{
	const struct store_totals none = { 0 };
	struct store_memory full, kept, given;
	struct err err = { 0 };
	struct sum before[SETS][EVENTS];
	(void)state;
	add_rows(5000);
	add_up(before);
	const size_t n = store_n_rows(w);
	store_writer_memory(w, &full);
	assert_true(full.window >= n * sizeof(struct store_row));
	/* Each of the frames has a name of its own */
	assert_true(full.dictionaries >= (size_t)STACKS * 4);
	store_give_back(w);
	store_writer_memory(w, &kept);
	assert_int_equal(kept.window, full.window);
	assert_int_equal(store_n_rows(w), n);
	if (store_commit_window(w, 1000, 2000, 2000, &none, &err))
		fail_msg("%s", err.text);
	assert_int_equal(store_n_rows(w), 0);
	store_give_back(w);
	store_writer_memory(w, &given);
	assert_true(given.window + n * sizeof(struct store_row) <= full.window);
	assert_true(given.dictionaries >= full.dictionaries);
	/* The next window has its rows, and no others. Label sets are those of a window. */
	const struct label l = {
		.key = "tenant", .key_len = 6, .str = "v0", .str_len = 2, .type = LABEL_STRING
	};
	assert_int_equal(store_add_set(w, &l, 1, &set[0]), 0);
	assert_int_equal(store_add_row(w, set[0], stack[0], event[0], 3, 30), 0);
	assert_int_equal(store_add_row(w, set[0], stack[0], event[0], 4, 40), 0);
	assert_int_equal(store_n_rows(w), 1);
	add_up(before);
	assert_int_equal(before[0][0].samples, 7);
	assert_int_equal(before[0][0].value, 70);
}

/* Of equal values those of more samples are larger, then those of smaller stacks. */
static void equal_values(void **state)
{
	enum { ROWS = 40, KEPT = 9 };
	const struct store_totals none = { 0 };
	const struct label l = {
		.key = "tenant", .key_len = 6, .str = "v0", .str_len = 2, .type = LABEL_STRING
	};
	const struct store_folding_rule r = rule(2 * (KEPT + 1));
	struct store_row rows[ROWS];
	struct err err = { 0 };
	uint64_t folded = 0, got;
	size_t kept = 0;
	(void)state;
	assert_int_equal(store_commit_window(w, 3000, 4000, 4000, &none, &err), 0);
	assert_int_equal(store_add_set(w, &l, 1, &set[0]), 0);
	for (unsigned i = 0; i < ROWS; i++) {
		rows[i] = (struct store_row){ set[0], stack[ROWS - i], event[0], 1 + i * 7 % 10,
					      100 };
		assert_int_equal(
			store_add_row(w, set[0], rows[i].stack, event[0], rows[i].samples, 100), 0);
	}
	assert_int_equal(store_fold_small_rows(w, &r, &got), 0);
	assert_int_equal(w->rows.n, KEPT + 1);
	for (size_t i = 0; i < ROWS; i++) {
		size_t larger = 0, found = 0;
		for (size_t k = 0; k < ROWS; k++)
			larger += rows[k].samples > rows[i].samples ||
				  (rows[k].samples == rows[i].samples &&
				   rows[k].stack < rows[i].stack);
		for (size_t k = 0; k < w->rows.n; k++)
			found += w->rows.v[k].stack == rows[i].stack &&
				 w->rows.v[k].samples == rows[i].samples;
		assert_int_equal(found, larger < KEPT);
		kept += found;
		folded += found ? 0 : rows[i].samples;
	}
	assert_int_equal(kept, KEPT);
	assert_int_equal(got, folded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_rows_stay_as_they_are),
		cmocka_unit_test(sums_stay),
		cmocka_unit_test(one_row_for_each_set),
		cmocka_unit_test(memory_is_given_back),
		cmocka_unit_test(equal_values),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
