/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to a store of store_model.h, chosen byte by byte from an input. Answers are read to
 * their end; what they say is the caller's to judge.
 */
#ifndef TESTS_FUZZ_STORE_QUESTIONS_H
#define TESTS_FUZZ_STORE_QUESTIONS_H

#include "fuzz/input.h"
#include "unit/store_model.h"

#include "query/found.h"
#include "query/query.h"
#include "query/series.h"
#include "store/instants.h"
#include "store/top_values.h"

#define QUESTION_BEGIN_NS 1700000000000000000ll
#define SECOND 1000000000ll

/* The first bytes of an input. */
struct question {
	uint8_t kind, from, to; /* [from, to): in steps of 5 s, 0: open */
	uint8_t where, scope, keys, labels, event, metric, flags, least, shares, limits;
};

enum { ASK_IDLE = 1, ASK_REST = 2, ASK_BY_START = 4, ASK_ALONE = 8, ASK_STOP = 16, ASK_WHOLE = 32 };

static const char *const question_keys[] = { "tenant",	"query_id", "comm",   "host",
					     "nothing", "",	    "by.comm" };
#define QUESTION_KEYS (sizeof(question_keys) / sizeof(question_keys[0]))

static const char *question_selector(uint8_t i)
{
	static const char *const v[] = { NULL,
					 "{tenant=\"t1\"}",
					 "{query_id=\"0\"}",
					 "{comm=\"sh\"}",
					 "{tenant=~\"t[1-3]\",comm!=\"sh\"}",
					 "{tenant=\"\"}",
					 "{query_id=\"0\",tenant=\"t2\"}",
					 "{host=\"host\"}",
					 "{nothing=\"x\"}",
					 "{event=~\".*clock\"}",
					 "{query_id=~\"-.*\"}",
					 "{tenant=\"no such\"}" };
	return v[i % (sizeof(v) / sizeof(v[0]))];
}

static int64_t question_time(uint8_t at, int64_t open)
{
	return at ? QUESTION_BEGIN_NS + (at % 64 * 5 + at / 64 * 30000) * SECOND : open;
}

/* The keys of a mask. */
static size_t question_list(uint8_t mask, const char *v[QUESTION_KEYS])
{
	size_t n = 0;
	for (size_t i = 0; i < QUESTION_KEYS; i++)
		if (mask >> i & 1)
			v[n++] = question_keys[i];
	return n;
}

/* ---- answers ---- */

static void question_query(struct store *s, const struct query_spec *spec)
{
	struct query *q;
	struct query_table *t;
	struct err err;
	const struct query_node *nodes;
	const struct label *labels;
	size_t n;
	if (query_open(&q, s, spec, &err))
		return;
	const struct store_row *rows = query_rows(q, &n);
	for (size_t i = 0; i < n; i++)
		query_set(q, rows[i].set, &labels);
	bool by_keys = spec->labels == QUERY_KEYS;
	if (!by_keys && !spec->rows_alone && !query_tree(q, &nodes, &n, &err))
		require(nodes[0].total <= query_info(q)->samples);
	if (!spec->rows_alone &&
	    !query_table(q, by_keys ? spec->keys : NULL, by_keys ? spec->n_keys : 0, &t, &err))
		query_table_free(t);
	for (size_t i = 0; spec->labels == QUERY_TOTALS && i < QUESTION_KEYS; i++)
		if (query_top_serves(q, question_keys[i]) &&
		    !query_top(q, question_keys[i], &t, &err))
			query_table_free(t);
	query_close(q);
}

static void question_series(struct store *s, const struct query_spec *spec, uint8_t step)
{
	const struct query_series_spec steps = { .range = *spec,
						 .keys = spec->n_keys ? spec->keys : NULL,
						 .n_keys = spec->n_keys,
						 .step_ns = (step % 8 + 1) * 1800 * SECOND,
						 .max_steps = 100,
						 .top = step >> 4,
						 .exact = step & 8 };
	struct query_series *series;
	struct err err;
	if (!query_series(&series, s, &steps, &err))
		query_series_free(series);
}

struct asking {
	struct store *s;
	const struct question *of;
};

static int question_row(void *ctx, const struct store_row *row)
{
	const struct label *labels;
	const struct store *s = ((struct asking *)ctx)->s;
	uint32_t parent, frame;
	store_set(s, row->set, &labels);
	store_stack(s, row->stack, &parent, &frame);
	store_frame(s, frame);
	store_event(s, row->event);
	return 0;
}

