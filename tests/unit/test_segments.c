/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The segment tree beside a brute-force merge of its windows: random ranges, selectors, late
 * windows, wide keys.
 */
#include "part.h"
#include "unit/store_model.h"

#include "store/block/top.h"
#include "store/read/store_int.h"
#include "store/read/symbols.h"

#include "query/query.h"
#include "store/damage.h"

#include <sys/statvfs.h>

#define T0 1700000000000000000ll
#define SECOND 1000000000ll

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

/*
 * Mostly one window after the other; pauses of all lengths; windows that come late, some after
 * their parents.
 */
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
		if (store_writer_state(*sw)->parents_failed)
			fail_msg("%s", store_writer_state(*sw)->last_error);
	}
}

static int setup(void **state)
{
	struct store_writer *w;
	struct fixture *f = fixture_new(31, &model_options, &w);
	fill(&f->m, &w, f->dir, &model_options);
	fixture_open(f, w);
	*state = f;
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

static void top_values(void **state);

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
	p += sprintf(p, "row %s %" PRIu64 " %" PRIu64 " {", model_events[r->event].name, r->samples, r->value);
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
	assert_int_equal(store_cover(f->s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err), 0);
	for (uint8_t level = 6; level < STORE_N_LEVELS; level++) {
		uint64_t all = 0, theirs = decode(f->dir, store_level_name(level), NULL, &fired);
		for (size_t i = 0; i < c.n; i++)
			if (c.blocks[i]->level == level)
				assert_int_equal(store_block_folded(f->s, c.blocks[i], add_samples, &all, &err), 0);
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
		struct query_spec spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX, .event = "cpu-clock",
					   .labels = QUERY_KEYS, .keys = &key, .n_keys = 1, .where = wheres[k] };
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
			assert_false(s->segments[i].symbols && s->segments[i].symbols->have & SYMBOLS_NAMES);
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
	assert_int_equal(store_roots(f->s, 0, LEVEL_POSTINGS, INT64_MIN, INT64_MAX, count_root, &n, &err), 0);
	for (size_t i = 0; i < f->s->n_segments; i++) /* store_roots has loaded them */
		for (size_t k = 0; f->s->segments[i].m.level == 0 && k < f->s->segments[i].n_refs; k++) {
			const struct store_block *b = &f->s->segments[i].refs[k].b;
			bool posted = false;
			for (size_t j = 0; j < f->s->n_segments; j++)
				for (size_t m = 0; f->s->segments[j].m.level == LEVEL_POSTINGS &&
						   m < f->s->segments[j].n_refs; m++) {
					const struct store_block *p = &f->s->segments[j].refs[m].b;
					posted |= slot_of(LEVEL_POSTINGS, p->t0_ns) == slot_of(LEVEL_POSTINGS, b->t0_ns) &&
						  b->seq >= p->child_lo && b->seq < p->child_hi;
				}
			windows++;
			want += !posted;
		}
	assert_true(want < windows / 2);
	assert_int_equal(n, want);
}

/* ---- damage ---- */

struct findings {
	size_t damaged, torn, cut;
	char first[400];
};

static void count(void *ctx, const struct store_finding *f)
{
	struct findings *n = ctx;
	if (!n->damaged && f->kind == STORE_DAMAGED)
		snprintf(n->first, sizeof(n->first), "%s at %" PRIu64 ": %s", f->path, f->offset, f->text);
	n->damaged += f->kind == STORE_DAMAGED;
	n->torn += f->kind == STORE_TORN;
	n->cut += f->kind == STORE_CUT;
}

static struct findings verify(const char *dir)
{
	struct findings n = { 0 };
	struct err err = { 0 };
	if (store_verify(dir, count, &n, &err)) {
		n.damaged++; /* both headers */
		assert_true(err.text[0] != 0);
	}
	return n;
}

/* Counters of everything, when they can be had. */
static int ask_all(const char *dir, uint64_t *ret_samples, uint64_t *ret_fired, uint64_t *ret_windows)
{
	struct query_spec spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX, .idle = true, .labels = QUERY_NO_LABELS };
	struct store *s;
	struct query *q;
	struct err err = { 0 };
	int rc = store_open(&s, dir, &err);
	if (rc)
		return rc;
	rc = query_open(&q, s, &spec, &err);
	if (!rc) {
		*ret_samples = query_info(q)->samples;
		*ret_fired = query_info(q)->fired;
		*ret_windows = query_info(q)->windows;
		query_close(q);
	}
	store_close(s);
	return rc;
}

