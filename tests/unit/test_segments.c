/* SPDX-License-Identifier: Apache-2.0 */
/* The segment tree beside a brute-force merge of its windows: random ranges, selectors, late windows, wide keys. */
#include "unit/store_model.h"

#include "query/query.h"

#define T0 1700000000000000000ll
#define SECOND 1000000000ll

static const struct store_options small_options = {
	.wide_values = 5, /* tenant and query_id of the model are wide, comm is not */
	.wide_sets = 16384,
	.grace_ns = 20 * SECOND,
	.generation_bytes = 64u << 20,
	.reserve_bytes = 1,
	.max_bytes = 1ull << 40,
};

struct fixture {
	struct model m;
	char dir[64];
	struct store *s;
};

static int commit_at(struct model *m, struct store_writer *sw, int64_t t0, size_t n_rows)
{
	struct err err = { 0 };
	struct model_window w = { .t0 = t0, .t1 = t0 + 10 * SECOND };
	uint64_t i = m->n, lost[2] = { i, 1 }, flagged[1] = { 2 };
	struct store_cpu_totals cpu = { 1, 100 + i, 99, lost, flagged };
	struct store_totals t = { &cpu, 1, i, 0, i };
	model_fill(m, sw, &w, n_rows);
	int rc = store_commit_window(sw, w.t0, w.t1, t0 - T0 + 1, &t, &err);
	if (rc)
		fail_msg("%s", err.text);
	m->w[m->n++] = w;
	return rc;
}

/* Mostly one window after the other; pauses of all lengths; windows that come late, some after their parents. */
static void fill(struct model *m, struct store_writer **sw, const char *dir, const struct store_options *o)
{
	int64_t t = T0;
	struct err err = { 0 };
	while (m->n < 400) {
		uint32_t what = model_random(m, 100);
		if (what < 5)
			t += SECOND * model_random(m, 100);
		else if (what < 8)
			t += 60 * SECOND * model_random(m, 300);
		else if (what < 10)
			t += 3600 * SECOND * model_random(m, 300);
		if (what >= 96 && m->n) {
			commit_at(m, *sw, t - SECOND * model_random(m, 4000), 12);
			continue;
		}
		if (what == 95) {
			store_writer_close(*sw);
			assert_int_equal(store_writer_open_with(sw, dir, &model_meta, o, &err), 0);
		}
		commit_at(m, *sw, t, 12);
		t += 10 * SECOND;
		assert_int_equal(store_writer_state(*sw)->parents_failed, 0);
	}
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct store_writer *w;
	struct err err = { 0 };
	f->m.random = 31;
	assert_int_equal(store_writer_open_with(&w, temp_dir(f->dir), &model_meta, &small_options, &err), 0);
	fill(&f->m, &w, f->dir, &small_options);
	store_writer_close(w);
	if (store_open(&f->s, f->dir, &err))
		fail_msg("%s", err.text);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	store_close(f->s);
	remove_tree(f->dir);
	model_fini(&f->m);
	free(f);
	return 0;
}

static bool holds_always(const char *labels)
{
	(void)labels;
	return true;
}

static bool holds_comm(const char *labels)
{
	return strstr(labels, "comm=sh\n") != NULL;
}

static bool holds_tenant(const char *labels)
{
	return strstr(labels, "tenant=t3\n") != NULL;
}

static bool holds_query(const char *labels)
{
	return strstr(labels, "query_id=3\n") && !strstr(labels, "comm=sh\n");
}

static const struct {
	const char *where;
	bool (*holds)(const char *labels);
} selectors[] = {
	{ NULL, holds_always },
	{ "comm=\"sh\"", holds_comm },
	{ "tenant=\"t3\"", holds_tenant },
	{ "query_id=\"3\",comm!=\"sh\"", holds_query },
};

/* The value of a key in the text of a label set, NULL when it has none. */
static char *value_in(const char *labels, const char *key)
{
	char line[32];
	snprintf(line, sizeof(line), "%s=", key);
	const char *p = labels;
	while (p && strncmp(p, line, strlen(line)))
		p = (p = strchr(p, '\n')) ? p + 1 : NULL;
	return p ? strndup(p + strlen(line), strcspn(p, "\n") - strlen(line)) : NULL;
}

/* What the rows should be: labels cut down to `key` (NULL: to none; "*": whole). */
static struct model_window expect(const struct fixture *f, int64_t from, int64_t to, bool (*holds)(const char *),
				  const char *key, uint64_t *ret_windows)
{
	struct model_window out = { 0 };
	*ret_windows = 0;
	for (size_t i = 0; i < f->m.n; i++) {
		const struct model_window *w = &f->m.w[i];
		if (w->t0 >= to || w->t1 <= from)
			continue;
		++*ret_windows;
		for (size_t k = 0; k < w->n; k++) {
			struct model_row r = w->rows[k];
			if (r.event || !holds(r.labels))
				continue;
			r.stack = strdup(r.stack);
			if (key && !strcmp(key, "*"))
				r.labels = strdup(r.labels);
			else
				r.labels = key ? value_in(r.labels, key) : NULL;
			if (!r.labels)
				r.labels = strdup("");
			model_window_add(&out, r);
		}
	}
	model_sort(out.rows, out.n);
	return out;
}

