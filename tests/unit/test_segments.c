/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The segment tree beside a brute-force merge of its windows: random ranges and selectors, late
 * windows. tools/store_decode reads the same.
 */
#include "part.h"
#include "store/writer.h"
#include "unit/segments.h"

#include "store/read/store_int.h"
#include "store/read/symbols.h"

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

/*
 * The windows in halves: the greater part of those across an end decides, unless nothing would be
 * left.
 */
static void round_range(const struct fixture *f, int64_t *from, int64_t *to)
{
	int64_t ends[2] = { *from, *to };
	for (int e = 0; e < 2; e++) {
		int64_t begin = INT64_MAX, end = INT64_MIN;
		for (size_t i = 0; i < f->m.n; i++) {
			const struct model_window *w = &f->m.w[i];
			if (w->t0 >= ends[e] || w->t1 <= ends[e])
				continue;
			begin = w->t0 < begin ? w->t0 : begin;
			end = w->t1 > end ? w->t1 : end;
		}
		if (begin == INT64_MAX)
			continue;
		double middle = ((double)(begin - ends[e]) + (double)(end - ends[e])) / 2;
		ends[e] = middle <= 0 ? end : begin;
	}
	if (ends[0] < ends[1]) {
		*from = ends[0];
		*to = ends[1];
	}
}

/*
 * What the rows should be: labels cut down to `key` (NULL: to none; "*": whole), without stacks
 * where there is a key.
 */
static struct model_window expect(const struct fixture *f, int64_t from, int64_t to,
				  bool (*holds)(const char *), const char *key,
				  uint64_t *ret_windows)
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
			r.stack = strdup(key && strcmp(key, "*") ? "" : r.stack);
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
	struct read_back b = { .s = f->s, .q = q };
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

static void check_query(struct fixture *f, int64_t from, int64_t to, size_t selector,
			const char *key)
{
	struct query_spec spec = {
		.where = selectors[selector].where, .from_ns = from, .to_ns = to, .idle = true
	};
	struct query *q;
	struct err err = { 0 };
	uint64_t windows, fired = 0, lost = 0;
	spec.labels = !key ? QUERY_NO_LABELS : !strcmp(key, "*") ? QUERY_ALL_LABELS : QUERY_KEYS;
	spec.keys = &key;
	spec.n_keys = spec.labels == QUERY_KEYS;
	if (query_open(&q, f->s, &spec, &err))
		fail_msg("%s", err.text);
	round_range(f, &from, &to);
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
		const struct model_window *a = &f->m.w[model_random(&f->m, 400)],
					  *b = &f->m.w[model_random(&f->m, 400)];
		int64_t from = (a->t0 < b->t0 ? a->t0 : b->t0) - 5 * SECOND +
			       SECOND * model_random(&f->m, 30);
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
	assert_int_equal(store_cover(f->s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err),
			 0);
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

/* How many blocks a level has; and where block k of the first segment of level 0 ends. */
static size_t count_level(const char *dir, uint8_t level, size_t k, off_t *ret_end)
{
	struct store *s;
	struct err err = { 0 };
	size_t n = 0;
	assert_int_equal(store_open(&s, dir, &err), 0);
	for (size_t i = 0; i < s->n_segments; i++) {
		struct segment *g = &s->segments[i];
		assert_int_equal(segment_load(s, g, &err), 0);
		n += g->m.level == level ? g->n_refs : 0;
		if (g->m.serial == 1)
			*ret_end = (off_t)(g->refs[k].offset + FRAME_SIZE + g->refs[k].stored_len);
	}
	store_close(s);
	return n;
}

/*
 * A window that the disk has damaged: what it is part of has no parent, all the rest does, and the
 * failure is told.
 */
static void damaged_child(void **state)
{
	(void)state;
	char dir[64], path[120];
	struct model m = { .random = 14 };
	struct store_options o = model_options;
	struct store_writer *w;
	struct err err = { 0 };
	off_t end;
	uint8_t byte;
	o.windows_only = true;
	assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta, &o, &err), 0);
	for (int i = 0; i < 60; i++)
		commit_at(&m, w, T0 / (300 * SECOND) * 300 * SECOND + i * 10 * SECOND, 12);
	store_writer_close(w);
	assert_int_equal(count_level(dir, 1, 20, &end), 0);
	snprintf(path, sizeof(path), "%s/%s", dir, "seg/10s-00000001.seg");
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, &byte, 1, end - 1), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, end - 1), 1);
	close(fd);
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &model_options, &err), 0);
	assert_int_equal(store_compact(w, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "is damaged at offset"));
	assert_int_equal(store_writer_state(w)->parents_failed, 1);
	assert_int_equal(store_compact(w, &err), 0);
	store_writer_close(w);
	assert_int_equal(count_level(dir, 1, 20, &end), 9);
	assert_int_equal(count_level(dir, 2, 20, &end), 1);
	struct store *s;
	struct store_cover c;
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_int_equal(store_cover(s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err), 0);
	/* Five minutes, four, and the windows of the one that has the damage */
	assert_int_equal(c.n, 1 + 4 + 6);
	store_cover_free(&c);
	store_close(s);
	remove_tree(dir);
	model_fini(&m);
}

