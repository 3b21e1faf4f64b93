/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The oracle of the store's tests: what was put in, kept as plain text rows, and a random generator
 * of it. It knows nothing of ids, dictionaries or files.
 */
#ifndef TESTS_STORE_MODEL_H
#define TESTS_STORE_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "query/query.h"
#include "store/damage.h"
#include "store/writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct model_row {
	char *labels, *stack; /* "key=value\n..." and "function (module)\n..." root first */
	uint32_t event;
	uint64_t samples, value;
};

struct model_window {
	struct model_row *rows;
	size_t n;
	int64_t t0, t1;
};

struct model {
	struct model_window w[400];
	size_t n;
	uint64_t random;
};

static const char *const lost_names[] = { "not_run", "rows_full" };
static const char *const flagged_names[] = { "idle" };

static const struct store_meta model_meta = {
	.host = "host",
	.os = "6.1 x86_64",
	.what = "all processes, cpu-clock at 99 Hz",
	.lost_names = lost_names,
	.n_lost = 2,
	.flagged_names = flagged_names,
	.n_flagged = 1,
	.created_ns = 12345,
};

/* tenant and query_id of the model are wide, comm is not; full rows whatever the disk has left. */
static const struct store_options model_options = {
	.wide_values = 5,
	.wide_sets = 16384,
	.grace_ns = 20000000000,
	.symbols_bytes = 64u << 20,
	.reserve_bytes = 1,
	.max_bytes = 1ull << 40,
};

static const struct store_event model_events[] = {
	{ "cpu-clock", "nanoseconds", 10101010, 10101010 },
	{ "page-faults", "count", 0, 1 },
	{ "task-clock", "nanoseconds", 1000000, 0 },
};

static inline uint32_t model_random(struct model *m, uint32_t below)
{
	m->random = m->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(m->random >> 33) % below;
}

static inline int model_row_cmp(const void *pa, const void *pb)
{
	const struct model_row *a = pa, *b = pb;
	int c = strcmp(a->labels, b->labels);
	if (!c)
		c = strcmp(a->stack, b->stack);
	return c ? c : (int)a->event - (int)b->event;
}

static inline void model_sort(struct model_row *rows, size_t n)
{
	if (n)
		qsort(rows, n, sizeof(*rows), model_row_cmp);
}

static inline void model_window_add(struct model_window *w, struct model_row row)
{
	for (size_t i = 0; i < w->n; i++) {
		if (model_row_cmp(&w->rows[i], &row))
			continue;
		w->rows[i].samples += row.samples;
		w->rows[i].value += row.value;
		free(row.labels);
		free(row.stack);
		return;
	}
	w->rows = realloc(w->rows, (w->n + 1) * sizeof(row));
	w->rows[w->n++] = row;
}

static inline void model_window_fini(struct model_window *w)
{
	for (size_t i = 0; i < w->n; i++) {
		free(w->rows[i].labels);
		free(w->rows[i].stack);
	}
	free(w->rows);
	*w = (struct model_window){ 0 };
}

static inline void model_fini(struct model *m)
{
	for (size_t i = 0; i < m->n; i++)
		model_window_fini(&m->w[i]);
	m->n = 0;
}

/* "key=value\n" of a label set. */
static inline char *model_draw_set(struct model *m)
{
	char text[200] = "";
	for (int i = 0; i < 3; i++) {
		size_t len = strlen(text);
		if (!model_random(m, 3))
			continue;
		if (i == 0)
			snprintf(text + len, sizeof(text) - len, "comm=%s\n",
				 model_random(m, 2) ? "sh" : "postgres");
		else if (i == 1)
			/* over all of a 64-bit integer, as PostgreSQL's ids are */
			snprintf(text + len, sizeof(text) - len, "query_id=%" PRId64 "\n",
				 ((int64_t)model_random(m, 9) - 4) * (INT64_MAX / 4));
		else
			snprintf(text + len, sizeof(text) - len, "tenant=t%u\n",
				 model_random(m, 6));
	}
	return strdup(text);
}

/*
 * Frames print as "name (module) kind line"; recursion and shared prefixes of names and paths are
 * frequent.
 */