static void question_windows(struct store *s, const struct question *a)
{
	struct asking ctx = { s, a };
	struct err err;
	for (size_t i = a->from; i < store_n_windows(s) && i < a->from + 5u; i++)
		if (store_window(s, i, &err))
			store_rows(s, i, question_row, &ctx, &err);
	store_window(s, SIZE_MAX, &err);
	store_rows(s, SIZE_MAX, question_row, &ctx, &err);
}

static int question_key(void *ctx, const char *key, size_t len)
{
	(void)ctx;
	return memchr(key, 'y', len) != NULL;
}

static int question_narrow(void *ctx, const char *key, uint32_t sets)
{
	(void)ctx;
	return sets > 20 && *key == 'q';
}

/* What the store knows of itself. */
static void question_store(struct store *s)
{
	struct store_wide_key wide;
	struct err err;
	bool has;
	for (size_t i = 0; store_wide_key(s, i, &wide); i++)
		require(store_is_wide(s, wide.key));
	for (size_t i = 0; i < QUESTION_KEYS; i++)
		if (!store_has_key(s, question_keys[i], &has, &err) && !has)
			store_is_wide(s, question_keys[i]);
	store_narrow_keys(s, question_narrow, NULL, &err);
	store_each_key(s, question_key, NULL, &err);
	store_n_files(s);
	store_damage(s);
	store_lost_windows(s);
	store_meta(s);
	store_id(s);
	for (uint8_t level = 0; level <= STORE_N_LEVELS; level++) {
		store_cut(s, level);
		store_level_name(level);
	}
	for (uint32_t i = 0; store_anchor(s, i); i++)
		;
	store_dictionaries(s);
	store_is_full(s);
	store_budget(s);
	store_frame(s, UINT32_MAX);
	store_event(s, UINT32_MAX);
	require(!*store_string(s, UINT32_MAX, NULL));
}

static int question_admit(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	(void)labels;
	*ret = n % 3 != ((struct asking *)ctx)->of->shares % 3;
	return 0;
}

static void question_blocks(struct store *s, const struct question *a, struct store_cover *c,
			    const struct store_keys *keys)
{
	struct store_folding folding = { .least = a->least };
	struct asking ctx = { s, a };
	struct store_totals *totals;
	struct store_top top;
	struct err err;
	bool pruned = false;
	for (size_t i = 0; i < c->n && i < 8; i++) {
		const struct store_block *b = c->blocks[i];
		store_block_folded(s, b, question_row, &ctx, &err);
		store_block_sums(s, b, question_row, &ctx, &err);
		store_block_rows(s, b, a->flags & ASK_ALONE ? NULL : keys,
				 a->flags & ASK_REST ? question_admit : NULL, question_row, &ctx,
				 &err);
		store_fold_block(s, &folding, b, &err);
		if (!store_block_totals(s, b, &totals, &err))
			store_totals_free(totals);
		require(store_block_source(b) < 2);
	}
	store_fold_rows(s, &folding, question_row, &ctx, &pruned, &err);
	store_folding_fini(&folding);
	if (!store_top(s, c->blocks, c->n, question_keys[a->where % QUESTION_KEYS], a->event, &top,
		       &err))
		store_top_free(&top);
}

/* The blocks of a range, by all that can be wanted of them. */
static void question_cover(struct store *s, const struct question *a)
{
	static const struct label values[] = {
		{ .key = "query_id", .key_len = 8, .type = LABEL_INT },
		{ .key = "query_id", .key_len = 8, .str = "0", .str_len = 1 },
	};
	static const struct label tenant = {
		.key = "tenant", .key_len = 6, .str = "t1", .str_len = 2
	};
	const char *v[QUESTION_KEYS];
	const struct store_keys keys = { v, question_list(a->keys, v) };
	int64_t from = question_time(a->from, INT64_MIN), to = question_time(a->to, INT64_MAX);
	struct store_cover c;
	struct err err;
	int rc;
	if (a->flags & ASK_BY_START)
		store_round(s, &from, &to, &err);
	if (a->flags & ASK_IDLE)
		rc = a->event & 1 ? store_cover_value(s, from, to, a->event & 2, values, 2, v,
						      keys.n, &c, &err)
				  : store_cover_value(s, from, to, a->event & 2, &tenant, 1, v,
						      keys.n, &c, &err);
	else
		rc = store_cover(s, from, to, (enum store_want)(a->labels % 4), v, keys.n, &c,
				 &err);
	if (rc)
		return;
	question_blocks(s, a, &c, &keys);
	store_cover_free(&c);
}

