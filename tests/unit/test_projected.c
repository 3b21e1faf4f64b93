/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which keys a parent of five minutes is projected by: those of at most 20000 values, and not the
 * ones that take the most memory where all take more than 8 MiB. What projections of two levels
 * say, and how much work they are.
 */
#include "store/block/keys.h"
#include "store/read/contents.h"
#include "store/read/symbols.h"
#include "store/write/merge.h"
#include "unit/parent_model.h"

#define VALUES 20000
#define LONG 300 /* bytes of a text, of which 20000 are too much */

static struct label text_label(const char *key, const char *text, size_t len)
{
	return (struct label){
		.key = key, .key_len = (uint32_t)strlen(key), .str = text, .str_len = (uint32_t)len
	};
}

static struct label number_label(const char *key, int64_t v)
{
	return (struct label){
		.key = key, .key_len = (uint32_t)strlen(key), .type = LABEL_INT, .num = v, .str = ""
	};
}

/* Rows of one stack, eight samples each: as many as a value needs on average. */
static void put_rows(struct store_writer *w, unsigned values)
{
	struct model m = { .random = 4 };
	uint32_t event, set, stack = stack_of(w, 1);
	assert_int_equal(store_add_event(w, &model_events[1], &event), 0);
	for (unsigned i = 0; i < values; i++) {
		char text[LONG];
		struct label l[3];
		size_t n = 0;
		for (size_t k = 0; k < LONG; k++)
			text[k] = (char)('a' + model_random(&m, 26));
		l[n++] = number_label("few", i % 30);
		if (i < VALUES)
			l[n++] = text_label("long", text, LONG);
		l[n++] = number_label("many", i);
		assert_int_equal(store_add_set(w, l, n, &set), 0);
		assert_int_equal(store_add_row(w, set, stack, event, 8, 8), 0);
	}
}

static unsigned state_of(struct store *s, const struct block_ref *r, const char *key)
{
	struct block_data d;
	struct block_keys keys;
	struct err err = { 0 };
	assert_int_equal(block_read(s, r, WANT_KEYS, &d, &err), 0);
	assert_int_equal(contents_keys(s, r, &d, &keys, &err), 0);
	const struct block_key *k = block_keys_find(&keys, key, strlen(key));
	assert_non_null(k);
	unsigned state = k->state;
	block_keys_fini(&keys);
	block_data_fini(&d);
	return state;
}

static const struct block_ref *first_of(struct store *s, uint8_t level)
{
	struct err err = { 0 };
	for (size_t i = 0; i < s->n_segments; i++) {
		if (s->segments[i].m.level != level)
			continue;
		assert_int_equal(segment_load(s, &s->segments[i], &err), 0);
		return &s->segments[i].refs[0];
	}
	fail_msg("no block of level %u", level);
	return NULL;
}

struct sums {
	uint64_t samples, rows;
};

static int add(void *ctx, const struct store_row *row)
{
	struct sums *sums = ctx;
	sums->samples += row->samples;
	sums->rows++;
	return 0;
}

/* The parent answers by itself, each value with its stack; -ENODATA: its windows have to. */
static int ask(struct store *s, const struct block_ref *r, const char *key, struct sums *ret)
{
	const struct store_keys keys = { &key, 1 };
	struct err err = { 0 };
	*ret = (struct sums){ 0 };
	return store_block_rows(s, &r->b, &keys, NULL, add, ret, &err);
}