static char walked[200][200];
static size_t n_walked;

static int walk_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)ftw;
	if (type == FTW_F && st->st_size && !strstr(path, "/reserve") && n_walked < 200)
		snprintf(walked[n_walked++], 200, "%s", path);
	return 0;
}

static void copy_tree(const char *from, const char *to)
{
	char command[300];
	snprintf(command, sizeof(command), "rm -rf %s && cp -a %s %s", to, from, to);
	assert_int_equal(system(command), 0);
}

/* A store of several levels and segments that ended cleanly. */
static void small_levels(struct model *m, const char *dir)
{
	struct store_writer *w;
	struct err err = { 0 };
	int64_t t = T0;
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &model_options, &err), 0);
	for (int i = 0; i < 30; i++, t += 10 * SECOND) {
		if (i % 10 == 9)
			t += 3600 * SECOND * 5;
		commit_at(m, w, t, 6);
	}
	store_writer_close(w);
}

/*
 * One bit of some byte in 40, or in a part of these; all of them with ASCRIBE_FAULT_FULL. Never a
 * wrong count, always found, always mended.
 */
static void every_flip(void **state)
{
	(void)state;
	char dir[64], copy[80];
	struct model m = { .random = 41 };
	uint64_t samples, fired, windows, s2, f2, w2;
	size_t bits = 0, harmless = 0, repaired = 0;
	const bool full = getenv("ASCRIBE_FAULT_FULL") != NULL;
	const off_t step = full ? 1 : 313 * (off_t)part_of("bits of a store", 4);
	small_levels(&m, temp_dir(dir));
	snprintf(copy, sizeof(copy), "%s.copy", dir);
	struct findings clean = verify(dir);
	if (clean.damaged || clean.torn)
		fail_msg("%s", clean.first);
	assert_int_equal(ask_all(dir, &samples, &fired, &windows), 0);
	assert_int_equal(windows, m.n);
	n_walked = 0;
	nftw(dir, walk_one, 8, FTW_PHYS);
	for (size_t i = 0; i < n_walked; i++) {
		int fd = open(walked[i], O_RDWR);
		struct stat st;
		unsigned char c;
		fstat(fd, &st);
		for (off_t bit = model_random(&m, 8); bit < 8 * st.st_size; bit += step + (full ? 0 : (off_t)model_random(&m, 16))) {
			assert_int_equal(pread(fd, &c, 1, bit / 8), 1);
			c ^= (unsigned char)(1u << bit % 8);
			assert_int_equal(pwrite(fd, &c, 1, bit / 8), 1);
			if (!verify(dir).damaged)
				fail_msg("%s: bit %lld is not found", walked[i], (long long)bit);
			if (!ask_all(dir, &s2, &f2, &w2)) {
				assert_int_equal(s2, samples);
				assert_int_equal(f2, fired);
				assert_int_equal(w2, windows);
				harmless++;
			}
			if (bits++ % 20 == 0) {
				struct findings n = { 0 };
				struct err err = { 0 };
				copy_tree(dir, copy);
				if (store_repair(copy, count, &n, &err))
					fail_msg("%s: bit %lld: %s", walked[i], (long long)bit, err.text);
				struct findings after = verify(copy);
				if (after.damaged || after.torn)
					fail_msg("%s: bit %lld: after repair: %s", walked[i], (long long)bit, after.first);
				assert_int_equal(ask_all(copy, &s2, &f2, &w2), 0);
				assert_true(s2 <= samples && w2 <= windows);
				/*
				 * A block of one file is gone; the rest, and the parents over it,
				 * are not.
				 */
				if (strstr(walked[i], "/seg/"))
					assert_true(w2 + 1 >= windows);
				repaired++;
				struct store_writer *w;
				if (store_writer_open_with(&w, copy, &model_meta, &model_options, &err))
					fail_msg("%s: bit %lld: %s", walked[i], (long long)bit, err.text);
				store_writer_close(w);
			}
			c ^= (unsigned char)(1u << bit % 8);
			assert_int_equal(pwrite(fd, &c, 1, bit / 8), 1);
		}
		close(fd);
	}
	print_message("%zu bits of %zu files: all found; %zu questions did not meet them; %zu repaired\n", bits, n_walked,
		      harmless, repaired);
	remove_tree(dir);
	remove_tree(copy);
	model_fini(&m);
}

/*
 * Retention: old windows go, their parents stay; a small cap cuts the finest first; what was cut is
 * told.
 */