static inline char *model_draw_stack(struct model *m)
{
	char text[2000] = "", name[64];
	int depth = (int)model_random(m, 7);
	for (int i = 0; i < depth; i++) {
		uint32_t kind = model_random(m, 2), line = model_random(m, 2);
		const char *module = model_random(m, 2) ? "/usr/lib/libc.so.6" : "/usr/bin/demo";
		uint32_t k = model_random(m, 12);
		size_t len = strlen(text);
		if (k)
			snprintf(name, sizeof(name), "server::handle_%s%u", k % 3 ? "read_" : "",
				 k);
		else
			snprintf(name, sizeof(name), "%s+0x%x", strrchr(module, '/') + 1,
				 0x1000 + model_random(m, 2));
		snprintf(text + len, sizeof(text) - len, "%s (%s) %u %u\n", name, module, kind,
			 line);
	}
	if (!depth && model_random(m, 2))
		snprintf(text, sizeof(text), "[idle] () 2 0\n");
	return strdup(text);
}

static inline bool model_is_idle(const struct model_row *r)
{
	return !strncmp(r->stack, "[idle]", 6);
}

/* ---- from text into a store ---- */

static inline uint32_t model_text(struct store_writer *sw, const char *s)
{
	uint32_t id;
	assert_int_equal(store_add_string(sw, s, strlen(s), &id), 0);
	return id;
}

static inline int model_put_set(struct store_writer *sw, const char *text, uint32_t *ret)
{
	struct label l[16];
	size_t n = 0;
	for (const char *p = text; *p; p = strchr(p, '\n') + 1) {
		const char *value = strchr(p, '=') + 1;
		struct label *at = &l[n++];
		*at = (struct label){ .key = p, .key_len = (uint32_t)(value - p - 1), .str = "" };
		if (!strncmp(p, "query_id=", 9)) {
			at->type = LABEL_INT;
			at->num = strtoll(value, NULL, 10);
		} else {
			at->str = value;
			at->str_len = (uint32_t)strcspn(value, "\n");
		}
	}
	return store_add_set(sw, l, n, ret);
}

static inline int model_put_frame(struct store_writer *sw, const char *text, uint32_t *ret)
{
	const char *module = strstr(text, " (") + 2, *end = strchr(module, ')'),
		   *plus = strstr(text, "+0x");
	struct store_frame f = { 0 };
	char *rest;
	f.kind = (uint32_t)strtoul(end + 1, &rest, 10);
	f.line = (uint32_t)strtoul(rest, NULL, 10);
	int rc = store_add_string(sw, module, (size_t)(end - module), &f.module);
	if (plus && plus < module)
		f.offset = strtoull(plus + 3, NULL, 16);
	else if (!rc)
		rc = store_add_string(sw, text, (size_t)(module - 2 - text), &f.function);
	return rc ? rc : store_add_frame(sw, &f, ret);
}

static inline int model_put_stack(struct store_writer *sw, const char *text, uint32_t *ret)
{
	uint32_t frame;
	int rc = 0;
	*ret = 0;
	for (const char *p = text; !rc && *p; p = strchr(p, '\n') + 1) {
		rc = model_put_frame(sw, p, &frame);
		if (!rc)
			rc = store_add_stack(sw, *ret, frame, ret);
	}
	return rc;
}

static inline int model_put_row(struct store_writer *sw, const struct model_row *r)
{
	uint32_t set, stack = 0, event = 0;
	int rc = 0;
	/* All events in their order, so that their ids are those of model_events. */
	for (uint32_t i = 0; !rc && i < 3; i++) {
		uint32_t id;
		rc = store_add_event(sw, &model_events[i], &id);
		event = i == r->event ? id : event;
	}
	if (!rc)
		rc = model_put_set(sw, r->labels, &set);
	if (!rc)
		rc = model_put_stack(sw, r->stack, &stack);
	return rc ? rc : store_add_row(sw, set, stack, event, r->samples, r->value);
}

/* Rows for the open window, into *w and, if there is one, the writer. */
static inline void model_fill(struct model *m, struct store_writer *sw, struct model_window *w,
			      size_t n_rows)
{
	uint32_t odd_values = model_random(m, 2);
	for (size_t i = 0; i < n_rows; i++) {
		struct model_row row = { .event = model_random(m, 3),
					 .samples = 1 + model_random(m, 300) };
		row.value = odd_values ? model_random(m, 100000)
				       : row.samples * model_events[row.event].period;
		row.labels = model_draw_set(m);
		row.stack = model_draw_stack(m);
		if (sw)
			assert_int_equal(model_put_row(sw, &row), 0);
		model_window_add(w, row);
	}
	model_sort(w->rows, w->n);
}

/* Of the end of window i: the clocks agree. */
#define MODEL_BOOT(i) (((int64_t)(i) + 1) * 10000000000)

