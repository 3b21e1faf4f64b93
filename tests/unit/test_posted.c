/* SPDX-License-Identifier: Apache-2.0 */
/* Single values of a wide key: whichever form they have, by ranges and by where windows begin. */
#include "unit/store_model.h"

#include "store/write/writer_int.h"

#define T0 (1700000000ll / 3600 * 3600 * 1000000000)
#define WINDOW 10000000000ll
#define WINDOWS 40

/* As a string, as an integer, or both: of equal text. */
static const struct {
	const char *text;
	bool string, integer;
} values[] = {
	{ "7", true, true },
	{ "007", true, false },
	{ "-12", false, true },
	{ "-0", true, false },
	{ "+7", true, false },
	{ " 7", true, false },
	{ "9223372036854775807", true, true },
	{ "9223372036854775808", true, false },
	{ "seven", true, false },
	{ "7x", true, false },
	{ "1234567890123456789012345678901", true, false },   /* 31 bytes */
	{ "12345678901234567890123456789012", true, false },  /* 32 */
	{ "123456789012345678901234567890123", true, false }, /* 33 */
};
enum { VALUES = sizeof(values) / sizeof(values[0]) };

static char dir[64];
static struct store *store;

/* Each value is in two windows. */
static bool is_in(size_t value, size_t window)
{
	return window == 2 * value || window == 2 * value + 7;
}

static void add(struct store_writer *w, const char *text, bool integer)
{
	struct label l = {
		.key = "id", .key_len = 2, .str = text, .str_len = (uint32_t)strlen(text)
	};
	uint32_t event, set, stack;
	if (integer)
		l = (struct label){ .key = "id",
				    .key_len = 2,
				    .str = "",
				    .num = strtoll(text, NULL, 10),
				    .type = LABEL_INT };
	assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
	assert_int_equal(store_add_set(w, &l, 1, &set), 0);
	assert_int_equal(model_put_stack(w, "main (/bin/demo) 0 0\n", &stack), 0);
	assert_int_equal(store_add_row(w, set, stack, event, integer ? 3 : 5, 1), 0);
}