static void check(unsigned values)
{
	const bool fits = values <= VALUES;
	char dir[64];
	struct err err = { 0 };
	struct sums sums;
	struct store_writer *w = open_writer(dir);
	put_rows(w, values);
	commit(w, T0);
	commit(w, T0 + 10 * MINUTE);
	assert_int_equal(store_compact(w, &err), 0);
	store_writer_close(w);
	struct store *s = open_store(dir);
	const struct block_ref *r = first_of(s, 2);
	assert_true(state_of(s, r, "few") & KEY_PROJECTED);
	assert_false(state_of(s, r, "long") & KEY_PROJECTED);
	assert_int_equal((state_of(s, r, "many") & KEY_PROJECTED) != 0, fits);
	assert_int_equal(ask(s, r, "few", &sums), 0);
	assert_true(sums.samples == 8 * values && sums.rows == 30);
	assert_int_equal(ask(s, r, "long", &sums), -ENODATA);
	assert_int_equal(ask(s, r, "many", &sums), fits ? 0 : -ENODATA);
	assert_true(!fits || (sums.samples == 8 * values && sums.rows == values));
	store_close(s);
	assert_sound(dir);
	remove_tree(dir);
}

static void by_values_and_memory(void **state)
{
	(void)state;
	check(VALUES);
	check(VALUES + 1);
}

/* ---- what a parent says of a key that its sums lack ---- */

#define EACH 6 /* rows of a value */

/* Of each of ten values, and of none: rows of two events and three stacks, one of them idle. */
static void put_values(struct store_writer *w, int64_t t0, uint64_t samples,
		       struct model_window *all)
{
	static const char *const stacks[] = { "f (/bin/demo) 0 0\n", "g (/bin/demo) 0 0\n",
					      "[idle] () 2 0\n" };
	for (unsigned i = 0; i < 11 * EACH; i++) {
		char labels[40] = "";
		if (i / EACH)
			snprintf(labels, sizeof(labels), "query_id=%u\n", i / EACH);
		struct model_row row = { strdup(labels), strdup(stacks[i % 3]), i / 3 % 2,
					 samples + i, 10 * i };
		assert_int_equal(model_put_row(w, &row), 0);
		model_window_add(all, row);
	}
	commit(w, t0);
}

static int has_value(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	(void)ctx, (void)labels;
	*ret = n;
	return 0;
}

static int has_none(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	(void)ctx, (void)labels;
	*ret = !n;
	return 0;
}

/* Each row comes once, in the block itself. */
static void check_values(struct store *s, const struct block_ref *r, store_filter *filter,
			 const struct model_window *all)
{
	static const char *const key = "query_id";
	const struct store_keys keys = { &key, 1 };
	struct read_back b = { .s = s };
	struct err err = { 0 };
	size_t n = 0;
	if (store_block_rows(s, &r->b, &keys, filter, read_back_row, &b, &err))
		fail_msg("%s", err.text);
	model_sort(b.rows, b.n);
	for (size_t i = 0; i < all->n; i++) {
		const struct model_row *want = &all->rows[i], *got = &b.rows[n];
		if (filter && (filter == has_value) != (*want->labels != 0))
			continue;
		assert_true(n++ < b.n);
		assert_int_equal(model_row_cmp(got, want), 0);
		assert_int_equal(got->samples, want->samples);
		assert_int_equal(got->value, want->value);
	}
	assert_int_equal(b.n, n);
	model_window_fini(&(struct model_window){ b.rows, b.n, 0, 0 });
}

static int add_some(void *ctx, const struct store_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		add(ctx, &rows[i]);
	return 0;
}

/* Without stacks the list of values is enough: names of stacks are not read. */
static void check_sums(struct store *s, const struct block_ref *r, const struct model_window *all)
{
	static const char *const key = "query_id";
	const struct store_keys keys = { &key, 1 };
	struct sums sums = { 0 };
	const struct store_reading how = { .keys = &keys,
					   .filter = has_value,
					   .fold_stacks = true,
					   .rows = add_some,
					   .ctx = &sums };
	struct err err = { 0 };
	uint64_t samples = 0;
	for (size_t i = 0; i < all->n; i++)
		samples += *all->rows[i].labels ? all->rows[i].samples : 0;
	assert_int_equal(store_block_read(s, &r->b, &how, &err), 0);
	assert_int_equal(sums.samples, samples);
	assert_int_equal(s->segments[r->segment].symbols->have, SYMBOLS_SETS);
}

