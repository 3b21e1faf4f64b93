/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parents whose labels are not known (flag 1 of docs/format.md), the windows below them cut: what
 * is read of them, copied and deleted. No writer makes one of its own: here the windows say so
 * before they are summed up.
 */
#include "unit/copy_model.h"

#include "store/write/writer_int.h"

#define WINDOWS 200
#define UNLABELLED 40 /* the first ones */

static struct model m = { .random = 51 };
static struct dirs d;

/* Of the windows that have no parent yet. */
static void forget_labels(struct store_writer *w)
{
	for (size_t i = 0; i < w->pending[0].n; i++) {
		struct store_block *b = &w->pending[0].v[i].b;
		if (b->t0_ns < T0 + UNLABELLED * 10 * MINUTE)
			b->flags |= BLOCK_NO_LABELS;
	}
}

static int begin(void **state)
{
	struct store_options o = coarse_options();
	struct store_writer *w;
	struct err err = { 0 };
	(void)state;
	make_dirs(&d);
	assert_int_equal(store_writer_open_with(&w, d.a, &model_meta, &o, &err), 0);
	for (size_t i = 0; i < WINDOWS; i++) {
		commit_row_window(&m, w, T0 + (int64_t)i * 10 * MINUTE, 15);
		forget_labels(w);
	}
	store_writer_close(w);
	return 0;
}

static int end(void **state)
{
	(void)state;
	model_fini(&m);
	remove_tree(d.base);
	return 0;
}

/* Of the windows whose labels are known. */
static void sum_known(const char *key, struct sums *ret)
{
	struct model part = { .n = m.n - UNLABELLED };
	memcpy(part.w, m.w + UNLABELLED, part.n * sizeof(*part.w));
	ret->n = 0;
	sum_model(&part, key, NULL, ret);
}

static uint64_t total_of_model(void)
{
	struct sums all = { .n = 0 };
	sum_model(&m, "none", NULL, &all);
	return total(&all);
}

/* No sample is missing, none has a value that it had not, and those that are known have theirs. */
static void check_copy(const char *dir, const char *key)
{
	struct store *s = open_store(dir);
	struct sums known, got;
	sum_known(key, &known);
	sum_store(s, key, &got);
	assert_int_equal(total(&got), total_of_model());
	for (size_t i = 0; i < got.n; i++)
		for (int e = 0; *got.value[i] && e < 3; e++)
			assert_true(got.samples[i][e] <= sum_of(&known, got.value[i])[e]);
	store_close(s);
}

static int add_group(void *ctx, const struct store_row *row)
{
	*(uint64_t *)ctx += row->samples;
	return 0;
}

static int no_rows(void *ctx, const struct store_row *rows, size_t n)
{
	(void)ctx, (void)rows, (void)n;
	return 0;
}

/* The parents without labels have groups, and no rows. */
static void groups(void **state)
{
	const struct store_reading how = { .rows = no_rows };
	struct store_cover c;
	struct err err = { 0 };
	size_t n = 0;
	uint64_t sum = 0;
	struct store *s = open_store(d.a);
	(void)state;
	assert_int_equal(store_cover(s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err), 0);
	for (size_t i = 0; i < c.n; i++) {
		assert_int_equal(store_block_folded(s, c.blocks[i], add_group, &sum, &err), 0);
		if (!(c.blocks[i]->flags & BLOCK_NO_LABELS))
			continue;
		assert_true(c.blocks[i]->level > 0);
		assert_int_equal(store_block_read(s, c.blocks[i], &how, &err), -ENODATA);
		n++;
	}
	assert_int_equal(sum, total_of_model());
	assert_true(n > 0);
	store_cover_free(&c);
	store_close(s);
}

struct hosts {
	struct store *s;
	uint64_t samples[2]; /* of the store's host; of another, or none */
};

static int add_by_host(void *ctx, const struct store_row *rows, size_t n)
{
	struct hosts *h = ctx;
	for (size_t i = 0; i < n; i++) {
		const struct label *l;
		bool is = store_set(h->s, rows[i].set, &l) == 1 && l->key_len == 4 &&
			  !memcmp(l->key, "host", 4) && l->str_len == strlen(model_meta.host) &&
			  !memcmp(l->str, model_meta.host, l->str_len);
		h->samples[!is] += rows[i].samples;
	}
	return 0;
}

