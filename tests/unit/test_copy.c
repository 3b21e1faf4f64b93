/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores made of others, beside the plain rows of the model: two stores in one, a store without
 * some of its rows.
 */
#include "unit/copied.h"

#include "store/read/store_int.h"
#include "store/writer.h"

/* ---- merging ---- */

static const char *const other_lost[] = { "rows_full", "other" };
static const struct store_meta other_meta = {
	.host = "second",
	.os = "6.1 x86_64",
	.what = "pprof",
	.lost_names = other_lost,
	.n_lost = 2,
	.flagged_names = flagged_names,
	.n_flagged = 1,
	.created_ns = 99,
};

/* Windows of ten seconds at any distance. */
static void commit_row_window(struct model *m, struct store_writer *w, int64_t t0, size_t n_rows)
{
	uint64_t lost[2] = { 3, 5 }, flagged[1] = { 0 }, stored = 0;
	struct model_window *mw = &m->w[m->n++];
	struct err err = { 0 };
	mw->t0 = t0;
	mw->t1 = t0 + 10 * SECOND;
	store_renew(w);
	store_renew_end(w);
	model_fill(m, w, mw, n_rows);
	for (size_t i = 0; i < mw->n; i++)
		stored += mw->rows[i].samples;
	struct store_cpu_totals cpu[2] = { { 0, stored / 3 + 8, stored / 3, lost, flagged },
					   { 1, stored - stored / 3 + 8, stored - stored / 3, lost,
					     flagged } };
	struct store_totals t = { cpu, 2, 0, 0, 0 };
	if (store_commit_window(w, mw->t0, mw->t1, t0 - T0 + 10 * SECOND, &t, &err))
		fail_msg("%s", err.text);
}

static void make_store(struct model *m, const char *dir, const struct store_meta *meta,
		       const struct store_options *o, size_t n, int64_t step)
{
	struct store_writer *w;
	struct err err = { 0 };
	assert_int_equal(store_writer_open_with(&w, dir, meta, o, &err), 0);
	for (size_t i = 0; i < n; i++)
		commit_row_window(m, w, T0 + (int64_t)i * step, 15);
	store_writer_close(w);
}

/* Of the model: events of a store are numbered as they came. */
static uint32_t event_of(struct store *s, uint32_t event)
{
	for (uint32_t i = 0; i < 3; i++)
		if (!strcmp(store_event(s, event)->name, model_events[i].name))
			return i;
	fail_msg("event %u", event);
	return 0;
}

static char *with_host(const char *labels, const char *host)
{
	char text[400];
	size_t n = strncmp(labels, "comm=", 5) ? 0 : strcspn(labels, "\n") + 1;
	snprintf(text, sizeof(text), "%.*shost=%s\n%s", (int)n, labels, host, labels + n);
	return strdup(text);
}

static void check_window(struct store *s, size_t i, const struct model_window *w, const char *host)
{
	struct err err = { 0 };
	struct read_back b = { .s = s };
	struct model_window want = { .n = 0 }, back;
	const struct store_window *got = store_window(s, i, &err);
	assert_non_null(got);
	assert_int_equal(got->t0_ns, w->t0);
	assert_int_equal(got->t1_ns, w->t1);
	for (size_t k = 0; k < w->n; k++) {
		struct model_row row = w->rows[k];
		row.labels = host ? with_host(row.labels, host) : strdup(row.labels);
		row.stack = strdup(row.stack);
		model_window_add(&want, row);
	}
	model_sort(want.rows, want.n);
	assert_int_equal(store_rows(s, i, read_back_row, &b, &err), 0);
	for (size_t k = 0; k < b.n; k++)
		b.rows[k].event = event_of(s, b.rows[k].event);
	model_sort(b.rows, b.n);
	assert_int_equal(b.n, want.n);
	for (size_t k = 0; k < b.n; k++) {
		if (model_row_cmp(&b.rows[k], &want.rows[k]))
			fail_msg("window %zu: %s and not %s", i, b.rows[k].labels,
				 want.rows[k].labels);
		assert_int_equal(b.rows[k].samples, want.rows[k].samples);
		assert_int_equal(b.rows[k].value, want.rows[k].value);
	}
	back = (struct model_window){ b.rows, b.n, 0, 0 };
	model_window_fini(&back);
	model_window_fini(&want);
}

