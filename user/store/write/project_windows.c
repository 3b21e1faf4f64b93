/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Level 2 makes its projections from its windows, whose groups stand in one order within a segment.
 * They are merged as they are decoded, and what a value gets of each group is appended to what it
 * has.
 */
#include "store/dict/translate.h"
#include "store/read/block_data.h"
#include "store/read/contents.h"
#include "store/write/project.h"

#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ALWAYS 256 /* a key with so few values is projected */
/*
 * Projections take two thirds of what the windows take. Half is too close for 200 values beside 64
 * where windows lie in two files. One parent without a key is read window by window.
 */
#define PART_OF_WINDOWS(bytes) ((bytes) / 3 * 2)
#define PROJECTIONS_LEAST (64u << 10)
#define VALUE_BYTES 16 /* of a list, about */
#define SAMPLES_EACH 8 /* else its values have so many samples each, on average */
/* Of windows that are open side by side: those with large tables come in several turns, and a value
 * may have a stack once for each. */
#define OPEN_MAX (8u << 20)

static int narrow_values(struct project *p, uint32_t set, uint32_t *ret)
{
	struct narrow *n = &p->narrow;
	const struct dicts *d = p->source->to.from;
	const struct set_label *labels;
	if (n->first[set]) {
		*ret = n->first[set] - 1;
		return 0;
	}
	uint32_t first = (uint32_t)n->n_list;
	size_t count = dicts_set(d, set, &labels);
	int rc = ARRAY_RESERVE(n->list, n->list_cap, n->n_list + count + 1);
	for (size_t i = 0; !rc && i < count; i++) {
		const struct label l = dicts_label(d, &labels[i]);
		const struct settable_label v = settable_value(&l);
		uint32_t value;
		rc = project_find_value(p, l.key, l.key_len, &v, &value);
		if (!rc && value != NO_VALUE)
			n->list[n->n_list++] = value;
	}
	if (rc)
		return project_failed(p, rc);
	n->list[n->n_list++] = NO_VALUE;
	n->first[set] = first + 1;
	*ret = first;
	return 0;
}

static int add_row(struct project *p, struct window *w)
{
	const struct store_row *row = &w->in.row;
	const struct settable_set *ts = w->table.n ? &w->table.sets[row->set] : NULL;
	uint32_t at = 0;
	int rc = narrow_values(p, ts ? ts->narrow : row->set, &at);
	for (; !rc && p->narrow.list[at] != NO_VALUE; at++)
		rc = project_touch(p, p->narrow.list[at], row);
	for (uint32_t i = 0; ts && !rc && i < ts->n; i++) {
		uint32_t value = w->of_label[ts->first + i];
		if (value != NO_VALUE)
			rc = project_touch(p, value, row);
	}
	return rc;
}

static int next_group(struct project *p, struct window *w)
{
	int more = rows_next_group(&w->in);
	w->live = more > 0;
	return more < 0 ? project_damaged(p, &w->at.ref) : 0;
}

static struct window *lowest(struct project *p)
{
	struct window *best = NULL;
	for (size_t i = p->from; i < p->to; i++) {
		struct window *w = &p->windows[i];
		if (!w->live)
			continue;
		if (!best || w->in.group.stack < best->in.group.stack ||
		    (w->in.group.stack == best->in.group.stack &&
		     w->in.group.event < best->in.group.event))
			best = w;
	}
	return best;
}

/* One group, of all windows that have it. */
static int add_group(struct project *p, uint32_t leaf, uint32_t event, size_t *budget)
{
	struct source *s = p->source;
	uint32_t to_leaf, to_event;
	size_t rows = 0;
	int more, rc = translate_leaf(&s->to, leaf, &to_leaf);
	if (!rc)
		rc = translate_event(&s->to, event, &to_event);
	rc = rc ? project_failed(p, rc) : 0;
	p->group++;
	for (size_t i = p->from; !rc && i < p->to; i++) {
		struct window *w = &p->windows[i];
		if (!w->live || w->in.group.stack != leaf || w->in.group.event != event)
			continue;
		for (; !rc && (more = rows_next(&w->in)); rows++)
			rc = more < 0 ? project_damaged(p, &w->at.ref) : add_row(p, w);
		if (!rc)
			rc = next_group(p, w);
	}
	*budget -= rows < *budget ? rows : *budget;
	return rc ? rc
		  : project_flush_group(p, to_event, to_leaf,
					dicts_is_idle(s->to.from, s->to.from->leaves[leaf]));
}

