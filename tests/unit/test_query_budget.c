/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a question may take: numbers by hand. What is counted of it, the order of its rows, and its
 * label sets in shares.
 */
#include "unit/store_model.h"

#include "query/query_int.h"
#include "store/file/format.h"

#define GIB ((size_t)1 << 30)
#define SECOND 1000000000ll

static int setup(void **state)
{
	struct fixture *f = fixture_of(19, 3, 60);
	fixture_read_rows(f); /* so that dictionaries have bytes */
	*state = f;
	return 0;
}

static size_t budget(struct fixture *f, size_t bytes, enum query_labels labels, unsigned parts)
{
	const struct query_spec spec = { .labels = labels, .parts = parts };
	store_limit(f->s, &(struct store_limits){ .bytes = bytes });
	const size_t n = query_budget(f->s, &spec);
	store_limit(f->s, &(struct store_limits){ 0 });
	return n;
}

/*
 * An eighth is for blocks, and dictionaries have what they take: with other parts at least a half.
 * A quarter is left, whatever they take. Label sets alone have all.
 */
static void budgets(void **state)
{
	struct fixture *f = *state;
	const size_t d = store_dictionaries(f->s);
	assert_true(d > 2000 && d < GIB / 64);
	assert_int_equal(budget(f, GIB, QUERY_NO_LABELS, 0), GIB / 8 * 7 - d);
	assert_int_equal(budget(f, GIB, QUERY_ALL_LABELS, 1), GIB / 8 * 7 - d);
	assert_int_equal(budget(f, GIB, QUERY_KEYS_STACKS, 2), GIB / 16 * 3);
	assert_int_equal(budget(f, GIB, QUERY_NO_LABELS, 3), GIB / 8);
	assert_int_equal(budget(f, 0, QUERY_NO_LABELS, 1), QUERY_MEMORY / 8 * 7 - d);
	assert_int_equal(budget(f, 8 * d, QUERY_NO_LABELS, 1), 6 * d);
	assert_int_equal(budget(f, 8 * d, QUERY_NO_LABELS, 2), 3 * d / 2);
	assert_int_equal(budget(f, d / 8 * 8, QUERY_NO_LABELS, 1), d / 8 * 2);
	assert_int_equal(budget(f, d / 8 * 8, QUERY_NO_LABELS, 4), d / 8 * 2 / 4);
	/* Between these two: with a half for dictionaries, more than they take or less */
	const size_t less = d / 8 * 14, more = d / 8 * 24;
	assert_int_equal(budget(f, less, QUERY_NO_LABELS, 2), (less - less / 8 - d) / 2);
	assert_int_equal(budget(f, more, QUERY_NO_LABELS, 2), more / 8 * 3 / 2);
	assert_int_equal(budget(f, 1000, QUERY_KEYS, 0), 1000);
	assert_int_equal(budget(f, 1000, QUERY_KEYS, 3), 333);
}

/* One for each question that was cut. */
static void cut_ones_are_counted(void **state)
{
	static const char *const keys[] = { "tenant" };
	struct fixture *f = *state;
	const uint64_t before = query_bounded_total();
	uint64_t cut = 0;
	for (size_t i = 0; i < 6; i++) {
		const struct query_spec spec = { .from_ns = INT64_MIN,
						 .to_ns = INT64_MAX,
						 .labels = i < 3 ? QUERY_KEYS : QUERY_NO_LABELS,
						 .keys = keys,
						 .n_keys = i < 3 };
		struct query *q;
		struct err err = { 0 };
		store_limit(f->s, &(struct store_limits){ .bytes = i % 3 ? 1 : 0 });
		assert_int_equal(query_open(&q, f->s, &spec, &err), 0);
		assert_int_equal(query_info(q)->bounded, i % 3 != 0);
		cut += query_info(q)->bounded;
		assert_int_equal(query_bounded_total() - before, cut);
		query_close(q);
	}
	store_limit(f->s, &(struct store_limits){ 0 });
	assert_int_equal(cut, 4);
}

/* By stack and set; what was cut says so. */
static void order_and_others(void **state)
{
	struct fixture *f = *state;
	for (int kind = QUERY_ALL_LABELS; kind <= QUERY_KEYS_STACKS; kind++) {
		static const char *const keys[] = { "tenant" };
		const struct query_spec spec = { .from_ns = INT64_MIN,
						 .to_ns = INT64_MAX,
						 .labels = (enum query_labels)kind,
						 .keys = keys,
						 .n_keys = 1 };
		struct query *q;
		struct err err = { 0 };
		size_t n, others = 0;
		uint64_t sum = 0;
		/* Room for some sets and stacks */
		store_limit(f->s, &(struct store_limits){ .bytes = 6000 });
		assert_int_equal(query_open(&q, f->s, &spec, &err), 0);
		store_limit(f->s, &(struct store_limits){ 0 });
		assert_int_equal(query_rows_by_stack(q), 0);
		const struct store_row *rows = query_rows(q, &n);
		for (size_t i = 0; i < n; i++) {
			bool other = rows[i].stack == QUERY_OTHER_STACK ||
				     (kind == QUERY_NO_LABELS && rows[i].set == QUERY_OTHER);
			assert_int_equal(query_row_is_other(q, &rows[i]), other);
			assert_true(!i || rows[i - 1].stack < rows[i].stack ||
				    (rows[i - 1].stack == rows[i].stack &&
				     rows[i - 1].set < rows[i].set));
			others += other;
			sum += rows[i].samples;
		}
		assert_int_equal(sum, query_info(q)->samples);
		assert_int_equal(others > 0, kind != QUERY_KEYS && query_info(q)->bounded);
		query_close(q);
	}
}