static int setup(void **state)
{
	struct store_writer *w;
	struct err err = { 0 };
	const struct store_totals none = { 0 };
	(void)state;
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	for (size_t i = 0; i < WINDOWS; i++) {
		for (size_t k = 0; k < VALUES; k++) {
			if (is_in(k, i) && values[k].string)
				add(w, values[k].text, false);
			if (is_in(k, i) && values[k].integer)
				add(w, values[k].text, true);
		}
		const int64_t t0 = T0 + (int64_t)i * WINDOW;
		assert_int_equal(store_commit_window(w, t0, t0 + WINDOW, t0 - T0 + 1, &none, &err),
				 0);
	}
	store_writer_close(w);
	store = open_store(dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	store_close(store);
	remove_tree(dir);
	return 0;
}

/* The samples of a value in windows [from, to), which has both forms. */
static uint64_t brute(size_t value, size_t from, size_t to)
{
	uint64_t n = 0;
	for (size_t i = from; i < to; i++)
		if (is_in(value, i))
			n += (values[value].string ? 5 : 0) + (values[value].integer ? 3 : 0);
	return n;
}

static void check(const struct query_spec *spec, size_t value, size_t from, size_t to)
{
	struct query *q;
	struct err err = { 0 };
	if (query_open(&q, store, spec, &err))
		fail_msg("%s", err.text);
	const struct query_info *info = query_info(q);
	if (info->samples != brute(value, from, to))
		fail_msg("%s: %d", spec->where, (int)info->samples);
	/* The account is that of the range */
	assert_int_equal(info->windows, to - from);
	assert_int_equal(info->from_ns, from < to ? T0 + (int64_t)from * WINDOW : 0);
	assert_int_equal(info->to_ns, from < to ? T0 + (int64_t)to * WINDOW : 0);
	query_close(q);
}

static void values_in_their_windows(void **state)
{
	static const char *const keys[] = { "id" };
	(void)state;
	assert_true(store_is_wide(store, "id"));
	for (size_t k = 0; k < VALUES; k++) {
		char where[64];
		snprintf(where, sizeof(where), "{comm!=\"x\",id=\"%s\"}", values[k].text);
		struct query_spec spec = { .where = where, .keys = keys, .n_keys = 1 };
		for (int labels = QUERY_KEYS; labels <= QUERY_TOTALS; labels++) {
			spec.labels = (enum query_labels)labels;
			spec.from_ns = T0;
			spec.to_ns = T0 + WINDOWS * WINDOW;
			check(&spec, k, 0, WINDOWS);
		}
		/* From within a window to within a window: both count, or what begins there */
		for (size_t at = 2 * k; at < 2 * k + 10; at++) {
			spec.labels = QUERY_KEYS;
			spec.from_ns = T0 + (int64_t)at * WINDOW + 1;
			spec.to_ns = T0 + (int64_t)(at + 3) * WINDOW + WINDOW - 1;
			spec.by_start = false;
			check(&spec, k, at, at + 4);
			spec.by_start = true;
			check(&spec, k, at + 1, at + 4);
			spec.to_ns = spec.from_ns + 1;
			check(&spec, k, at + 1, at + 1);
		}
	}
}

/* Windows of three hours, one of each in turn: each hour has one block, of all its windows. */
static void hours_in_turn(void **state)
{
	const int64_t hour = 3600 * 1000000000ll;
	const struct store_totals none = { 0 };
	struct store_options o = model_options;
	struct store_writer *w;
	struct store *s;
	struct err err = { 0 };
	char other[64];
	size_t n = 0;
	(void)state;
	o.wide_values = 2;
	o.grace_ns = 10 * hour; /* all come before the first is summed up */
	assert_int_equal(store_writer_open_with(&w, temp_dir(other), &model_meta, &o, &err), 0);
	for (int64_t i = 0; i < 30; i++) {
		char text[20];
		const int64_t t0 = T0 + i % 3 * hour + i / 3 * WINDOW;
		for (int64_t k = 0; k < 5; k++) {
			snprintf(text, sizeof(text), "v%d", (int)(i * 5 + k));
			add(w, text, false);
		}
		assert_int_equal(store_commit_window(w, t0, t0 + WINDOW, i + 1, &none, &err), 0);
	}
	/* The hashes of each window with a table are kept until then. */
	assert_true(w->n_posted > 20);
	assert_int_equal(w->n_posted, w->unposted.n);
	for (size_t i = 0; i < w->n_posted; i++)
		assert_int_equal(w->posted[i].n, 5);
	const int64_t t0 = T0 + 4 * hour;
	assert_int_equal(store_commit_window(w, t0, t0 + WINDOW, 31, &none, &err), 0);
	assert_int_equal(store_compact(w, &err), 0);
	store_writer_close(w);
	s = open_store(other);
	for (size_t i = 0; i < s->n_segments; i++) {
		struct segment *g = &s->segments[i];
		if (g->m.level != LEVEL_POSTINGS)
			continue;
		assert_int_equal(segment_load(s, g, &err), 0);
		for (size_t k = 0; k < g->n_refs; k++, n++) {
			const struct store_block *b = &g->refs[k].b;
			const uint32_t lo = (uint32_t)((b->t0_ns - T0) / hour);
			assert_int_equal(b->t0_ns, T0 + lo * hour);
			assert_int_equal(b->t1_ns, b->t0_ns + 10 * WINDOW);
			/* A window from before the key was wide has it in no table. */
			assert_int_equal(b->child_lo, lo ? lo : 3 * (10 - b->n_windows));
			assert_int_equal(b->child_hi, 28 + lo);
			assert_int_equal(b->window_lo, b->child_lo);
			assert_int_equal(b->window_hi, b->child_hi);
			assert_int_equal(b->n_children, b->n_windows);
			assert_int_equal(b->n_folded, 5 * b->n_windows);
			assert_int_equal(b->boot_ns, b->child_hi);
		}
	}
	assert_int_equal(n, 3);
	store_close(s);
	remove_tree(other);
}

/* A value that many sets have is posted once, and hashes are in order. */
static void each_hash_once(void **state)
{
	const struct store_totals none = { 0 };
	struct store_writer *w;
	struct err err = { 0 };
	char other[64];
	(void)state;
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(other), &model_meta, &model_options, &err), 0);
	for (int64_t i = 0; i < 2; i++) {
		for (int k = 0; k < 60; k++) {
			char id[8], rid[8];
			uint32_t set, stack, event;
			snprintf(id, sizeof(id), "v%d", k % 12);
			snprintf(rid, sizeof(rid), "r%d", k);
			const struct label l[] = {
				{ .key = "id", .key_len = 2, .str = id, .str_len = strlen(id) },
				{ .key = "rid", .key_len = 3, .str = rid, .str_len = strlen(rid) },
			};
			assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
			assert_int_equal(store_add_set(w, l, 2, &set), 0);
			assert_int_equal(model_put_stack(w, "main (/bin/demo) 0 0\n", &stack), 0);
			assert_int_equal(store_add_row(w, set, stack, event, 1, 1), 0);
		}
		const int64_t t0 = T0 + i * WINDOW;
		assert_int_equal(store_commit_window(w, t0, t0 + WINDOW, i + 1, &none, &err), 0);
	}
	const struct posted *last = &w->posted[w->n_posted - 1];
	assert_int_equal(last->n, 12 + 60);
	for (size_t i = 1; i < last->n; i++)
		assert_true(last->hashes[i - 1] < last->hashes[i]);
	store_writer_close(w);
	remove_tree(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(values_in_their_windows),
					    cmocka_unit_test(hours_in_turn),
					    cmocka_unit_test(each_hash_once) };
	return cmocka_run_group_tests(tests, setup, teardown);
}