static void retention(void **state)
{
	(void)state;
	char dir[64];
	struct store_options o = model_options;
	struct store_writer *w;
	struct err err = { 0 };
	struct model m = { .random = 51 };
	struct store *s;
	struct store_cover c;
	int64_t t = T0;
	o.keep_ns[0] = 24 * 3600 * SECOND;
	o.symbols_bytes = 1500;
	assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta, &o, &err), 0);
	for (int i = 0; i < 300; i++, t += (i % 10 ? 10 : 3600) * SECOND) {
		if (i % 50 == 49) { /* generations end when a writer opens */
			store_writer_close(w);
			assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &o, &err), 0);
		}
		commit_at(&m, w, t, 6);
	}
	assert_int_equal(store_writer_state(w)->parents_failed, 0);
	store_writer_close(w);
	if (store_open(&s, dir, &err))
		fail_msg("%s", err.text);
	assert_true(store_cut(s, 0)->blocks > 0 && store_cut(s, 0)->before_ns > T0);
	assert_int_equal(store_cut(s, 1)->blocks, 0);
	assert_int_equal(store_n_windows(s) + store_cut(s, 0)->blocks, 300);
	assert_int_equal(store_cover(s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err), 0);
	uint64_t windows = 0;
	for (size_t i = 0; i < c.n; i++)
		windows += c.blocks[i]->n_windows;
	assert_int_equal(windows, 300);
	store_cover_free(&c);
	/* From within a parent without children: all of it, and its range is said. */
	int64_t from = T0 + 15 * SECOND;
	assert_int_equal(store_cover(s, from, from + SECOND, STORE_FOLDED, NULL, 0, &c, &err), 0);
	assert_int_equal(c.n, 1);
	assert_true(c.from_ns <= T0 + 10 * SECOND && c.to_ns >= T0 + 20 * SECOND && c.blocks[0]->level > 0);
	store_cover_free(&c);
	assert_int_equal(store_cover(s, from, from + SECOND, STORE_ALL_LABELS, NULL, 0, &c, &err), 0);
	assert_true(c.coarse > 0);
	store_cover_free(&c);
	store_close(s);
	assert_int_equal(verify(dir).damaged, 0);
	/* Now with hardly any room. */
	o.max_bytes = 20000;
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &o, &err), 0);
	commit_at(&m, w, t, 6);
	store_writer_close(w);
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_true(store_cut(s, 0)->bytes_by_size > 0);
	assert_int_equal(store_cut(s, 8)->blocks, 0);
	store_close(s);
	assert_int_equal(verify(dir).damaged, 0);
	remove_tree(dir);
	model_fini(&m);
}

/* Of the first event, in rows whose labels hold the text. */
static uint64_t samples_with(const struct model *m, const char *text)
{
	uint64_t samples = 0;
	for (size_t i = 0; i < m->n; i++)
		for (size_t r = 0; r < m->w[i].n; r++)
			if (!m->w[i].rows[r].event && strstr(m->w[i].rows[r].labels, text))
				samples += m->w[i].rows[r].samples;
	return samples;
}

/*
 * The most frequent values of a wide key lie within their bounds, whatever blocks they come from.
 */
static void top_values(void **state)
{
	struct fixture *f = *state;
	struct store_cover c;
	struct store_top top;
	struct err err = { 0 };
	assert_int_equal(store_cover(f->s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err), 0);
	assert_int_equal(store_top(f->s, c.blocks, c.n, "tenant", 0, &top, &err), 0);
	assert_true(top.n >= 6);
	uint64_t listed = 0, carrying = samples_with(&f->m, "tenant=");
	for (size_t k = 0; k < top.n; k++) {
		char line[64];
		snprintf(line, sizeof(line), "tenant=%.*s\n", (int)top.v[k].label.str_len, top.v[k].label.str);
		uint64_t samples = samples_with(&f->m, line);
		assert_true(top.v[k].samples <= samples && samples <= top.v[k].samples + top.v[k].error);
		listed += top.v[k].samples;
	}
	assert_true(listed <= top.total);
	assert_int_equal(top.total, carrying);
	store_top_free(&top);
	store_cover_free(&c);
}

/* ---- all values of a wide key ---- */

#define MANY 700
#define FEW 20

struct value_sums {
	uint64_t few[FEW], many[MANY];
};