/* Each label set is in one share, by its hash, with all of its samples. */
static void shares(void **state)
{
	static const char *const keys[] = { "tenant", "comm" };
	struct fixture *f = *state;
	for (uint32_t n = 1; n <= 5; n++)
		for (int by_keys = 0; by_keys < 2; by_keys++) {
			uint64_t sum = 0, all = 0;
			for (uint32_t share = 0; share <= n; share++) {
				const struct query_spec spec = {
					.from_ns = INT64_MIN,
					.to_ns = INT64_MAX,
					.where = n % 2 ? NULL : "comm!=\"none\"",
					.labels = by_keys ? QUERY_KEYS_STACKS : QUERY_ALL_LABELS,
					.keys = keys,
					.n_keys = 2,
					.shares = share < n ? n : 0,
					.share = share < n ? share : 0,
				};
				const struct label *labels;
				struct query *q;
				struct err err = { 0 };
				size_t n_rows;
				assert_int_equal(query_open(&q, f->s, &spec, &err), 0);
				const struct store_row *rows = query_rows(q, &n_rows);
				for (size_t i = 0; i < n_rows && share < n; i++) {
					size_t n_labels = query_set(q, rows[i].set, &labels);
					/* by all labels that the selector and keys see */
					if (n % 2)
						assert_int_equal(
							labels_key(labels, n_labels, 0) % n, share);
					sum += rows[i].samples;
				}
				all += share == n ? query_info(q)->samples : 0;
				query_close(q);
			}
			assert_true(sum == all && sum > 0);
		}
}

static uint64_t samples_of(struct store *s, const char *where, uint32_t shares, uint32_t share)
{
	const struct query_spec spec = { .from_ns = INT64_MIN,
					 .to_ns = INT64_MAX,
					 .where = where,
					 .labels = QUERY_ALL_LABELS,
					 .shares = shares,
					 .share = share };
	struct query *q;
	struct err err = { 0 };
	assert_int_equal(query_open(&q, s, &spec, &err), 0);
	const uint64_t n = query_info(q)->samples;
	query_close(q);
	return n;
}

/* Windows of 10 s in 50, of which those of the last half an hour stay. */
static struct fixture *old_windows(size_t n)
{
	struct store_options o = model_options;
	struct store_writer *w;
	o.symbols_memory = 1; /* a file for each block */
	o.keep_ns[0] = o.keep_ns[1] = 1800 * SECOND;
	struct fixture *f = fixture_new(20, &o, &w);
	for (size_t i = 0; i < n; i++) {
		const struct store_totals none = { 0 };
		struct err err = { 0 };
		const int64_t t0 = 1700000000 * SECOND + (int64_t)i * 50 * SECOND;
		struct model_window window = { 0 };
		model_fill(&f->m, w, &window, 6);
		model_window_fini(&window);
		assert_int_equal(store_commit_window(w, t0, t0 + 10 * SECOND,
						     (int64_t)(i + 1) * 50 * SECOND, &none, &err),
				 0);
	}
	fixture_open(f, w);
	return f;
}

/* What has no labels any more is in the first share, and in no answer about labels. */
static void labels_that_are_gone(void **state)
{
	struct fixture *f = old_windows(100);
	void *fixture = f;
	struct store_cover c;
	struct err err = { 0 };
	size_t gone = 0;
	(void)state;
	assert_int_equal(
		store_cover(f->s, INT64_MIN, INT64_MAX, STORE_ALL_LABELS, NULL, 0, &c, &err), 0);
	for (size_t i = 0; i < c.n; i++)
		if (c.blocks[i]->level) {
			/* as if its windows had been gone when it was made */
			((struct store_block *)(uintptr_t)c.blocks[i])->flags |= BLOCK_NO_LABELS;
			gone++;
		}
	assert_true(gone > 0 && gone < c.n);
	store_cover_free(&c);
	const uint64_t all = samples_of(f->s, NULL, 0, 0),
		       labelled = samples_of(f->s, "comm!=\"none\"", 0, 0);
	assert_true(labelled > 0 && labelled < all);
	for (uint32_t n = 1; n <= 3; n++) {
		uint64_t sum = 0, first = samples_of(f->s, NULL, n, 0);
		for (uint32_t k = 0; k < n; k++)
			sum += samples_of(f->s, NULL, n, k);
		assert_int_equal(sum, all);
		assert_true(first >= all - labelled);
	}
	fixture_teardown(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(budgets),
		cmocka_unit_test(cut_ones_are_counted),
		cmocka_unit_test(order_and_others),
		cmocka_unit_test(shares),
		cmocka_unit_test(labels_that_are_gone),
	};
	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
