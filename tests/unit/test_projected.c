/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which keys a parent of five minutes is projected by: those of at most 20000 values, and not the
 * ones that take the most memory where all take more than 8 MiB.
 */
#include "store/block/keys.h"
#include "store/read/contents.h"
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

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(by_values_and_memory) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