static void put_row(struct store_writer *w, struct model *m, struct value_sums *sums)
{
	uint32_t set, name, stack, event, many = model_random(m, MANY), few = model_random(m, FEW), n = 1 + model_random(m, 9);
	struct store_frame f = { .kind = FRAME_USER };
	char text[2][16];
	struct label l[2] = { { .key = "few", .str = text[0], .key_len = 3 }, { .key = "many", .str = text[1], .key_len = 4 } };
	bool both = model_random(m, 4);
	l[0].str_len = (uint32_t)snprintf(text[0], 16, "%u", few);
	l[1].str_len = (uint32_t)snprintf(text[1], 16, "%u", many);
	sums->few[few] += n;
	sums->many[many] += both ? n : 0;
	assert_int_equal(store_add_string(w, "f", 1, &name), 0);
	f.function = name;
	assert_int_equal(store_add_frame(w, &f, &stack), 0);
	assert_int_equal(store_add_stack(w, 0, stack, &stack), 0);
	assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
	assert_int_equal(store_add_set(w, l, both ? 2 : 1, &set), 0);
	assert_int_equal(store_add_row(w, set, stack, event, n, n * model_events[0].period), 0);
}

/* The samples of each value, by the query; whether fewer blocks were read than windows. */
static bool is_by_lists(struct store *s, const char *key, const uint64_t *samples, size_t n)
{
	struct query_spec spec = { .labels = QUERY_KEYS, .keys = &key, .n_keys = 1, .from_ns = INT64_MIN, .to_ns = INT64_MAX };
	struct query *q;
	struct query_table *t;
	struct err err = { 0 };
	uint64_t left = 0;
	assert_true(store_is_wide(s, key));
	assert_int_equal(query_open(&q, s, &spec, &err), 0);
	assert_int_equal(query_table(q, &key, 1, &t, &err), 0);
	for (size_t i = 0; i < n; i++)
		left += samples[i] != 0;
	for (size_t i = 0; i < t->n_rows; i++) {
		if (!t->rows[i].present[0])
			continue;
		assert_int_equal(t->rows[i].samples, samples[atoi(t->rows[i].values[0])]);
		left--;
	}
	assert_int_equal(left, 0);
	bool by_lists = query_info(q)->blocks < query_info(q)->windows;
	query_table_free(t);
	query_close(q);
	return by_lists;
}

static void put_windows(struct store_writer *w, struct model *m, int64_t from, int64_t to, struct value_sums *sums)
{
	struct err err = { 0 };
	struct store_cpu_totals cpu = { 0, 0, 0, (uint64_t[2]){ 0 }, (uint64_t[1]){ 0 } };
	const struct store_totals t = { .cpu = &cpu, .n_cpus = 1 };
	for (int64_t i = from; i < to; i++) {
		for (int row = 0; row < 30; row++)
			put_row(w, m, sums);
		assert_int_equal(store_commit_window(w, T0 + i * 10 * SECOND, T0 + (i + 1) * 10 * SECOND, i + 1, &t, &err), 0);
	}
}

/*
 * Parents have all values of a key with few, so that windows need not be read; and the most
 * frequent ones of a key with many.
 */
static void values_of_wide_keys(void **state)
{
	struct model m = { .random = 17 };
	struct store_writer *w;
	struct store *s;
	struct err err = { 0 };
	struct value_sums sums = { 0 };
	char dir[64];
	(void)state;
	temp_dir(dir);
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &model_options, &err), 0);
	put_windows(w, &m, 0, 200, &sums);
	store_writer_close(w);
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_true(is_by_lists(s, "few", sums.few, FEW));
	(void)is_by_lists(s, "many", sums.many, MANY);
	store_close(s);
	remove_tree(dir);
}

/* ---- some of the labels ---- */

/* "key=value\n" lines of the keys alone. */
static void keep_lines(const char *labels, const struct store_keys *keys, char *out, size_t cap)
{
	size_t len = 0;
	out[0] = 0;
	for (const char *line = labels, *end; *line; line = end + 1) {
		end = strchr(line, '\n');
		for (size_t k = 0; k < keys->n; k++) {
			size_t key = strlen(keys->v[k]);
			if (!strncmp(line, keys->v[k], key) && line[key] == '=')
				len += (size_t)snprintf(out + len, cap - len, "%.*s\n", (int)(end - line), line);
		}
	}
}

struct left {
	const struct store *s;
	struct {
		char labels[200];
		int64_t samples;
	} v[400];
	size_t n;
	int64_t all;
	bool strange; /* labels that nobody asked for, or that never were */
	bool filtered;
};