static int note_key(void *ctx, const char *key, size_t len)
{
	static const char *const keys[] = { "comm", "tenant", "query_id" };
	unsigned *seen = ctx, known = 0;
	for (unsigned i = 0; i < 3; i++)
		if (len == strlen(keys[i]) && !memcmp(key, keys[i], len))
			known |= 1u << i;
	assert_true(known != 0);
	*seen |= known;
	return 0;
}

static int stop_at_key(void *ctx, const char *key, size_t len)
{
	(void)key, (void)len;
	++*(int *)ctx;
	return 7;
}

/* All keys of windows and of the blocks above them, narrow and wide, and no others. */
static void keys(void **state)
{
	struct fixture *f = *state;
	struct err err = { 0 };
	unsigned seen = 0;
	int calls = 0;
	bool has = false;
	assert_int_equal(store_each_key(f->s, note_key, &seen, &err), 0);
	assert_int_equal(seen, 7);
	assert_int_equal(store_each_key(f->s, stop_at_key, &calls, &err), 7);
	assert_int_equal(calls, 1);
	assert_int_equal(store_has_key(f->s, "tenant", &has, &err), 0);
	assert_true(has);
	assert_int_equal(store_has_key(f->s, "tenan", &has, &err), 0);
	assert_false(has);
	assert_int_equal(store_has_key(f->s, "comm", &has, &err), 0);
	assert_true(has);
	assert_true(store_is_wide(f->s, "tenant") && store_is_wide(f->s, "query_id"));
	assert_false(store_is_wide(f->s, "comm") || store_is_wide(f->s, "none"));
}

/* ---- the other reader ---- */

struct lines {
	char **v;
	size_t n;
};

static void add_line(struct lines *l, const char *text)
{
	l->v = realloc(l->v, (l->n + 1) * sizeof(*l->v));
	l->v[l->n++] = strdup(text);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_lines(struct lines *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
}

/* A row of the model as tools/store_decode prints it: names of frames only. */
static void model_line(struct lines *l, const struct model_row *r)
{
	char line[6000], *p = line;
	p += sprintf(p, "row %s %" PRIu64 " %" PRIu64 " {", model_events[r->event].name, r->samples,
		     r->value);
	for (const char *k = r->labels; *k; k = strchr(k, '\n') + 1)
		p += sprintf(p, "%s%.*s", k == r->labels ? "" : ",", (int)strcspn(k, "\n"), k);
	p += sprintf(p, "} ");
	for (const char *k = r->stack; *k; k = strchr(k, '\n') + 1)
		p += sprintf(p, "%s%.*s", k == r->stack ? "" : ";", (int)(strstr(k, " (") - k), k);
	strcpy(p, "\n");
	add_line(l, line);
}

/*
 * Samples of all stacks of all blocks of a level, by the decoder; its rows too when they are asked
 * for.
 */
static uint64_t decode(const char *dir, const char *level, struct lines *rows, uint64_t *ret_fired)
{
	char command[200], line[8000];
	uint64_t samples = 0, fired;
	snprintf(command, sizeof(command), "tools/store_decode %s %s", dir, level);
	FILE *f = popen(command, "r");
	*ret_fired = 0;
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "block %*s %*d %*d %*u %" SCNu64, &fired) == 1)
			*ret_fired += fired;
		if (!strncmp(line, "folded ", 7))
			samples += strtoull(strchr(line + 7, ' '), NULL, 10);
		else if (rows && !strncmp(line, "row ", 4))
			add_line(rows, line);
	}
	assert_int_equal(pclose(f), 0);
	return samples;
}

static int add_samples(void *ctx, const struct store_row *row)
{
	*(uint64_t *)ctx += row->samples;
	return 0;
}

