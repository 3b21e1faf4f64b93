/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A parent: the sum of its children, one after the other, in pieces between two windows. Sums by
 * stack and by label set are exact; of keys with too many values the most frequent ones are kept.
 */
#include "store/write/merge.h"

#include "store/block/prune.h"

#include "store/read/block_data.h"
#include "store/read/contents.h"
#include "store/read/symbols.h"
#include "store/writer.h"
#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int merge_failed(const struct merge *m, int rc)
{
	return err_sys(m->err, rc, "cannot compact %s", m->w->s.dir);
}

struct dicts *merge_dicts(const struct merge *m)
{
	return &m->w->out[m->level].d;
}

/* ---- segments of the children ---- */

static int new_source(struct merge *m, uint32_t serial, struct source **ret)
{
	int rc = ARRAY_RESERVE(m->sources, m->sources_cap, m->n_sources + 1);
	struct source *s = rc ? NULL : calloc(1, sizeof(*s));
	if (!s)
		return merge_failed(m, -ENOMEM);
	s->serial = serial;
	m->sources[m->n_sources++] = s;
	*ret = s;
	return 0;
}

/* Only periods are asked for. Readers of its rows keep the list between two steps: it never moves.
 */
static int copy_events(struct source *s, const struct dicts *d)
{
	if (!s->events)
		s->events = calloc(EVENTS_MAX, sizeof(*s->events));
	if (!s->events)
		return -ENOMEM;
	s->n_events = d->n_events < EVENTS_MAX ? d->n_events : EVENTS_MAX;
	for (uint32_t i = 0; i < s->n_events; i++)
		s->events[i] = d->events[i];
	return 0;
}

int merge_source(struct merge *m, struct merge_child *c, struct source **ret)
{
	struct store *s = &m->w->s;
	struct source *source = NULL;
	const struct dicts *d;
	size_t i = 0;
	int rc = 0;
	while (i < s->n_segments && s->segments[i].m.serial != c->serial)
		i++;
	if (i == s->n_segments)
		return err_set(m->err, -ESTALE, "a file of %s was cut while it was summed up",
			       s->dir);
	c->ref.segment = (uint32_t)i;
	for (size_t k = 0; k < m->n_sources && !source; k++)
		source = m->sources[k]->serial == c->serial ? m->sources[k] : NULL;
	if (!source)
		rc = new_source(m, c->serial, &source);
	if (!rc)
		rc = store_dicts(s, &c->ref, SYMBOLS_ALL, &d, m->err);
	if (!rc && copy_events(source, d))
		rc = merge_failed(m, -ENOMEM);
	if (rc)
		return rc;
	source->to.from = d;
	source->to.to = merge_dicts(m);
	source->to.most_bytes = m->pruned && m->at == m->n_children ? TRANSLATE_FROZEN : 0;
	*ret = source;
	return 0;
}

/* ---- keys ---- */

int merge_need_key(struct merge *m, const char *key, size_t len, struct merge_key **ret)
{
	*ret = NULL;
	for (size_t i = 0; i < m->n_keys && !*ret; i++)
		*ret = m->keys[i].len == len && !memcmp(m->keys[i].key, key, len) ? &m->keys[i]
										  : NULL;
	m->more_keys |= !*ret && m->n_keys >= KEYS_MAX;
	if (*ret || m->n_keys >= KEYS_MAX)
		return 0;
	int rc = ARRAY_RESERVE(m->keys, m->keys_cap, m->n_keys + 1);
	char *copy = rc ? NULL : malloc(len + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, key, len);
	copy[len] = 0;
	*ret = &m->keys[m->n_keys++];
	**ret = (struct merge_key){ .key = copy, .len = (uint32_t)len };
	return 0;
}

/* What the child says of its keys; those that its sums lack are left out of the parent's, too. */
static int take_keys(struct merge *m, const struct block_ref *r, const struct block_keys *keys)
{
	int rc = 0;
	m->more_keys |= keys->more;
	for (size_t i = 0; !rc && i < keys->n; i++) {
		const struct block_key *k = &keys->v[i];
		struct merge_key *key;
		rc = merge_need_key(m, k->key, k->len, &key);
		if (rc || !key)
			continue;
		key->windows += k->windows;
		key->unprojected |= !(k->state & KEY_PROJECTED);
		if (!r->b.level || !(k->state & KEY_SUMMED))
			rc = set_sums_leave_out(&m->sums, key->key, key->len);
	}
	return rc ? merge_failed(m, rc) : 0;
}

static int prepare_child(struct merge *m, const struct block_ref *r)
{
	struct block_data d;
	struct block_keys keys;
	m->no_labels |= r->b.flags & BLOCK_NO_LABELS;
	m->has_pruned |= r->b.flags & STORE_PRUNED;
	int rc = block_read(&m->w->s, r, WANT_KEYS, &d, m->err);
	if (rc)
		return rc;
	rc = contents_keys(&m->w->s, r, &d, &keys, m->err);
	rc = rc ? rc : take_keys(m, r, &keys);
	block_keys_fini(&keys);
	block_data_fini(&d);
	return rc;
}