static int64_t *left_of(struct left *l, const char *labels, bool add)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->v[i].labels, labels))
			return &l->v[i].samples;
	if (!add || l->n == 400)
		return NULL;
	snprintf(l->v[l->n].labels, sizeof(l->v[0].labels), "%s", labels);
	return &l->v[l->n++].samples;
}

static int take_left(void *ctx, const struct store_row *r)
{
	struct left *l = ctx;
	char *labels = store_labels_text(l->s, r->set);
	int64_t *left = left_of(l, labels, false);
	if (!r->event && left)
		*left -= (int64_t)r->samples;
	l->strange |= !left;
	free(labels);
	return 0;
}

static int take_some_left(void *ctx, const struct store_row *rows, size_t n)
{
	struct left *l = ctx;
	for (size_t i = 0; i < n; i++) {
		l->strange |= rows[i].stack != 0 || rows[i].event != rows[0].event;
		take_left(l, &rows[i]);
	}
	return 0;
}

/* Rows of the second event are left out as a group, so they must not come. */
static int of_first_event(void *ctx, const struct store_row *sum)
{
	(void)ctx;
	return !sum->event;
}

static int take_all(void *ctx, const struct store_row *rows, size_t n)
{
	struct left *l = ctx;
	for (size_t i = 0; i < n; i++) {
		l->strange |= rows[i].set || rows[i].event;
		l->all += (int64_t)rows[i].samples;
	}
	return 0;
}

static int not_of_t1(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	(void)ctx;
	*ret = true;
	for (size_t i = 0; i < n; i++)
		*ret &= labels[i].str_len != 2 || memcmp(labels[i].str, "t1", 2);
	return 0;
}

/*
 * Rows that tell only some labels apart, of all windows, wide keys and narrow ones: the sums of
 * each set that is left, by brute force.
 */
static void some_keys(void **state)
{
	static const char *const all[] = { "comm", "query_id", "tenant", "nope" };
	struct fixture *f = *state;
	struct store_cover c;
	struct err err = { 0 };
	assert_int_equal(store_cover(f->s, INT64_MIN, INT64_MAX, STORE_ALL_LABELS, NULL, 0, &c, &err), 0);
	for (unsigned mask = 0; mask < 32; mask++) {
		const char *v[4];
		struct store_keys keys = { v, 0 };
		struct left *l = calloc(1, sizeof(*l));
		for (unsigned k = 0; k < 4; k++)
			if (mask >> k & 1)
				v[keys.n++] = all[k];
		*l = (struct left){ .s = f->s, .filtered = mask & 16 };
		for (size_t i = 0; i < f->m.n; i++)
			for (size_t r = 0; r < f->m.w[i].n; r++) {
				const struct model_row *row = &f->m.w[i].rows[r];
				char labels[200];
				keep_lines(row->labels, &keys, labels, sizeof(labels));
				if (!l->filtered || !strstr(labels, "tenant=t1\n"))
					*left_of(l, labels, true) += row->event ? 0 : (int64_t)row->samples;
			}
		struct store_reading how = { .keys = &keys, .filter = l->filtered ? not_of_t1 : NULL, .group = of_first_event, .ctx = l };
		int64_t wanted = 0;
		for (size_t i = 0; i < l->n; i++)
			wanted += l->v[i].samples;
		for (size_t i = 0; i < c.n; i++)
			if (mask & 1) {
				assert_int_equal(store_block_rows(f->s, c.blocks[i], &keys, how.filter, take_left, l, &err), 0);
			} else {
				how.rows = take_some_left;
				how.fold_stacks = true;
				how.fold_sets = false;
				assert_int_equal(store_block_read(f->s, c.blocks[i], &how, &err), 0);
			}
		how.rows = take_all;
		how.fold_stacks = false;
		how.fold_sets = true;
		for (size_t i = 0; i < c.n; i++)
			assert_int_equal(store_block_read(f->s, c.blocks[i], &how, &err), 0);
		assert_int_equal(l->all, wanted);
		assert_false(l->strange);
		assert_true(l->n > 0);
		for (size_t i = 0; i < l->n; i++)
			assert_int_equal(l->v[i].samples, 0);
		free(l);
	}
	store_cover_free(&c);
}

/* Samples of the first event in the blocks, by whether a label set holds the text. */
struct holding {
	const struct store *s;
	const char *text;
	uint64_t with, all;
};