static uint64_t lost_of(struct store *s, const char *name)
{
	const struct store_meta *m = store_meta(s);
	uint64_t sum = 0;
	for (size_t i = 0; i < store_n_windows(s); i++) {
		const struct store_window *w = store_window(s, i, NULL);
		for (size_t c = 0; c < w->totals.n_cpus; c++) {
			const struct store_cpu_totals *cpu = &w->totals.cpu[c];
			uint64_t all = 0;
			for (size_t k = 0; k < m->n_lost; k++) {
				all += cpu->lost[k];
				sum += strcmp(m->lost_names[k], name) ? 0 : cpu->lost[k];
			}
			assert_int_equal(cpu->fired, cpu->stored + all);
		}
	}
	return sum;
}

static uint64_t stored_of(struct store *s)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < store_n_windows(s); i++) {
		const struct store_window *w = store_window(s, i, NULL);
		for (size_t c = 0; c < w->totals.n_cpus; c++)
			sum += w->totals.cpu[c].stored;
	}
	return sum;
}

struct dirs {
	char base[64], a[80], b[80], out[80];
};

static void make_dirs(struct dirs *d)
{
	temp_dir(d->base);
	snprintf(d->a, sizeof(d->a), "%s/a", d->base);
	snprintf(d->b, sizeof(d->b), "%s/b", d->base);
	snprintf(d->out, sizeof(d->out), "%s/out", d->base);
}

static void test_merge(void **state)
{
	struct dirs d;
	struct model a = { .random = 11 }, b = { .random = 12 };
	struct store_options o = model_options;
	struct copy_result r;
	struct err err = { 0 };
	(void)state;
	make_dirs(&d);
	o.symbols_bytes = 8192;
	make_store(&a, d.a, &model_meta, &o, 120, MINUTE);
	make_store(&b, d.b, &other_meta, &o, 80, MINUTE);
	const char *const from[] = { d.a, d.b };
	if (store_merge(from, 2, d.out, NULL, &r, &err))
		fail_msg("%s", err.text);
	assert_int_equal(r.windows, 200);
	assert_int_equal(r.coarse, 0);
	check_whole(d.out);
	struct store *s = open_store(d.out);
	assert_int_equal(store_n_windows(s), 200);
	for (size_t i = 0, x = 0, y = 0; i < 200; i++) {
		bool first = y == b.n || (x < a.n && a.w[x].t0 <= b.w[y].t0);
		check_window(s, i, first ? &a.w[x++] : &b.w[y++], first ? "host" : "second");
	}
	assert_string_equal(store_meta(s)->host, "host, second");
	assert_string_equal(store_meta(s)->what,
			    "merged: all processes, cpu-clock at 99 Hz, pprof");
	/* A question that names no event is about the same one. */
	for (uint32_t i = 0; i < sizeof(model_events) / sizeof(model_events[0]); i++)
		assert_string_equal(store_event(s, i)->name, model_events[i].name);
	assert_int_equal(store_meta(s)->n_lost, 3);
	assert_int_equal(lost_of(s, "not_run"), 120 * 2 * 3);
	assert_int_equal(lost_of(s, "rows_full"), 120 * 2 * 5 + 80 * 2 * 3);
	assert_int_equal(lost_of(s, "other"), 80 * 2 * 5);
	store_close(s);
	assert_int_equal(store_merge(from, 2, d.out, NULL, &r, &err), -EEXIST);
	assert_absent(d.out, ".tmp");
	model_fini(&a);
	model_fini(&b);
	remove_tree(d.base);
}

/* Ids are given anew behind store_forget, and mean the same. */
static void test_forget(void **state)
{
	struct model m = { .random = 15 };
	struct dirs d;
	struct err err = { 0 };
	(void)state;
	make_dirs(&d);
	make_store(&m, d.a, &model_meta, &model_options, 40, MINUTE);
	struct store *s = open_store(d.a);
	for (size_t i = 0; i < 40; i++) {
		check_window(s, i, &m.w[i], NULL);
		assert_true(store_n_stacks(s) > 1);
		if (i % 3 == 0)
			assert_int_equal(store_forget(s, &err), 0);
		assert_int_equal(store_n_stacks(s) > 1, i % 3 != 0);
	}
	store_close(s);
	model_fini(&m);
	remove_tree(d.base);
}