/* An independent reader, written by docs/format.md, sees the same rows. */
static void decoder_agrees(void **state)
{
	struct fixture *f = *state;
	struct lines got = { 0 }, want = { 0 };
	struct err err = { 0 };
	struct store_cover c;
	uint64_t fired;
	if (system("command -v python3 zstd >/dev/null") != 0) {
		print_message("skipped: python3 and zstd are needed\n");
		skip();
	}
	decode(f->dir, "10s", &got, &fired);
	for (size_t i = 0; i < f->m.n; i++)
		for (size_t k = 0; k < f->m.w[i].n; k++)
			model_line(&want, &f->m.w[i].rows[k]);
	assert_int_equal(got.n, want.n);
	qsort(got.v, got.n, sizeof(*got.v), by_text);
	qsort(want.v, want.n, sizeof(*want.v), by_text);
	for (size_t i = 0; i < want.n; i++)
		assert_string_equal(got.v[i], want.v[i]);
	free_lines(&got);
	free_lines(&want);
	assert_int_equal(store_cover(f->s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err),
			 0);
	for (uint8_t level = 6; level < STORE_N_LEVELS; level++) {
		uint64_t all = 0, theirs = decode(f->dir, store_level_name(level), NULL, &fired);
		for (size_t i = 0; i < c.n; i++)
			if (c.blocks[i]->level == level)
				assert_int_equal(store_block_folded(f->s, c.blocks[i], add_samples,
								    &all, &err),
						 0);
		/* Those of the cover are among those of the level; of the highest they are all. */
		assert_true(level < STORE_N_LEVELS - 1 ? theirs >= all : theirs == all);
	}
	store_cover_free(&c);
}

/* A question by labels tells idle CPUs without the names of any segment. */
static void labels_need_no_names(void **state)
{
	static const char *const key = "comm", *const wheres[] = { NULL, "comm=\"sh\"" };
	struct fixture *f = *state;
	for (size_t k = 0; k < 2; k++) {
		struct query_spec spec = { .from_ns = INT64_MIN,
					   .to_ns = INT64_MAX,
					   .event = "cpu-clock",
					   .labels = QUERY_KEYS,
					   .keys = &key,
					   .n_keys = 1,
					   .where = wheres[k] };
		uint64_t idle = 0, busy = 0;
		struct err err = { 0 };
		struct store *s;
		struct query *q;
		for (size_t i = 0; i < f->m.n; i++)
			for (size_t r = 0; r < f->m.w[i].n; r++) {
				const struct model_row *row = &f->m.w[i].rows[r];
				bool wanted = !k || strstr(row->labels, "comm=sh\n");
				if (row->event)
					continue;
				idle += model_is_idle(row) ? row->samples : 0;
				busy += wanted && !model_is_idle(row) ? row->samples : 0;
			}
		assert_int_equal(store_open(&s, f->dir, &err), 0);
		assert_int_equal(query_open(&q, s, &spec, &err), 0);
		assert_true(idle > 0);
		assert_int_equal(query_info(q)->idle, idle);
		assert_int_equal(query_info(q)->samples, busy);
		for (size_t i = 0; i < s->n_segments; i++)
			assert_false(s->segments[i].symbols &&
				     s->segments[i].symbols->have & SYMBOLS_NAMES);
		query_close(q);
		store_close(s);
	}
}

static int count_root(void *ctx, const struct block_ref *r)
{
	(void)r;
	++*(size_t *)ctx;
	return 0;
}

/* Windows in postings are not looked into by readers, nor posted again by a writer. */
static void posted_windows(void **state)
{
	struct fixture *f = *state;
	size_t n = 0, want = 0, windows = 0;
	struct err err = { 0 };
	assert_int_equal(
		store_roots(f->s, 0, LEVEL_POSTINGS, INT64_MIN, INT64_MAX, count_root, &n, &err),
		0);
	for (size_t i = 0; i < f->s->n_segments; i++) /* store_roots has loaded them */
		for (size_t k = 0; f->s->segments[i].m.level == 0 && k < f->s->segments[i].n_refs;
		     k++) {
			const struct store_block *b = &f->s->segments[i].refs[k].b;
			bool posted = false;
			for (size_t j = 0; j < f->s->n_segments; j++)
				for (size_t m = 0; f->s->segments[j].m.level == LEVEL_POSTINGS &&
						   m < f->s->segments[j].n_refs;
				     m++) {
					const struct store_block *p = &f->s->segments[j].refs[m].b;
					posted |= slot_of(LEVEL_POSTINGS, p->t0_ns) ==
							  slot_of(LEVEL_POSTINGS, b->t0_ns) &&
						  b->seq >= p->child_lo && b->seq < p->child_hi;
				}
			windows++;
			want += !posted;
		}
	assert_true(want < windows / 2);
	assert_int_equal(n, want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_ranges),	cmocka_unit_test(keys),
		cmocka_unit_test(uses_parents),		cmocka_unit_test(decoder_agrees),
		cmocka_unit_test(labels_need_no_names), cmocka_unit_test(posted_windows),
		cmocka_unit_test(damaged_child),
	};
	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
