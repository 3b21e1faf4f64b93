/* SPDX-License-Identifier: Apache-2.0 */
/* For test_copy.c and test_copy_delete.c: stores to be copied, and sums that a copy must have. */
#ifndef TESTS_UNIT_COPY_MODEL_H
#define TESTS_UNIT_COPY_MODEL_H

#include "unit/copied.h"

#include "store/read/store_int.h"
#include "store/writer.h"

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
static inline void commit_row_window(struct model *m, struct store_writer *w, int64_t t0,
				     size_t n_rows)
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

static inline void make_store(struct model *m, const char *dir, const struct store_meta *meta,
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
static inline uint32_t event_of(struct store *s, uint32_t event)
{
	for (uint32_t i = 0; i < 3; i++)
		if (!strcmp(store_event(s, event)->name, model_events[i].name))
			return i;
	fail_msg("event %u", event);
	return 0;
}

static inline char *with_host(const char *labels, const char *host)
{
	char text[400];
	size_t n = strncmp(labels, "comm=", 5) ? 0 : strcspn(labels, "\n") + 1;
	snprintf(text, sizeof(text), "%.*shost=%s\n%s", (int)n, labels, host, labels + n);
	return strdup(text);
}

static inline void check_window(struct store *s, size_t i, const struct model_window *w,
				const char *host)
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

static inline uint64_t lost_of(struct store *s, const char *name)
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

static inline uint64_t stored_of(struct store *s)
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

static inline void make_dirs(struct dirs *d)
{
	temp_dir(d->base);
	snprintf(d->a, sizeof(d->a), "%s/a", d->base);
	snprintf(d->b, sizeof(d->b), "%s/b", d->base);
	snprintf(d->out, sizeof(d->out), "%s/out", d->base);
}

/* ---- sums by one key, in whatever blocks ---- */

struct sums {
	char value[64][40];
	uint64_t samples[64][3];
	size_t n;
};

static inline uint64_t *sum_of(struct sums *s, const char *value)
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

static inline int add_sums(void *ctx, const struct store_row *rows, size_t n)
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

static inline void sum_store(struct store *s, const char *key, struct sums *ret)
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

static inline void value_in(const char *labels, const char *key, char out[40])
{
	size_t n = strlen(key);
	out[0] = 0;
	for (const char *p = labels; *p; p = strchr(p, '\n') + 1)
		if (!strncmp(p, key, n) && p[n] == '=')
			snprintf(out, 40, "%.*s", (int)strcspn(p + n + 1, "\n"), p + n + 1);
}

typedef bool model_filter(const char *labels);

static inline void sum_model(const struct model *m, const char *key, model_filter *removed,
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

static inline bool same_sums(struct sums *a, struct sums *b)
{
	for (int turn = 0; turn < 2; turn++) {
		struct sums *x = turn ? b : a, *y = turn ? a : b;
		for (size_t i = 0; i < x->n; i++)
			if (memcmp(x->samples[i], sum_of(y, x->value[i]), sizeof(x->samples[i])))
				return false;
	}
	return true;
}

static inline uint64_t total(const struct sums *s)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < s->n; i++)
		for (int e = 0; e < 3; e++)
			sum += s->samples[i][e];
	return sum;
}

/* Windows older than half a day are cut; the parents above one minute stay. */
static inline struct store_options coarse_options(void)
{
	struct store_options o = model_options;
	o.keep_ns[0] = 12 * HOUR;
	o.keep_ns[1] = 12 * HOUR;
	return o;
}

static const char *const model_keys[] = { "comm", "query_id", "tenant" };

#endif
