/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each window that was written is in one block of a cover, or is counted as gone. In a store of
 * which retention has cut windows, and of some parents only a part.
 */
#include "unit/copy_model.h"

#define WINDOWS 300

static char dir[64];
static struct model m = { .random = 21 };

static int setup(void **state)
{
	struct store_options o = coarse_options();
	(void)state;
	o.symbols_memory = 1; /* each block has a file: of some parents only a part is cut */
	o.keep_ns[0] = o.keep_ns[1] = 90 * MINUTE;
	make_store(&m, temp_dir(dir), &model_meta, &o, WINDOWS, 50 * SECOND);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	remove_tree(dir);
	model_fini(&m);
	return 0;
}

static bool has_window(const struct store_block *b, uint32_t i)
{
	return i >= b->window_lo && i < b->window_hi &&
	       slot_of(b->level, m.w[i].t0) == slot_of(b->level, b->t0_ns);
}

static struct store_cover cover(struct store *s, int64_t from, int64_t to, enum store_want want)
{
	static const char *const keys[] = { "tenant" };
	const bool of_key = want == STORE_KEY_SUMS;
	struct store_cover c;
	struct err err = { 0 };
	if (store_cover(s, from, to, want, of_key ? keys : NULL, of_key, &c, &err))
		fail_msg("%s", err.text);
	return c;
}

/* How many windows the blocks have, each once; *ret_coarse: those that parents stand in for. */
static uint64_t count(const struct store_cover *c, uint64_t *ret_coarse)
{
	static size_t covered[WINDOWS];
	uint64_t n = 0;
	memset(covered, 0, sizeof(covered));
	*ret_coarse = 0;
	for (size_t i = 0; i < c->n; i++) {
		const struct store_block *b = c->blocks[i];
		uint64_t of_block = 0;
		for (uint32_t k = 0; k < WINDOWS; k++) {
			if (!has_window(b, k))
				continue;
			assert_int_equal(covered[k]++, 0);
			of_block++;
		}
		assert_int_equal(of_block, b->n_windows);
		*ret_coarse += b->level ? of_block : 0;
		n += of_block;
	}
	return n;
}

static void all_of_time(void **state)
{
	static const enum store_want wants[] = { STORE_FOLDED, STORE_ALL_LABELS, STORE_KEY_SUMS };
	struct store *s = open_store(dir);
	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct store_cover c = cover(s, INT64_MIN, INT64_MAX, wants[i]);
		uint64_t coarse, n = count(&c, &coarse);
		assert_int_equal(n + c.gone, WINDOWS);
		if (wants[i] == STORE_ALL_LABELS) {
			assert_int_equal(c.coarse, coarse);
			assert_true(c.coarse > 50 && c.gone > 0);
		} else {
			assert_int_equal(c.coarse, 0);
		}
		assert_true(wants[i] != STORE_FOLDED || !c.gone);
		assert_int_equal(c.from_ns, m.w[0].t0);
		assert_int_equal(c.to_ns, m.w[WINDOWS - 1].t1);
		store_cover_free(&c);
	}
	store_close(s);
}

/* No block without any of the range; the range that is said is that of the blocks. */
static void parts(void **state)
{
	struct store *s = open_store(dir);
	(void)state;
	for (int i = 0; i < 300; i++) {
		const int64_t from = T0 + (int64_t)model_random(&m, 15000) * SECOND;
		const int64_t to = from + (1 + (int64_t)model_random(&m, 6000)) * SECOND;
		struct store_cover c = cover(s, from, to, i % 2 ? STORE_FOLDED : STORE_ALL_LABELS);
		int64_t t0 = INT64_MAX, t1 = INT64_MIN;
		uint64_t coarse, n = count(&c, &coarse), want = 0;
		for (size_t k = 0; k < c.n; k++) {
			const struct store_block *b = c.blocks[k];
			assert_true(b->t1_ns > from && b->t0_ns < to);
			assert_true(!k || b->t0_ns >= c.blocks[k - 1]->t0_ns);
			t0 = b->t0_ns < t0 ? b->t0_ns : t0;
			t1 = b->t1_ns > t1 ? b->t1_ns : t1;
		}
		for (size_t k = 0; k < WINDOWS; k++)
			want += m.w[k].t1 > from && m.w[k].t0 < to;
		assert_true(n + c.gone >= want);
		if (c.n) {
			assert_int_equal(c.from_ns, t0);
			assert_int_equal(c.to_ns, t1);
		}
		assert_int_equal(c.coarse, i % 2 ? 0 : coarse);
		store_cover_free(&c);
	}
	store_close(s);
}

/* Times before 1970, too. */
static void slots(void **state)
{
	(void)state;
	assert_int_equal(floor_div(0, 10), 0);
	assert_int_equal(floor_div(9, 10), 0);
	assert_int_equal(floor_div(10, 10), 1);
	assert_int_equal(floor_div(-1, 10), -1);
	assert_int_equal(floor_div(-10, 10), -1);
	assert_int_equal(floor_div(-11, 10), -2);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(all_of_time), cmocka_unit_test(parts),
					    cmocka_unit_test(slots) };
	return cmocka_run_group_tests(tests, setup, teardown);
}