/* ---- sums by one key, in whatever blocks ---- */

struct sums {
	char value[64][40];
	uint64_t samples[64][3];
	size_t n;
};

static uint64_t *sum_of(struct sums *s, const char *value)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->value[i], value))
			return s->samples[i];
	assert_true(s->n < 64);
	snprintf(s->value[s->n], 40, "%s", value);
	memset(s->samples[s->n], 0, sizeof(s->samples[0]));
	return s->samples[s->n++];
}

struct by_key {
	struct store *s;
	struct sums *sums;
};

static int add_sums(void *ctx, const struct store_row *rows, size_t n)
{
	struct by_key *k = ctx;
	for (size_t i = 0; i < n; i++) {
		const struct label *l;
		char text[40] = "";
		if (store_set(k->s, rows[i].set, &l))
			label_text(l, text, sizeof(text));
		sum_of(k->sums, text)[event_of(k->s, rows[i].event)] += rows[i].samples;
	}
	return 0;
}

static void sum_store(struct store *s, const char *key, struct sums *ret)
{
	struct store_cover c;
	struct err err = { 0 };
	struct by_key k = { s, ret };
	const char *const names[] = { key };
	const struct store_keys keys = { names, 1 };
	const struct store_reading how = {
		.keys = &keys, .fold_stacks = true, .rows = add_sums, .ctx = &k
	};
	ret->n = 0;
	if (store_cover(s, INT64_MIN, INT64_MAX, STORE_KEY_SUMS, names, 1, &c, &err))
		fail_msg("%s", err.text);
	for (size_t i = 0; i < c.n; i++) {
		if (store_block_read(s, c.blocks[i], &how, &err))
			fail_msg("%s", err.text);
	}
	store_cover_free(&c);
}

static void value_in(const char *labels, const char *key, char out[40])
{
	size_t n = strlen(key);
	out[0] = 0;
	for (const char *p = labels; *p; p = strchr(p, '\n') + 1)
		if (!strncmp(p, key, n) && p[n] == '=')
			snprintf(out, 40, "%.*s", (int)strcspn(p + n + 1, "\n"), p + n + 1);
}

typedef bool model_filter(const char *labels);

static void sum_model(const struct model *m, const char *key, model_filter *removed,
		      struct sums *ret)
{
	for (size_t i = 0; i < m->n; i++)
		for (size_t k = 0; k < m->w[i].n; k++) {
			const struct model_row *r = &m->w[i].rows[k];
			char value[40];
			value_in(r->labels, key, value);
			if (!removed || !removed(r->labels))
				sum_of(ret, value)[r->event] += r->samples;
		}
}

static bool same_sums(struct sums *a, struct sums *b)
{
	for (int turn = 0; turn < 2; turn++) {
		struct sums *x = turn ? b : a, *y = turn ? a : b;
		for (size_t i = 0; i < x->n; i++)
			if (memcmp(x->samples[i], sum_of(y, x->value[i]), sizeof(x->samples[i])))
				return false;
	}
	return true;
}

static uint64_t total(const struct sums *s)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < s->n; i++)
		for (int e = 0; e < 3; e++)
			sum += s->samples[i][e];
	return sum;
}

/* Windows older than half a day are cut; the parents above one minute stay. */
static struct store_options coarse_options(void)
{
	struct store_options o = model_options;
	o.keep_ns[0] = 12 * HOUR;
	o.keep_ns[1] = 12 * HOUR;
	return o;
}

static const char *const model_keys[] = { "comm", "query_id", "tenant" };