static int question_set(void *ctx, const struct label *labels, size_t n, uint32_t *ret)
{
	(void)ctx, (void)labels;
	*ret = (uint32_t)n;
	return 0;
}

static int question_instant(void *ctx, const struct store_instant *v,
			    const struct store_instant_row *row)
{
	const struct asking *a = ctx;
	uint32_t parent, frame;
	require(row->instants && row->row.event < store_n_events(a->s));
	store_stack(a->s, row->row.stack, &parent, &frame);
	return v->cpu == 3 && v->row > 60;
}

/* When the samples of a range were taken. */
static void question_instants(struct store *s, const struct question *a)
{
	bool *events = calloc(store_n_events(s) + 1, sizeof(*events));
	const char *v[QUESTION_KEYS];
	const struct store_keys keys = { v, question_list(a->keys, v) };
	struct asking ctx = { s, a };
	const struct store_reading how = { .keys = a->flags & ASK_ALONE ? NULL : &keys,
					   .filter = a->flags & ASK_REST ? question_admit : NULL,
					   .set = a->flags & ASK_BY_START ? question_set : NULL,
					   .fold_stacks = a->flags & ASK_WHOLE,
					   .events = a->event & 1 ? events : NULL,
					   .ctx = &ctx };
	struct store_cover c;
	struct err err;
	require(events != NULL);
	*events = true;
	if (store_cover_nearest(s, question_time(a->from, INT64_MIN),
				question_time(a->to, INT64_MAX), (enum store_want)(a->labels % 4),
				NULL, 0, &c, &err)) {
		free(events);
		return;
	}
	for (size_t i = 0; i < c.n && i < 8; i++)
		store_block_instants(s, c.blocks[i], &how, a->flags & ASK_IDLE, question_instant,
				     &err);
	store_cover_free(&c);
	free(events);
}

/* The keys that samples have, or the values of one. */
static void question_found(struct store *s, struct query_spec spec)
{
	const char *key = spec.n_keys ? spec.keys[0] : NULL;
	struct found_list l = { .v = NULL };
	struct query *q;
	struct err err;
	spec.labels = key ? QUERY_KEYS : QUERY_TOTALS;
	spec.n_keys = key != NULL;
	if (query_open(&q, s, &spec, &err))
		return;
	found_collect(&l, s, q, &spec, key, &err);
	found_fini(&l);
	query_close(q);
}

/* ---- one ---- */

static void question_ask(struct store *s, const struct question *a)
{
	static const size_t limits[] = { 0, 1, 4096, 32768, 1 << 18, 1 << 20 };
	static const char *const events[] = { NULL, "cpu-clock", "page-faults", "task-clock",
					      "none" };
	const bool stop = true;
	const struct store_limits l = { .bytes = limits[a->limits % 6],
					.symbols = limits[a->limits / 6 % 6],
					.whole_stacks = a->flags & ASK_WHOLE,
					.stop = a->flags & ASK_STOP ? &stop : NULL };
	const char *keys[QUESTION_KEYS];
	const struct query_spec spec = { .where = question_selector(a->where),
					 .rest = a->flags & ASK_REST,
					 .from_ns = question_time(a->from, INT64_MIN),
					 .to_ns = question_time(a->to, INT64_MAX),
					 .metric = (enum query_metric)(a->metric % 7),
					 .names = (enum query_names)(a->metric / 7 % 3),
					 .event = events[a->event % 5],
					 .idle = a->flags & ASK_IDLE,
					 .labels = (enum query_labels)(a->labels % 5),
					 .keys = keys,
					 .n_keys = question_list(a->keys, keys),
					 .rows_alone = a->flags & ASK_ALONE,
					 .by_start = a->flags & ASK_BY_START,
					 .least = a->least,
					 .shares = a->shares & 7,
					 .share = a->shares >> 3 & 7,
					 .parts = a->shares >> 6 };
	store_limit(s, &l);
	if (a->scope)
		store_set_scope(s, question_selector(a->scope));
	switch (a->kind % 9) {
	case 0:
	case 1:
		question_query(s, &spec);
		break;
	case 2:
		question_series(s, &spec, a->least);
		break;
	case 3:
		question_windows(s, a);
		break;
	case 4:
		question_store(s);
		break;
	case 5:
	case 6:
		question_cover(s, a);
		break;
	case 8:
		question_instants(s, a);
		break;
	default:
		question_found(s, spec);
	}
}

#endif