void project_window_fini(struct window *w)
{
	free(w->of_label);
	settable_fini(&w->table);
	block_data_fini(&w->d);
	w->of_label = NULL;
}

/* Wide labels become values: what the table says of them is kept for no longer. */
static int find_labels(struct project *p, struct window *w)
{
	struct settable *t = &w->table;
	int rc = 0;
	w->of_label = malloc(t->n_labels * sizeof(*w->of_label));
	if (!w->of_label)
		return project_failed(p, -ENOMEM);
	for (size_t i = 0; !rc && i < t->n_labels; i++) {
		size_t len;
		const char *key =
			strings_get(&p->source->to.from->label_text, t->labels[i].key, &len);
		rc = project_find_value(p, key, len, &t->labels[i], &w->of_label[i]);
	}
	free(t->labels);
	t->labels = NULL;
	t->labels_cap = 0;
	buf_fini(&t->text);
	for (size_t c = 0; c < N_COLUMNS; c++)
		if (WANT_TABLE >> c & 1)
			buf_fini(&w->d.column[c]);
	return rc ? project_failed(p, rc) : 0;
}

static int open_window(struct project *p, struct window *w)
{
	struct store *s = &p->m->w->s;
	const struct block_ref *r = &w->at.ref;
	int rc = merge_source(p->m, &w->at, &p->source);
	rc = rc ? rc : block_read(s, r, WANT_ROWS | WANT_TABLE, &w->d, p->m->err);
	rc = rc ? rc : contents_rows(s, r, &w->d, SYMBOLS_ALL, &w->in, p->m->err);
	rc = rc ? rc : contents_table(s, r, &w->d, true, NULL, &w->table, p->m->err);
	rc = rc ? rc : find_labels(p, w);
	if (rc)
		return rc;
	w->in.limits.events = p->source->events;
	return next_group(p, w);
}

static size_t window_bytes(const struct window *w)
{
	size_t sum =
		w->table.cap * sizeof(*w->table.sets) + w->table.n_labels * sizeof(*w->of_label);
	for (size_t i = 0; i < N_COLUMNS; i++)
		sum += w->d.column[i].cap;
	return sum;
}

/* The next windows, of one segment. */
static int open_windows(struct project *p)
{
	size_t bytes = 0;
	int rc = 0;
	for (size_t i = p->from; i < p->to; i++)
		project_window_fini(&p->windows[i]);
	p->from = p->to;
	while (!rc && p->to < p->n_windows && bytes < OPEN_MAX &&
	       p->windows[p->to].at.serial == p->windows[p->from].at.serial) {
		struct window *w = &p->windows[p->to++];
		rc = open_window(p, w);
		bytes += window_bytes(w);
	}
	if (rc || p->from == p->to)
		return rc;
	free(p->narrow.first);
	p->narrow.n_list = 0;
	p->narrow.n = p->source->to.from->n_sets;
	p->narrow.first = calloc(p->narrow.n, sizeof(*p->narrow.first));
	return p->narrow.first ? 0 : project_failed(p, -ENOMEM);
}

static int by_segment(const void *pa, const void *pb)
{
	const struct window *a = pa, *b = pb;
	if (a->at.serial != b->at.serial)
		return a->at.serial < b->at.serial ? -1 : 1;
	return (a->at.ref.b.seq > b->at.ref.b.seq) - (a->at.ref.b.seq < b->at.ref.b.seq);
}

static int add_windows(struct project *p, const struct block_ref *const *v, size_t n)
{
	const struct segment *segments = p->m->w->s.segments;
	struct window *windows = realloc(p->windows, (p->n_windows + n) * sizeof(*windows));
	if (!windows)
		return project_failed(p, -ENOMEM);
	p->windows = windows;
	for (size_t i = 0; i < n; i++)
		windows[p->n_windows++] =
			(struct window){ .at = { *v[i], segments[v[i]->segment].m.serial } };
	return 0;
}