static void test_merge_coarse(void **state)
{
	struct dirs d;
	struct model a = { .random = 21 }, b = { .random = 22 };
	struct store_options o = coarse_options();
	struct copy_result r;
	struct err err = { 0 };
	(void)state;
	make_dirs(&d);
	o.symbols_memory = 1; /* each block has a file: of some parents only a part is cut */
	o.keep_ns[0] = o.keep_ns[1] = 90 * MINUTE;
	make_store(&a, d.a, &model_meta, &o, 300, 50 * SECOND);
	make_store(&b, d.b, &model_meta, &model_options, 40, 10 * MINUTE);
	const char *const from[] = { d.a, d.b };
	if (store_merge(from, 2, d.out, NULL, &r, &err))
		fail_msg("%s", err.text);
	assert_true(r.coarse > 10);
	check_whole(d.out);
	struct store *s = open_store(d.out);
	struct sums want = { .n = 0 }, got;
	sum_model(&a, "host", NULL, &want);
	sum_model(&b, "host", NULL, &want);
	assert_int_equal(want.n, 1);
	snprintf(want.value[0], 40, "host");
	sum_store(s, "host", &got);
	assert_true(same_sums(&want, &got));
	size_t n_same = 0;
	for (size_t i = 0; i < 3; i++) {
		want.n = 0;
		sum_model(&a, model_keys[i], NULL, &want);
		sum_model(&b, model_keys[i], NULL, &want);
		sum_store(s, model_keys[i], &got);
		assert_int_equal(total(&want), total(&got));
		/* What is not told is without the label, never with another value. */
		for (size_t k = 0; k < got.n; k++)
			for (int e = 0; *got.value[k] && e < 3; e++)
				assert_true(got.samples[k][e] <= sum_of(&want, got.value[k])[e]);
		n_same += same_sums(&want, &got);
	}
	assert_true(n_same > 0);
	store_close(s);
	model_fini(&a);
	model_fini(&b);
	remove_tree(d.base);
}

/* ---- deleting ---- */

static model_filter *deleted;

static int match_labels(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	(void)ctx;
	char *text = model_labels_text(labels, n);
	*ret = deleted(text);
	free(text);
	return 0;
}

static bool is_t1(const char *labels)
{
	return strstr(labels, "tenant=t1\n");
}

static bool is_t1_sh(const char *labels)
{
	return strstr(labels, "tenant=t1\n") && strstr(labels, "comm=sh\n");
}

static bool is_none(const char *labels)
{
	return strstr(labels, "tenant=absent\n");
}

static void check_delete(struct model *m, const char *dir, model_filter *filter, size_t n_keys,
			 bool coarse, struct copy_result *ret)
{
	static const char *const keys[] = { "tenant", "comm" };
	const struct store_deletion del = { .from_ns = INT64_MIN,
					    .to_ns = INT64_MAX,
					    .matches = match_labels,
					    .keys = keys,
					    .n_keys = n_keys };
	struct copy_result r;
	struct err err = { 0 };
	struct sums all = { .n = 0 }, want, got;
	uint64_t before, removed;
	deleted = filter;
	sum_model(m, "tenant", NULL, &all);
	struct store *s = open_store(dir);
	before = stored_of(s);
	store_close(s);
	if (store_delete(dir, &del, NULL, &r, &err))
		fail_msg("%s", err.text);
	assert_absent(dir, ".tmp");
	check_whole(dir);
	s = open_store(dir);
	assert_int_equal(r.coarse > 0, coarse);
	for (size_t i = 0; i < 3; i++) {
		want.n = 0;
		sum_model(m, model_keys[i], filter, &want);
		sum_store(s, model_keys[i], &got);
		assert_int_equal(total(&got), total(&want));
		if (!coarse)
			assert_true(same_sums(&want, &got));
	}
	removed = total(&all) - total(&want);
	assert_true(removed > 0);
	*ret = r;
	assert_int_equal(r.removed_samples, removed);
	assert_int_equal(lost_of(s, "deleted"), removed);
	if (!coarse)
		assert_int_equal(stored_of(s), before - removed);
	/* Nothing matches any more. */
	store_close(s);
	struct stat old, new;
	assert_int_equal(stat(dir, &old), 0);
	assert_int_equal(store_delete(dir, &del, NULL, &r, &err), 0);
	assert_int_equal(r.touched, 0);
	assert_int_equal(stat(dir, &new), 0);
	assert_int_equal(old.st_ino, new.st_ino);
}