static bool is_large(const struct merge *m)
{
	return m->w->opt.symbols_memory && dicts_bytes(merge_dicts(m)) > m->w->opt.symbols_memory;
}

static size_t count_groups(const struct merge *m)
{
	size_t n = 0;
	for (size_t e = 0; e < m->n_events; e++)
		for (size_t i = 0; i < m->leaves_cap[e]; i++)
			n += m->leaves[e][i].samples > 0;
	return n;
}

/* Leave out small stacks where there are more groups than a block may have. */
static int limit_groups(struct merge *m)
{
	m->limited = true;
	if (count_groups(m) <= ROWS_MAX)
		return 0;
	/* Each stack that stays may get a leaf for what was below it. */
	return merge_prune(m, ROWS_MAX / 2 / m->n_events - 1);
}

/* ---- beginning and end ---- */

int merge_begin(struct merge **ret, struct store_writer *w, uint8_t level,
		const struct block_ref *v, size_t n, struct err *err)
{
	const struct store_meta *meta = &w->s.header.meta;
	struct merge *m = calloc(1, sizeof(*m));
	struct merge_child *children = calloc(n, sizeof(*children));
	int rc = m && children ? writer_begin_parent(w, level, v->b.t0_ns, err)
			       : err_sys(err, -ENOMEM, "cannot compact %s", w->s.dir);
	if (rc) {
		free(m);
		free(children);
		return rc;
	}
	*m = (struct merge){
		.w = w, .level = level, .children = children, .n_children = n, .err = err
	};
	m->totals = (struct totals){ .n_lost = meta->n_lost, .n_flagged = meta->n_flagged };
	if (set_sums_init(&m->sums))
		rc = merge_failed(m, -ENOMEM);
	m->sums.left_out = merge_add_to_top;
	m->sums.ctx = m;
	for (size_t i = 0; !rc && i < n; i++) {
		children[i] = (struct merge_child){ v[i], w->s.segments[v[i].segment].m.serial };
		rc = prepare_child(m, &v[i]);
	}
	if (rc)
		merge_free(m);
	else
		*ret = m;
	return rc;
}

void merge_free(struct merge *m)
{
	if (!m)
		return;
	project_free(m->project);
	for (size_t i = 0; i < m->n_sources; i++) {
		translation_fini(&m->sources[i]->to);
		free(m->sources[i]->events);
		free(m->sources[i]);
	}
	free(m->sources);
	for (size_t i = 0; i < m->n_events; i++)
		free(m->leaves[i]);
	free(m->leaves);
	free(m->leaves_cap);
	for (size_t i = 0; i < m->n_keys; i++)
		free(m->keys[i].key);
	free(m->keys);
	free(m->children);
	totals_fini(&m->totals);
	set_sums_fini(&m->sums);
	top_fini(&m->top);
	buf_fini(&m->lists);
	buf_fini(&m->groups);
	free(m);
}

static int project(struct merge *m, size_t *budget)
{
	int rc = 0;
	if (!m->project) {
		rc = m->level < 2 || m->no_labels ? 0 : project_begin(&m->project, m);
		m->projected = !m->project;
	}
	return rc || !m->project ? rc : project_step(m->project, budget, &m->projected);
}

int merge_step(struct merge *m, size_t *budget, bool *ret_done, struct err *err)
{
	int rc = 0;
	m->err = err;
	while (!rc && *budget && m->at < m->n_children) {
		struct merge_child *c = &m->children[m->at];
		size_t rows = (size_t)c->ref.b.n_rows + c->ref.b.n_folded;
		rc = merge_add_child(m, c);
		if (!rc && is_large(m))
			rc = merge_prune(m, m->w->opt.symbols_memory / 3 / STACK_BYTES);
		m->at++;
		*budget -= rows < *budget ? rows : *budget;
	}
	if (!rc && m->at == m->n_children && !m->limited)
		rc = limit_groups(m);
	while (!rc && *budget && !m->projected && m->at == m->n_children)
		rc = project(m, budget);
	*ret_done = !rc && m->projected;
	return rc;
}

bool merge_has(const struct merge *m, const struct block_ref *r)
{
	for (size_t i = 0; i < m->n_children; i++)
		if (m->children[i].ref.b.seq == r->b.seq)
			return true;
	return false;
}

/* ---- the block ---- */