int project_list_windows(struct project *p, bool *ret_all)
{
	struct store *s = &p->m->w->s;
	int rc = 0;
	*ret_all = true;
	for (size_t i = 0; !rc && *ret_all && i < p->m->n_children; i++) {
		struct source *source;
		const struct block_ref **v;
		size_t n;
		rc = merge_source(p->m, &p->m->children[i], &source);
		if (rc)
			break;
		const struct block_ref *r = &p->m->children[i].ref;
		if (store_children(s, r, &v, &n))
			return project_failed(p, -ENOMEM);
		*ret_all = n == r->b.n_children;
		if (n)
			rc = add_windows(p, v, n);
		free(v);
	}
	if (!rc && p->n_windows)
		qsort(p->windows, p->n_windows, sizeof(*p->windows), by_segment);
	return rc;
}

static int by_value(const void *pa, const void *pb, void *ctx)
{
	const struct value *v = ctx;
	return value_compare(&v[*(const uint32_t *)pa].label, &v[*(const uint32_t *)pb].label);
}

/* Before compression. */
static size_t bytes_of(const struct column_key *k)
{
	size_t sum = 0;
	for (size_t i = 0; i < k->n; i++) {
		sum += VALUE_BYTES + k->v[i].label.len;
		for (size_t c = 0; c < k->v[i].n_cells; c++) {
			const struct cell *cell = &k->v[i].cells[c];
			sum += cell->groups.len - (cell->explicit ? 0 : cell->n);
		}
	}
	return sum;
}

static int by_bytes(const void *pa, const void *pb)
{
	size_t a = ((const struct column_key *)pa)->bytes,
	       b = ((const struct column_key *)pb)->bytes;
	return (a > b) - (a < b);
}

static int put_key(struct project *p, struct column_key *k)
{
	if (k->left_out || !k->n || (k->n > ALWAYS && k->samples < k->n * SAMPLES_EACH))
		return 0;
	uint32_t *order = malloc(k->n * sizeof(*order));
	if (!order)
		return project_failed(p, -ENOMEM);
	for (uint32_t i = 0; i < k->n; i++)
		order[i] = i;
	qsort_r(order, k->n, sizeof(*order), by_value, k->v);
	int rc = 0;
	for (size_t i = 0; !rc && i < k->n; i++) {
		const struct value *v = &k->v[order[i]];
		rc = v->n_cells ? projections_add(&p->out, &v->label, v->cells, v->n_cells) : 0;
	}
	if (!rc)
		rc = projections_end_key(&p->out, &p->m->keys[k->key].out);
	free(order);
	return rc ? project_failed(p, rc) : 0;
}

/*
 * The keys whose values take least come first, until a part of what the windows take is used up.
 * The others are thread ids and the like, or hardly fewer than the rows of the windows.
 */
static int put_keys(struct project *p)
{
	size_t most = 0;
	int rc = 0;
	for (size_t i = 0; i < p->n_windows; i++)
		most += PART_OF_WINDOWS(p->windows[i].at.ref.stored_len);
	most = most > PROJECTIONS_LEAST ? most : PROJECTIONS_LEAST;
	for (size_t i = 0; i < p->n_keys; i++)
		p->keys[i].bytes = bytes_of(&p->keys[i]);
	if (p->n_keys)
		qsort(p->keys, p->n_keys, sizeof(*p->keys), by_bytes);
	for (size_t i = 0; !rc && i < p->n_keys; i++) {
		if (p->m->lists.len + p->m->groups.len + p->keys[i].bytes / 2 <= most)
			rc = put_key(p, &p->keys[i]);
		project_key_fini(&p->keys[i]);
	}
	return rc;
}

int project_step_windows(struct project *p, size_t *budget, bool *ret_done)
{
	struct window *w = NULL;
	int rc = 0;
	/* Their dictionaries may be elsewhere than at the last step. */
	if (p->from < p->to)
		rc = merge_source(p->m, &p->windows[p->from].at, &p->source);
	while (!rc && *budget) {
		w = lowest(p);
		if (!w && p->to == p->n_windows)
			break;
		rc = w ? add_group(p, w->in.group.stack, w->in.group.event, budget)
		       : open_windows(p);
	}
	if (rc || w || p->to < p->n_windows)
		return rc;
	*ret_done = true;
	return put_keys(p);
}