/* The first level is projected from the windows, the other from the parents of the first. */
static void rows_of_values(void **state)
{
	struct model_window half = { .n = 0 }, all = { .n = 0 };
	char dir[64];
	struct err err = { 0 };
	(void)state;
	struct store_writer *w = open_writer(dir);
	put_values(w, T0, 1000, &half);
	for (size_t i = 0; i < half.n; i++) {
		struct model_row row = half.rows[i];
		row.labels = strdup(row.labels);
		row.stack = strdup(row.stack);
		model_window_add(&all, row);
	}
	put_values(w, T0 + 5 * MINUTE, 3000, &all);
	commit(w, T0 + 20 * MINUTE);
	assert_int_equal(store_compact(w, &err), 0);
	store_writer_close(w);
	model_sort(half.rows, half.n);
	model_sort(all.rows, all.n);
	for (uint8_t level = 2; level <= 3; level++) {
		const struct model_window *want = level == 2 ? &half : &all;
		struct store *s = open_store(dir);
		const struct block_ref *r = first_of(s, level);
		assert_int_equal(state_of(s, r, "query_id") & (KEY_SUMMED | KEY_PROJECTED),
				 KEY_PROJECTED);
		check_sums(s, r, want);
		check_values(s, r, has_value, want);
		check_values(s, r, has_none, want);
		check_values(s, r, NULL, want);
		store_close(s);
	}
	model_window_fini(&half);
	model_window_fini(&all);
	assert_sound(dir);
	remove_tree(dir);
}

/* ---- in steps ---- */

/* Merge with so many rows in each step; returns how many steps that took. ret: NULL: not kept. */
static size_t count_steps(struct store_writer *w, uint8_t level, const struct block_ref *v,
			  size_t n, size_t rows, struct block_ref *ret)
{
	struct merge *m;
	struct err err = { 0 };
	size_t steps = 0;
	bool done = false;
	assert_int_equal(merge_begin(&m, w, level, v, n, &err), 0);
	for (; !done; steps++) {
		size_t left = rows;
		assert_int_equal(merge_step(m, &left, &done, &err), 0);
		assert_true(done || !left);
	}
	if (ret)
		assert_int_equal(merge_finish(m, ret, &err), 0);
	merge_free(m);
	if (!ret)
		writer_drop_parent(w, level);
	return steps;
}

/* The rows that a merge counts, and with one at a time how many steps it takes. */
static void check_steps(struct store_writer *w, uint8_t level, const struct block_ref *v, size_t n,
			size_t rows, size_t steps, struct block_ref *ret)
{
	assert_int_equal(count_steps(w, level, v, n, rows, NULL), 2);
	assert_int_equal(count_steps(w, level, v, n, rows + 1, NULL), 1);
	assert_int_equal(count_steps(w, level, v, n, 1, ret), steps);
}

/* Children take their rows and groups; projections the windows' rows, or groups and values. */
static void in_steps(void **state)
{
	struct model_window all = { .n = 0 };
	struct block_ref fine[2], coarse[2];
	char dir[64];
	(void)state;
	struct store_writer *w = open_writer(dir);
	w->opt.grace_ns = 12 * 60 * MINUTE;
	for (size_t i = 0; i < 2; i++)
		put_values(w, T0 + 5 * (int64_t)i * MINUTE, 1000, &all);
	assert_int_equal(w->pending[0].n, 2);
	for (size_t i = 0; i < 2; i++) {
		check_steps(w, 1, &w->pending[0].v[i], 1, 11 * EACH + EACH, 2, &fine[i]);
		check_steps(w, 2, &fine[i], 1, EACH + 11 * EACH, 1 + EACH + 1, &coarse[i]);
	}
	check_steps(w, 3, coarse, 2, 2 * EACH + 10 * (2 * EACH + 1), 2 + 10 + 1, NULL);
	store_writer_close(w);
	model_window_fini(&all);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_values_and_memory),
		cmocka_unit_test(rows_of_values),
		cmocka_unit_test(in_steps),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