static void describe(const struct merge *m, struct store_block *info)
{
	for (size_t i = 0; i < m->n_children; i++) {
		const struct store_block *b = &m->children[i].ref.b;
		info->t0_ns = i && info->t0_ns < b->t0_ns ? info->t0_ns : b->t0_ns;
		info->t1_ns = i && info->t1_ns > b->t1_ns ? info->t1_ns : b->t1_ns;
		if (!i || b->seq >= info->child_hi) {
			info->boot_ns = b->boot_ns;
			info->anchor = b->anchor;
			info->child_hi = b->seq + 1;
		}
		info->child_lo = i && info->child_lo < b->seq ? info->child_lo : b->seq;
		info->window_lo =
			i && info->window_lo < b->window_lo ? info->window_lo : b->window_lo;
		info->window_hi =
			i && info->window_hi > b->window_hi ? info->window_hi : b->window_hi;
		info->n_windows += b->n_windows;
	}
	info->n_children = (uint32_t)m->n_children;
}

static int put_groups(const struct merge *m, struct block *b)
{
	const struct dicts *d = merge_dicts(m);
	struct rows_writer out = { .events = d->events, .folded = true };
	int rc = 0;
	for (uint32_t leaf = 0; !rc && leaf < d->n_leaves; leaf++)
		for (uint32_t e = 0; !rc && e < m->n_events; e++) {
			const struct rows_sum *sum =
				leaf < m->leaves_cap[e] ? &m->leaves[e][leaf] : NULL;
			const struct store_row row = { 0, leaf, e, sum ? sum->samples : 0,
						       sum ? sum->value : 0 };
			rc = row.samples ? rows_put(&out, &row, 1) : 0;
		}
	if (rc)
		rows_writer_fini(&out);
	else
		rows_finish(&out, b);
	return rc;
}

/* Lists of keys whose values are all known otherwise are of no use. */
static void drop_lists(struct merge *m)
{
	size_t n = 0;
	for (size_t i = 0; i < m->top.n; i++) {
		size_t len;
		const char *text =
			strings_get(&merge_dicts(m)->label_text, m->top.lists[i].key, &len);
		struct merge_key *key;
		bool drop = !merge_need_key(m, text, len, &key) && key &&
			    key->out.state & KEY_PROJECTED;
		if (drop)
			top_list_fini(&m->top.lists[i]);
		else
			m->top.lists[n++] = m->top.lists[i];
	}
	m->top.n = n;
}

static int put_keys(struct merge *m, struct block *b)
{
	struct block_keys keys = { .more = m->more_keys };
	int rc = 0;
	for (size_t i = 0; !rc && i < m->n_keys; i++) {
		struct merge_key *k = &m->keys[i];
		struct block_key *out;
		rc = block_keys_need(&keys, k->key, k->len, &out);
		if (rc)
			break;
		*out = k->out;
		out->key = k->key;
		out->len = k->len;
		out->windows = k->windows;
		if (!set_sums_leaves_out(&m->sums, k->key, k->len))
			out->state |= KEY_SUMMED;
		else if (!(out->state & KEY_PROJECTED))
			out->state |= KEY_LISTED;
	}
	if (!rc)
		rc = block_keys_encode(&b->column[COLUMN_KEYS], &keys);
	b->has |= 1u << COLUMN_KEYS;
	block_keys_fini(&keys);
	return rc;
}

static int put_labels(struct merge *m, struct block *b)
{
	int rc = put_keys(m, b);
	if (!rc)
		rc = set_sums_encode(&b->column[COLUMN_SUMS], &m->sums, merge_dicts(m));
	b->has |= 1u << COLUMN_SUMS;
	drop_lists(m);
	top_cut(&m->top);
	if (!rc && m->top.n)
		rc = top_encode(b, &m->top);
	if (!m->lists.len)
		return rc;
	b->column[COLUMN_VALUES] = m->lists;
	b->column[COLUMN_PROJECTIONS] = m->groups;
	b->has |= 1u << COLUMN_VALUES | 1u << COLUMN_PROJECTIONS;
	m->lists = m->groups = (struct buf)BUF_INIT;
	return rc;
}

static int encode(struct merge *m, struct block *b)
{
	const struct store_meta *meta = &m->w->s.header.meta;
	int rc = totals_encode(&b->column[COLUMN_TOTALS], &m->totals.t, meta->n_lost,
			       meta->n_flagged, meta->n_lost, meta->n_flagged);
	b->has |= 1u << COLUMN_TOTALS;
	b->info.flags = (m->no_labels ? BLOCK_NO_LABELS : 0) |
			(m->pruned || m->has_pruned ? STORE_PRUNED : 0);
	if (!rc)
		rc = put_groups(m, b);
	return rc || m->no_labels ? rc : put_labels(m, b);
}

int merge_finish(struct merge *m, struct block_ref *ret, struct err *err)
{
	struct block b = { .info.level = m->level };
	m->err = err;
	describe(m, &b.info);
	int rc = encode(m, &b);
	rc = rc ? merge_failed(m, rc) : writer_put_block(m->w, &b, ret, err);
	block_fini(&b);
	return rc;
}