static int count_holding(void *ctx, const struct store_row *r)
{
	struct holding *h = ctx;
	char *labels = store_labels_text(h->s, r->set);
	h->with += !r->event && strstr(labels, h->text) ? r->samples : 0;
	h->all += r->event ? 0 : r->samples;
	free(labels);
	return 0;
}

static struct holding holding(struct store *s, enum store_want want, int64_t to, const char *text, struct store_cover *c)
{
	static const char *const keys[] = { "comm" };
	struct holding h = { s, text, 0, 0 };
	struct err err = { 0 };
	assert_int_equal(store_cover(s, T0, to, want, keys, want == STORE_NARROW_KEYS, c, &err), 0);
	for (size_t i = 0; i < c->n; i++)
		assert_int_equal(want == STORE_FOLDED ? store_block_folded(s, c->blocks[i], count_holding, &h, &err) :
							store_block_rows(s, c->blocks[i], NULL, NULL, count_holding, &h, &err), 0);
	return h;
}

/*
 * A window is cut by a repair when its five minutes are not over: the other windows are still found
 * by label, and all blocks above have what the window had, without labels.
 */
static void part_of_a_minute(void **state)
{
	(void)state;
	char dir[64], path[128], comm[] = "comm=sh\n";
	struct store_writer *w;
	struct store *s;
	struct store_cover c;
	struct err err = { 0 };
	struct findings n = { 0 };
	struct model m = { .random = 77 };
	int64_t t = T0 + 100 * SECOND; /* where five minutes begin */
	assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	for (; m.n < 20; t += 10 * SECOND)
		commit_at(&m, w, t, 12);
	store_writer_close(w);
	snprintf(path, sizeof(path), "%s/seg/10s-00000001.seg", dir);
	int fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "damaged!", 8, 100), 8);
	close(fd);
	assert_int_equal(store_repair(dir, count, &n, &err), 0);
	assert_int_equal(n.cut, 1);

	uint64_t with = samples_with(&m, comm), all = samples_with(&m, ""), cut_with = 0, cut = 0;
	for (size_t r = 0; r < m.w[0].n; r++) {
		const struct model_row *row = &m.w[0].rows[r];
		cut += row->event ? 0 : row->samples;
		cut_with += !row->event && strstr(row->labels, comm) ? row->samples : 0;
	}
	assert_true(cut_with > 0 && cut_with < with);
	assert_int_equal(store_open(&s, dir, &err), 0);
	struct holding h = holding(s, STORE_NARROW_KEYS, t, comm, &c);
	assert_int_equal(h.with, with - cut_with);
	assert_int_equal(h.all, all - cut);
	assert_int_equal(c.gone, 1);
	assert_int_equal(c.coarse, 0);
	store_cover_free(&c);
	assert_int_equal(holding(s, STORE_FOLDED, t, comm, &c).all, all);
	assert_int_equal(c.gone, 0);
	assert_int_equal(c.blocks[0]->level, 1);
	store_cover_free(&c);
	store_close(s);

	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &model_options, &err), 0);
	for (; m.n < 30; t += 10 * SECOND)
		commit_at(&m, w, t, 12);
	int64_t end = t;
	commit_at(&m, w, t + 3600 * SECOND, 12); /* past the grace of five minutes */
	store_writer_close(w);
	m.n--;
	with = samples_with(&m, comm);
	all = samples_with(&m, "");
	m.n++;
	assert_int_equal(store_open(&s, dir, &err), 0);
	h = holding(s, STORE_NARROW_KEYS, end, comm, &c);
	assert_int_equal(c.gone, 1);
	assert_int_equal(c.coarse, 0);
	assert_int_equal(h.with, with - cut_with);
	assert_int_equal(h.all, all - cut);
	store_cover_free(&c);
	assert_int_equal(holding(s, STORE_FOLDED, end, comm, &c).all, all);
	assert_int_equal(c.n, 1);
	assert_true(c.blocks[0]->level >= 2);
	store_cover_free(&c);
	store_close(s);
	assert_int_equal(verify(dir).damaged, 0);
	remove_tree(dir);
	model_fini(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_ranges),
		cmocka_unit_test(uses_parents), cmocka_unit_test(top_values), cmocka_unit_test(values_of_wide_keys), cmocka_unit_test(some_keys), cmocka_unit_test(decoder_agrees),
		cmocka_unit_test(labels_need_no_names),
		cmocka_unit_test(posted_windows),
		cmocka_unit_test(damaged_child),
		cmocka_unit_test(retention),
		cmocka_unit_test(part_of_a_minute),
		cmocka_unit_test(every_flip),
	};
	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