static void test_delete(void **state)
{
	struct dirs d;
	struct model m = { .random = 31 };
	struct store_writer *w;
	struct copy_result r;
	struct err err = { 0 };
	(void)state;
	make_dirs(&d);
	make_store(&m, d.a, &model_meta, &model_options, 200, MINUTE);
	const struct store_deletion del = { .from_ns = INT64_MIN,
					    .to_ns = INT64_MAX,
					    .matches = match_labels };
	deleted = is_none;
	assert_int_equal(store_delete(d.a, &del, NULL, &r, &err), 0);
	assert_int_equal(r.touched, 0);
	model_fini(&m);
	remove_tree(d.a);
	m = (struct model){ .random = 32 };
	make_store(&m, d.a, &model_meta, &model_options, 200, MINUTE);
	check_delete(&m, d.a, is_t1, 1, false, &r);
	/* A writer goes on with it, and nobody deletes meanwhile. */
	assert_int_equal(store_writer_open_with(&w, d.a, &model_meta, &model_options, &err), 0);
	assert_int_equal(store_delete(d.a, &del, NULL, &r, &err), -EBUSY);
	assert_int_equal(model_commit_at(w, 100000, &err), 0);
	store_writer_close(w);
	check_whole(d.a);
	model_fini(&m);
	remove_tree(d.base);
}

/* Where a parent cannot tell the rows of a selector apart, they stay, and it is said. */
static void test_delete_blind(void **state)
{
	static const char *const keys[] = { "tenant", "comm" };
	const struct store_deletion del = { .from_ns = INT64_MIN,
					    .to_ns = INT64_MAX,
					    .matches = match_labels,
					    .keys = keys,
					    .n_keys = 2 };
	struct store_options o = coarse_options();
	struct dirs d;
	struct model m = { .random = 37 };
	struct copy_result r;
	struct sums all = { .n = 0 }, got;
	struct err err = { 0 };
	(void)state;
	make_dirs(&d);
	make_store(&m, d.a, &model_meta, &o, 200, 10 * MINUTE);
	deleted = is_t1_sh;
	assert_int_equal(store_delete(d.a, &del, NULL, &r, &err), 0);
	assert_true(r.blind > 0 && r.blind <= r.coarse);
	assert_true(r.touched > 0);
	struct store *s = open_store(d.a);
	sum_model(&m, "comm", NULL, &all);
	sum_store(s, "comm", &got);
	assert_int_equal(total(&got) + r.removed_samples, total(&all));
	store_close(s);
	model_fini(&m);
	remove_tree(d.base);
}

/* Only a part of the time. */
static void test_delete_range(void **state)
{
	struct dirs d;
	struct model m = { .random = 35 };
	struct copy_result r;
	struct err err = { 0 };
	(void)state;
	make_dirs(&d);
	make_store(&m, d.a, &model_meta, &model_options, 60, MINUTE);
	const struct store_deletion del = { .from_ns = T0 + 20 * MINUTE,
					    .to_ns = T0 + 40 * MINUTE,
					    .matches = match_labels };
	deleted = is_t1;
	assert_int_equal(store_delete(d.a, &del, NULL, &r, &err), 0);
	struct store *s = open_store(d.a);
	for (size_t i = 0; i < 60; i++) {
		if (i >= 20 && i < 40) {
			struct model_window *w = &m.w[i];
			size_t n = 0;
			for (size_t k = 0; k < w->n; k++) {
				if (!is_t1(w->rows[k].labels)) {
					w->rows[n++] = w->rows[k];
					continue;
				}
				free(w->rows[k].labels);
				free(w->rows[k].stack);
			}
			w->n = n;
		}
		check_window(s, i, &m.w[i], NULL);
	}
	store_close(s);
	model_fini(&m);
	remove_tree(d.base);
}

static void test_delete_coarse(void **state)
{
	static model_filter *const filters[] = { is_t1, is_t1_sh };
	struct store_options o = coarse_options();
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct dirs d;
		struct model m = { .random = 33 + i };
		struct copy_result r;
		make_dirs(&d);
		/* Wide keys are in no sums: of two keys in a selector, both must be narrow. */
		o.wide_values = i ? STORE_WIDE_VALUES : model_options.wide_values;
		make_store(&m, d.a, &model_meta, &o, 200, 10 * MINUTE);
		check_delete(&m, d.a, filters[i], i + 1, true, &r);
		assert_int_equal(r.blind, 0);
		model_fini(&m);
		remove_tree(d.base);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_merge),	     cmocka_unit_test(test_forget),
		cmocka_unit_test(test_merge_coarse), cmocka_unit_test(test_delete),
		cmocka_unit_test(test_delete_range), cmocka_unit_test(test_delete_coarse),
		cmocka_unit_test(test_delete_blind),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
