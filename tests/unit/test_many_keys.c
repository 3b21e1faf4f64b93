/* SPDX-License-Identifier: Apache-2.0 */
/* A parent knows 4,096 keys. Of others it must not say that nobody has them. */
#include "unit/store_model.h"

#define KEYS 4200
#define OF_SET 200		 /* keys of one label set */
#define WINDOWS 7		 /* six are a minute */
#define T0 1700000100000000000ll /* a minute begins */
#define WINDOW 10000000000ll

static void key_name(char out[16], unsigned i)
{
	snprintf(out, 16, "key_%u", i);
}

/* Each key has one value, and one sample in each window. */
static void write_window(struct store_writer *w, unsigned window)
{
	struct store_cpu_totals cpu = { 0, 0, 0, (uint64_t[2]){ 0 }, (uint64_t[1]){ 0 } };
	const struct store_totals t = { .cpu = &cpu, .n_cpus = 1 };
	struct err err = { 0 };
	uint32_t event, set;
	assert_int_equal(store_add_event(w, &model_events[1], &event), 0);
	for (unsigned i = 0; i < KEYS; i += OF_SET) {
		char names[OF_SET][16];
		struct label l[OF_SET];
		for (unsigned k = 0; k < OF_SET; k++) {
			key_name(names[k], i + k);
			l[k] = (struct label){ .key = names[k],
					       .key_len = (uint32_t)strlen(names[k]),
					       .str = "x",
					       .str_len = 1 };
		}
		assert_int_equal(store_add_set(w, l, OF_SET, &set), 0);
		assert_int_equal(store_add_row(w, set, 0, event, 1, 1), 0);
	}
	const int64_t t0 = T0 + window * WINDOW;
	assert_int_equal(store_commit_window(w, t0, t0 + WINDOW, t0 - T0 + 1, &t, &err), 0);
}

struct asked {
	const struct store *s;
	uint64_t samples;
};

static int add_rows(void *ctx, const struct store_row *rows, size_t n)
{
	struct asked *a = ctx;
	const struct label *labels;
	for (size_t i = 0; i < n; i++)
		a->samples += store_set(a->s, rows[i].set, &labels) ? rows[i].samples : 0;
	return 0;
}

/* Samples that have the key, by the fewest blocks that say they know. */
static uint64_t samples_of(struct store *s, const char *key, size_t *ret_blocks)
{
	const struct store_keys keys = { &key, 1 };
	struct asked a = { s, 0 };
	const struct store_reading how = {
		.keys = &keys, .rows = add_rows, .fold_stacks = true, .ctx = &a
	};
	struct store_cover c;
	struct err err = { 0 };
	assert_int_equal(store_cover(s, INT64_MIN, INT64_MAX, STORE_KEY_SUMS, &key, 1, &c, &err),
			 0);
	for (size_t i = 0; i < c.n; i++)
		assert_int_equal(store_block_read(s, c.blocks[i], &how, &err), 0);
	*ret_blocks = c.n;
	store_cover_free(&c);
	return a.samples;
}

static void each_key_is_found(void **state)
{
	struct store_writer *w;
	struct err err = { 0 };
	char dir[64], key[16];
	size_t n;
	(void)state;
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	for (unsigned i = 0; i < WINDOWS; i++)
		write_window(w, i);
	assert_int_equal(store_compact(w, &err), 0);
	store_writer_close(w);
	struct store *s = open_store(dir);
	for (size_t i = 0; i < 4; i++) {
		static const unsigned asked[] = { 0, 4095, 4096, KEYS - 1 };
		key_name(key, asked[i]);
		assert_int_equal(samples_of(s, key, &n), WINDOWS);
		assert_int_equal(n, asked[i] < 4096 ? 2 : WINDOWS); /* a parent, or its windows */
	}
	assert_int_equal(samples_of(s, "nobody", &n), 0);
	store_close(s);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_key_is_found) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