/* Totals are made from the number of the window, so that they can be checked without being kept. */
static inline int model_commit_at(struct store_writer *sw, size_t i, struct err *err)
{
	/* One more than model_meta has: tests of newer counters name a third. */
	uint64_t lost[2][3] = { { i }, { 300, 1 } }, flagged[2][1] = { { i * i }, { 7 } };
	struct store_cpu_totals cpu[2] = { { 0, 100 + i, 100, lost[0], flagged[0] },
					   { 3, 1301, 1000, lost[1], flagged[1] } };
	struct store_totals t = { cpu, 2, i, 5 * i, 1u << 20 };
	int64_t t0 = 1700000000000000000 + (int64_t)i * 10000000000;
	return store_commit_window(sw, t0, t0 + 10000000000, MODEL_BOOT(i), &t, err);
}

static inline int model_commit(struct model *m, struct store_writer *sw, size_t n_rows,
			       struct err *err)
{
	struct model_window w = { 0 };
	model_fill(m, sw, &w, n_rows);
	int rc = model_commit_at(sw, m->n, err);
	w.t0 = 1700000000000000000 + (int64_t)m->n * 10000000000;
	w.t1 = w.t0 + 10000000000;
	if (rc)
		model_window_fini(&w);
	else
		m->w[m->n++] = w;
	return rc;
}

/* ---- back from a store ---- */

static inline char *model_labels_text(const struct label *l, size_t n)
{
	char text[400] = "", value[100];
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(text);
		label_text(&l[i], value, sizeof(value));
		snprintf(text + len, sizeof(text) - len, "%.*s=%s\n", (int)l[i].key_len, l[i].key,
			 value);
	}
	return strdup(text);
}

static inline char *store_labels_text(const struct store *s, uint32_t set)
{
	const struct label *l;
	size_t n = store_set(s, set, &l);
	return model_labels_text(l, n);
}

static inline char *query_labels_text(const struct query *q, uint32_t set)
{
	const struct label *l;
	size_t n = query_set(q, set, &l);
	return model_labels_text(l, n);
}

static inline char *store_stack_text(const struct store *s, uint32_t stack)
{
	uint32_t frames[64], n = 0;
	char text[4000] = "";
	while (stack && n < 64)
		store_stack(s, stack, &stack, &frames[n++]);
	while (n--) {
		const struct store_frame *f = store_frame(s, frames[n]);
		const char *module = store_string(s, f->module, NULL),
			   *slash = strrchr(module, '/');
		size_t len = strlen(text);
		if (f->function)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s",
						store_string(s, f->function, NULL));
		else
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s+0x%" PRIx64,
						slash ? slash + 1 : module, f->offset);
		snprintf(text + len, sizeof(text) - len, " (%s) %u %u\n", module, f->kind, f->line);
	}
	return strdup(text);
}

struct read_back {
	const struct store *s;
	const struct query *q; /* that the rows are of; NULL: of the store's blocks */
	struct model_row *rows;
	size_t n;
};

static inline int read_back_row(void *ctx, const struct store_row *r)
{
	struct read_back *b = ctx;
	b->rows = realloc(b->rows, (b->n + 1) * sizeof(*b->rows));
	char *labels = b->q ? query_labels_text(b->q, r->set) : store_labels_text(b->s, r->set);
	b->rows[b->n++] = (struct model_row){ labels, store_stack_text(b->s, r->stack), r->event,
					      r->samples, r->value };
	return 0;
}

static inline bool same_counters(const struct store_window *w, size_t i)
{
	const struct store_totals *t = &w->totals;
	return t->n_cpus == 2 && t->outside == i && t->own_cpu_ns == 5 * i &&
	       t->own_rss == 1u << 20 && w->boot_ns == MODEL_BOOT(i) && t->cpu[0].cpu == 0 &&
	       t->cpu[1].cpu == 3 && t->cpu[0].fired == 100 + i && t->cpu[0].stored == 100 &&
	       t->cpu[1].fired == 1301 && t->cpu[1].stored == 1000 && t->cpu[0].lost[0] == i &&
	       t->cpu[0].lost[1] == 0 && t->cpu[1].lost[0] == 300 && t->cpu[1].lost[1] == 1 &&
	       t->cpu[0].flagged[0] == i * i && t->cpu[1].flagged[0] == 7;
}