static int some_groups(void *ctx, const struct store_row *group)
{
	(void)ctx;
	return group->event == 0;
}

/* Beside other stores their host is what is left; a question about other labels has no answer. */
static void host_is_left(void **state)
{
	const char *const dirs[] = { d.a, d.b }, *const names[] = { "host" };
	const struct store_keys keys = { names, 1 };
	struct model other = { .random = 52 };
	struct store_cover c;
	struct err err = { 0 };
	struct store *s;
	uint64_t sum = 0;
	size_t n = 0;
	(void)state;
	make_store(&other, d.b, &other_meta, &model_options, 2, MINUTE);
	assert_int_equal(store_open_all(&s, dirs, 2, &err), 0);
	assert_int_equal(store_cover(s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err), 0);
	for (size_t i = 0; i < c.n; i++) {
		struct hosts all = { .s = s }, some = { .s = s };
		struct store_reading how = {
			.keys = &keys, .rows = add_by_host, .fold_stacks = true, .ctx = &all
		};
		if (!(c.blocks[i]->flags & BLOCK_NO_LABELS))
			continue;
		sum = 0;
		assert_int_equal(store_block_folded(s, c.blocks[i], add_group, &sum, &err), 0);
		assert_int_equal(store_block_read(s, c.blocks[i], &how, &err), 0);
		assert_int_equal(all.samples[0], sum);
		assert_int_equal(all.samples[1], 0);
		how.ctx = &some;
		how.group = some_groups;
		assert_int_equal(store_block_read(s, c.blocks[i], &how, &err), 0);
		assert_int_equal(some.samples[1], 0);
		assert_true(some.samples[0] < sum);
		n++;
	}
	assert_true(n > 0);
	store_cover_free(&c);
	store_close(s);
	model_fini(&other);
	remove_tree(d.b);
}

static void merged(void **state)
{
	const char *const from[] = { d.a };
	struct copy_result r;
	struct err err = { 0 };
	(void)state;
	if (store_merge(from, 1, d.out, NULL, &r, &err))
		fail_msg("%s", err.text);
	assert_true(r.coarse > 0);
	assert_int_equal(r.blind, 0);
	check_whole(d.out);
	check_copy(d.out, "tenant");
	remove_tree(d.out);
}

static int is_t1(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	(void)ctx;
	*ret = false;
	for (size_t i = 0; i < n; i++)
		*ret |= labels[i].key_len == 6 && !memcmp(labels[i].key, "tenant", 6) &&
			labels[i].str_len == 2 && !memcmp(labels[i].str, "t1", 2);
	return 0;
}

/* Whether they have rows that match is not known: they stay, and it is said. */
static void deleted(void **state)
{
	static const char *const names[] = { "tenant" };
	const struct store_deletion del = { .from_ns = INT64_MIN,
					    .to_ns = INT64_MAX,
					    .matches = is_t1,
					    .keys = names,
					    .n_keys = 1 };
	struct copy_result r;
	struct err err = { 0 };
	struct sums known, got;
	(void)state;
	if (store_delete(d.a, &del, NULL, &r, &err))
		fail_msg("%s", err.text);
	assert_true(r.blind > 0 && r.blind < r.coarse);
	sum_known("tenant", &known);
	uint64_t gone = 0, t1 = 0;
	for (int e = 0; e < 3; e++)
		t1 += sum_of(&known, "t1")[e];
	struct store *s = open_store(d.a);
	sum_store(s, "tenant", &got);
	for (int e = 0; e < 3; e++)
		gone += sum_of(&got, "t1")[e];
	assert_int_equal(gone, 0);
	assert_int_equal(total(&got) + r.removed_samples, total_of_model());
	assert_true(r.removed_samples > 0 && r.removed_samples <= t1);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups),
		cmocka_unit_test(host_is_left),
		cmocka_unit_test(merged),
		cmocka_unit_test(deleted),
	};
	return cmocka_run_group_tests(tests, begin, end);
}
