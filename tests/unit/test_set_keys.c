/* SPDX-License-Identifier: Apache-2.0 */
/* The key by which a reader knows a label set again: that of its labels, with each seed. */
#include "labels/labels.h"
#include "unit/store_model.h"

#define SETS 400

static struct known {
	uint64_t key, samples;
	uint32_t n;
} sets[SETS];
static size_t n_sets, n_asked, n_named;
static uint64_t seed;
static struct store_set_key last;

static bool on_key(void *ctx, const struct store_set_key *key, uint32_t *ret)
{
	(void)ctx;
	n_asked++;
	last = *key;
	for (*ret = 0; *ret < n_sets; ++*ret)
		if (sets[*ret].key == key->key && sets[*ret].n == key->n)
			return true;
	return false;
}

static int on_set(void *ctx, const struct label *labels, size_t n, uint32_t *ret)
{
	uint64_t bytes = 0;
	(void)ctx;
	for (size_t i = 0; i < n; i++)
		bytes += labels[i].key_len + (labels[i].type == LABEL_INT ? 8 : labels[i].str_len);
	assert_true(n_sets < SETS);
	assert_int_equal(last.key, labels_list_key(labels, n, seed));
	assert_int_equal(last.n, n);
	assert_int_equal(last.bytes, bytes);
	*ret = (uint32_t)n_sets;
	sets[n_sets++] = (struct known){ last.key, 0, last.n };
	n_named++;
	return 0;
}

static int on_rows(void *ctx, const struct store_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		assert_true(rows[i].set < n_sets);
		sets[rows[i].set].samples += rows[i].samples;
		*(uint64_t *)ctx += rows[i].samples;
	}
	return 0;
}

/* A set is named once, whatever windows it is in. */
static void keys(void **state)
{
	struct store_writer *w;
	struct store_cover c;
	struct err err = { 0 };
	struct fixture *f = fixture_new(5, &model_options, &w);
	(void)state;
	for (size_t i = 0; i < 12; i++)
		assert_int_equal(model_commit(&f->m, w, 40, &err), 0);
	fixture_open(f, w);
	assert_int_equal(
		store_cover(f->s, INT64_MIN, INT64_MAX, STORE_ALL_LABELS, NULL, 0, &c, &err), 0);
	for (seed = 7; seed < 10; seed++) {
		uint64_t samples = 0, want = 0;
		const struct store_reading how = { .key = on_key,
						   .key_seed = seed,
						   .set = on_set,
						   .rows = on_rows,
						   .ctx = &samples };
		n_sets = n_asked = n_named = 0;
		for (size_t i = 0; i < c.n; i++)
			assert_int_equal(store_block_read(f->s, c.blocks[i], &how, &err), 0);
		for (size_t i = 0; i < f->m.n; i++)
			for (size_t k = 0; k < f->m.w[i].n; k++)
				want += f->m.w[i].rows[k].samples;
		assert_int_equal(samples, want);
		assert_in_range(n_sets, 20, 200); /* 3 by 10 by 7 */
		assert_int_equal(n_named, n_sets);
		assert_true(n_asked > n_named);
	}
	store_cover_free(&c);
	fixture_teardown((void **)&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(keys) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