static struct model_window answer(struct fixture *f, struct query *q, const char *key)
{
	struct read_back b = { .s = f->s };
	struct model_window out = { 0 };
	size_t n;
	const struct store_row *rows = query_rows(q, &n);
	for (size_t k = 0; k < n; k++)
		read_back_row(&b, &rows[k]);
	for (size_t k = 0; k < n; k++) {
		char *labels = b.rows[k].labels;
		if (key && strcmp(key, "*")) {
			b.rows[k].labels = value_in(labels, key);
			free(labels);
			if (!b.rows[k].labels)
				b.rows[k].labels = strdup("");
		}
		model_window_add(&out, b.rows[k]);
	}
	free(b.rows);
	model_sort(out.rows, out.n);
	return out;
}

static void same(const struct model_window *a, const struct model_window *b)
{
	assert_int_equal(a->n, b->n);
	for (size_t k = 0; k < a->n; k++) {
		assert_int_equal(model_row_cmp(&a->rows[k], &b->rows[k]), 0);
		assert_int_equal(a->rows[k].samples, b->rows[k].samples);
		assert_int_equal(a->rows[k].value, b->rows[k].value);
	}
}

static void check_query(struct fixture *f, int64_t from, int64_t to, size_t selector, const char *key)
{
	struct query_spec spec = { .where = selectors[selector].where, .from_ns = from, .to_ns = to, .idle = true };
	struct query *q;
	struct err err = { 0 };
	uint64_t windows, fired = 0, lost = 0;
	spec.labels = !key ? QUERY_NO_LABELS : !strcmp(key, "*") ? QUERY_ALL_LABELS : QUERY_KEYS;
	spec.keys = &key;
	spec.n_keys = spec.labels == QUERY_KEYS;
	if (query_open(&q, f->s, &spec, &err))
		fail_msg("%s", err.text);
	struct model_window want = expect(f, from, to, selectors[selector].holds, key, &windows);
	struct model_window got = answer(f, q, key);
	same(&got, &want);
	const struct query_info *info = query_info(q);
	for (size_t i = 0; i < f->m.n; i++) {
		if (f->m.w[i].t0 >= to || f->m.w[i].t1 <= from)
			continue;
		fired += 100 + i;
		lost += i;
	}
	assert_int_equal(info->windows, windows);
	assert_int_equal(info->coarse, 0);
	assert_int_equal(info->fired, fired);
	assert_int_equal(info->lost[0], lost);
	if (spec.labels == QUERY_ALL_LABELS)
		assert_int_equal(info->blocks, windows);
	model_window_fini(&want);
	model_window_fini(&got);
	query_close(q);
}

static void random_ranges(void **state)
{
	struct fixture *f = *state;
	static const char *const keys[] = { NULL, "comm", "tenant", "query_id", "*" };
	for (int i = 0; i < 250; i++) {
		const struct model_window *a = &f->m.w[model_random(&f->m, 400)], *b = &f->m.w[model_random(&f->m, 400)];
		int64_t from = (a->t0 < b->t0 ? a->t0 : b->t0) - 5 * SECOND + SECOND * model_random(&f->m, 30);
		int64_t to = (a->t0 < b->t0 ? b->t1 : a->t1) - SECOND * model_random(&f->m, 10);
		if (model_random(&f->m, 10) == 0)
			from = INT64_MIN;
		if (model_random(&f->m, 10) == 0)
			to = INT64_MAX;
		if (from >= to)
			continue;
		check_query(f, from, to, model_random(&f->m, 4), keys[model_random(&f->m, 5)]);
	}
}

/* Everything is found in far fewer blocks than windows, and every level was used. */
static void uses_parents(void **state)
{
	struct fixture *f = *state;
	struct store_cover c;
	struct err err = { 0 };
	size_t of_level[STORE_N_LEVELS] = { 0 };
	assert_int_equal(store_cover(f->s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err), 0);
	uint64_t windows = 0;
	for (size_t i = 0; i < c.n; i++) {
		of_level[c.blocks[i]->level]++;
		windows += c.blocks[i]->n_windows;
	}
	print_message("%zu blocks:", c.n);
	for (int k = 0; k < STORE_N_LEVELS; k++)
		print_message(" %zu of %s", of_level[k], store_level_name((uint8_t)k));
	print_message("\n");
	assert_int_equal(windows, f->m.n);
	assert_true(c.n < 60);
	assert_true(of_level[7] + of_level[8] > 0);
	store_cover_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_ranges),
		cmocka_unit_test(uses_parents),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