/* 0: window i is what was put in; 1: it is not; -errno: it cannot be read. */
static inline int model_differs(const struct model *m, struct store *s, size_t i)
{
	struct err err = { 0 };
	const struct store_window *w = store_window(s, i, &err);
	struct read_back b = { .s = s };
	if (!w)
		return err.code;
	if (w->t0_ns != m->w[i].t0 || w->t1_ns != m->w[i].t1 || !same_counters(w, i) ||
	    w->n_rows != m->w[i].n)
		return 1;
	int rc = store_rows(s, i, read_back_row, &b, NULL);
	if (!rc) {
		model_sort(b.rows, b.n);
		rc = b.n != m->w[i].n;
	}
	for (size_t k = 0; !rc && k < b.n; k++)
		rc = model_row_cmp(&b.rows[k], &m->w[i].rows[k]) ||
		     b.rows[k].samples != m->w[i].rows[k].samples ||
		     b.rows[k].value != m->w[i].rows[k].value;
	struct model_window w2 = { b.rows, b.n, 0, 0 };
	model_window_fini(&w2);
	return rc;
}

static inline void model_check(const struct model *m, const char *dir)
{
	struct store *s;
	struct err err = { 0 };
	if (store_open(&s, dir, &err))
		fail_msg("%s", err.text);
	assert_int_equal(store_n_windows(s), m->n);
	for (size_t i = 0; i < m->n; i++)
		assert_int_equal(model_differs(m, s, i), 0);
	store_close(s);
}

/* ---- directories ---- */

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static inline void remove_tree(const char *dir)
{
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* How many descriptors are open, with some that always are. */
static inline size_t count_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	size_t n = 0;
	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/*
 * A new directory, its name in a buffer of 64 bytes; in memory where there is such a place, for
 * fsync costs.
 */
static inline char *temp_dir(char *name)
{
	strcpy(name, access("/dev/shm", W_OK) ? "/tmp/ascribe-test-XXXXXX"
					      : "/dev/shm/ascribe-test-XXXXXX");
	assert_non_null(mkdtemp(name));
	return name;
}

/* ---- a store that the tests of a program share ---- */

struct fixture {
	struct model m;
	char dir[64];
	struct store *s;
};

static inline struct fixture *fixture_new(uint64_t seed, const struct store_options *o,
					  struct store_writer **ret)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct store_options standard;
	struct err err = { 0 };
	store_options_default(&standard);
	f->m.random = seed;
	if (store_writer_open_with(ret, temp_dir(f->dir), &model_meta, o ? o : &standard, &err))
		fail_msg("%s", err.text);
	return f;
}

/* The writer has written everything. */
static inline void fixture_open(struct fixture *f, struct store_writer *w)
{
	struct err err = { 0 };
	store_writer_close(w);
	if (store_open(&f->s, f->dir, &err))
		fail_msg("%s", err.text);
}

/* One window after the other, as model_commit makes them. */
static inline struct fixture *fixture_of(uint64_t seed, size_t n_windows, size_t n_rows)
{
	struct store_writer *w;
	struct err err = { 0 };
	struct fixture *f = fixture_new(seed, NULL, &w);
	for (size_t i = 0; i < n_windows; i++)
		assert_int_equal(model_commit(&f->m, w, n_rows, &err), 0);
	fixture_open(f, w);
	return f;
}

/* Read all rows: stacks get their numbers when rows are read. */
static inline void fixture_read_rows(struct fixture *f)
{
	struct read_back b = { .s = f->s };
	for (size_t i = 0; i < f->m.n; i++)
		assert_int_equal(store_rows(f->s, i, read_back_row, &b, NULL), 0);
	struct model_window w = { b.rows, b.n, 0, 0 };
	model_window_fini(&w);
}

static inline int fixture_teardown(void **state)
{
	struct fixture *f = *state;
	store_close(f->s);
	remove_tree(f->dir);
	model_fini(&f->m);
	free(f);
	return 0;
}

static inline struct store *open_store(const char *dir)
{
	struct err err = { 0 };
	struct store *s;
	if (store_open(&s, dir, &err))
		fail_msg("%s", err.text);
	return s;
}

static inline void fail_finding(void *ctx, const struct store_finding *f)
{
	(void)ctx;
	fail_msg("%s at %" PRIu64 ": %s", f->path, f->offset, f->text);
}

/* Nothing is damaged, and nothing was cut. */
static inline void assert_sound(const char *dir)
{
	struct err err = { 0 };
	assert_int_equal(store_verify(dir, fail_finding, NULL, &err), 0);
}

static const char *const store_files[] = {
	"HEADER",
	"MANIFEST",
	"seg/10s-00000001.sym",
	"seg/10s-00000001.seg",
};
#define N_STORE_FILES (sizeof(store_files) / sizeof(store_files[0]))

#endif
