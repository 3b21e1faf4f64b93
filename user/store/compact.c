/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parents. When a slot has ended and the grace is over, all blocks of the level below that begin in it and have no parent become
 * one block: totals and stacks with all labels folded exactly, rows of label sets without wide keys exactly, and the most
 * frequent values of wide keys. What comes later for the same slot becomes another parent beside it.
 */
#include "store/writer_int.h"

#include "util/array.h"

#include <errno.h>
#include <stdio.h>

#define RETRY_NS (60 * SECOND_NS)
#define SORT_AT (1u << 16)

struct merge {
	struct store_writer *w;
	struct totals totals;
	struct rows rows, folded;
	size_t rows_kept; /* rows when they were last added up */
	struct top top;
	struct dropped_key *dropped; /* strings of the writer's epoch */
	size_t n_dropped, dropped_cap;
	bool no_rows; /* a child has none: the sum would not be the whole */
	struct err *err;
};

/* One child at a time. */
struct child {
	const struct block_ref *ref;
	struct block_data d;
	struct dict_gen *gen, *epoch;
	struct settable table;
	uint32_t *map; /* its sets: id + 1 in the writer's epoch, 0 unknown */
};

static int no_memory(struct merge *m, int rc)
{
	return err_sys(m->err, rc, "cannot compact %s", m->w->s.dir);
}

/* ---- keys that the parent drops ---- */

static bool is_dropped(const struct merge *m, uint32_t key)
{
	for (size_t i = 0; i < m->n_dropped; i++)
		if (m->dropped[i].key == key)
			return true;
	return false;
}

/* windows: in how many more of the parent's it is wide. */
static int drop_key(struct merge *m, const char *key, size_t len, uint32_t windows)
{
	uint32_t id;
	int rc = strings_add(&m->w->epoch->d.label_text, key, len, &id);
	for (size_t i = 0; !rc && i < m->n_dropped; i++)
		if (m->dropped[i].key == id) {
			m->dropped[i].windows += windows;
			return 0;
		}
	if (!rc)
		rc = ARRAY_RESERVE(m->dropped, m->dropped_cap, m->n_dropped + 1);
	if (!rc)
		m->dropped[m->n_dropped++] = (struct dropped_key){ id, windows };
	return rc;
}

/* A window whose rows are whole has the keys of its epoch in its table. */
static int drop_keys_of_window(struct merge *m, const struct block_ref *r)
{
	const struct manifest_epoch *e = store_epoch_info(&m->w->s, r->b.epoch);
	int rc = 0;
	for (size_t i = 0; !rc && e && !r->b.flags && i < e->n_wide; i++)
		rc = drop_key(m, e->wide[i].key, strlen(e->wide[i].key), 1);
	return rc;
}

static int drop_keys_of(struct merge *m, const struct block_ref *r)
{
	struct store *s = &m->w->s;
	struct block_data d;
	struct dict_gen *epoch;
	struct dropped_key *v = NULL;
	size_t n = 0;
	int rc = r->b.level ? 0 : drop_keys_of_window(m, r);
	if (rc)
		return no_memory(m, rc);
	rc = block_read(s, r, WANT_DROPPED, &d, m->err);
	if (rc)
		return rc;
	rc = contents_dropped(s, r, &d, &v, &n, m->err);
	if (!rc)
		rc = store_epoch(s, r, &epoch, m->err);
	for (size_t i = 0; !rc && i < n; i++) {
		size_t len;
		const char *key = strings_get(&epoch->d.label_text, v[i].key, &len);
		rc = drop_key(m, key, len, v[i].windows);
		if (rc)
			no_memory(m, rc);
	}
	free(v);
	block_data_fini(&d);
	return rc;
}

static int drop_keys(struct merge *m, const struct block_ref *v, size_t n)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < m->w->n_keys; i++)
		if (m->w->keys[i].wide)
			rc = drop_key(m, m->w->keys[i].key, strlen(m->w->keys[i].key), 0);
	if (rc)
		return no_memory(m, rc);
	for (size_t i = 0; !rc && i < n; i++)
		rc = drop_keys_of(m, &v[i]);
	return rc;
}

/* ---- rows ---- */

static struct settable_label value_of(const struct label *l)
{
	return (struct settable_label){ .len = l->str_len, .type = l->type, .str = l->str, .num = l->num };
}

/* The labels of a set of the child; those of dropped keys go to the end, from *ret_n on. */
static int split_labels(struct merge *m, struct child *c, uint32_t set, struct label *labels, uint32_t *keys,
			size_t *ret_n, size_t *ret_all)
{
	const struct settable_set *ts = c->table.n ? &c->table.sets[set] : NULL;
	struct label all[STORE_SET_MAX], dropped[STORE_SET_MAX];
	size_t n = contents_labels(&c->epoch->d, ts ? ts->narrow : set, &c->table, ts, all), n_kept = 0, n_dropped = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t key;
		int rc = m->n_dropped ? strings_add(&m->w->epoch->d.label_text, all[i].key, all[i].key_len, &key) : 0;
		if (rc)
			return rc;
		if (m->n_dropped && is_dropped(m, key)) {
			keys[n_dropped] = key;
			dropped[n_dropped++] = all[i];
		} else {
			labels[n_kept++] = all[i];
		}
	}
	memcpy(labels + n_kept, dropped, n_dropped * sizeof(*dropped));
	*ret_n = n_kept;
	*ret_all = n;
	return 0;
}

/*
 * Rows of one set, [from, to): its narrow set, and what it adds to the top lists. Texts of labels are the epoch's own and move
 * when that grows: the set is added from a copy.
 */
static int add_set(struct merge *m, struct child *c, const struct rows *rows, size_t from, size_t to)
{
	struct label labels[STORE_SET_MAX];
	uint32_t keys[STORE_SET_MAX], set = rows->v[from].set;
	size_t n, all;
	struct setpool own;
	uint32_t id = 0;
	int rc = split_labels(m, c, set, labels, keys, &n, &all);
	for (size_t i = n; !rc && i < all; i++) {
		struct settable_label v = value_of(&labels[i]);
		for (size_t k = from; !rc && k < to; k++)
			rc = top_add(&m->top, keys[i - n], rows->v[k].event, &v, rows->v[k].samples);
	}
	if (rc || c->map[set])
		return rc;
	if (!n) {
		c->map[set] = 1;
		return 0;
	}
	rc = setpool_init(&own);
	if (!rc)
		rc = setpool_add(&own, labels, n, &id);
	if (!rc)
		rc = dicts_add_set(&m->w->epoch->d, own.sets[id].labels, n, &id);
	if (!rc)
		c->map[set] = id + 1;
	setpool_fini(&own);
	return rc;
}

static int add_row(struct merge *m, struct child *c, const struct store_row *row, struct rows *to, uint32_t set)
{
	struct store_row out = { .set = set, .samples = row->samples, .value = row->value };
	int rc = dict_gen_stack(&m->w->s, c->gen, row->stack, &out.stack);
	if (!rc)
		rc = dict_gen_event(&m->w->s, c->gen, row->event, &out.event);
	return rc ? rc : rows_add(to, &out);
}

/* Children repeat each other: adding up now and then keeps memory at what the parent will have. */
static void sort_all(struct merge *m)
{
	rows_sort(&m->rows);
	rows_sort(&m->folded);
	m->rows_kept = m->rows.n;
}

/* The set needs looking into where it is new, or where it has wide labels that count. */
static int merge_rows(struct merge *m, struct child *c, const struct rows *rows)
{
	bool fold = c->ref->b.level < FOLDED_LEVEL;
	int rc = 0;
	for (size_t from = 0, to; !rc && from < rows->n; from = to) {
		uint32_t set = rows->v[from].set;
		for (to = from; to < rows->n && rows->v[to].set == set; to++)
			;
		rc = add_set(m, c, rows, from, to);
		if (m->rows.n > 2 * m->rows_kept + SORT_AT)
			sort_all(m);
		for (size_t i = from; !rc && i < to; i++) {
			rc = add_row(m, c, &rows->v[i], &m->rows, c->map[set] - 1);
			if (!rc && fold)
				rc = add_row(m, c, &rows->v[i], &m->folded, 0);
		}
	}
	return rc ? no_memory(m, rc) : 0;
}

static int merge_folded(struct merge *m, struct child *c, const struct rows *rows)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < rows->n; i++)
		rc = add_row(m, c, &rows->v[i], &m->folded, 0);
	return rc ? no_memory(m, rc) : 0;
}

/* Lists that the child made itself. */
static int merge_top(struct merge *m, struct child *c)
{
	struct top top;
	int rc = contents_top(&m->w->s, c->ref, &c->d, &top, m->err);
	for (size_t i = 0; !rc && i < top.n; i++) {
		size_t len;
		const char *key = strings_get(&c->epoch->d.label_text, top.lists[i].key, &len);
		uint32_t id, event;
		char copy[STRING_MAX + 1];
		memcpy(copy, key, len);
		rc = strings_add(&m->w->epoch->d.label_text, copy, len, &id);
		if (!rc)
			rc = dict_gen_event(&m->w->s, c->gen, top.lists[i].event, &event);
		if (!rc)
			rc = top_merge(&m->top, id, event, &top.lists[i]);
		if (rc)
			no_memory(m, rc);
	}
	top_fini(&top);
	return rc;
}

static int merge_parts(struct merge *m, struct child *c)
{
	struct store *s = &m->w->s;
	struct rows rows = { 0 }, folded = { 0 };
	struct totals t = { 0 };
	int rc = contents_totals(s, c->ref, &c->d, &t, m->err);
	if (!rc && totals_add(&m->totals, &t.t))
		rc = no_memory(m, -ENOMEM);
	if (!rc && !(c->ref->b.flags & BLOCK_FOLDED_ONLY)) {
		rc = contents_rows(s, c->ref, &c->d, &rows, m->err);
		if (!rc)
			rc = contents_table(s, c->ref, &c->d, &c->table, m->err);
		size_t n = c->ref->b.n_table ? c->ref->b.n_table : c->d.head.marks[KIND_SETS].count;
		c->map = rc ? NULL : calloc(n + 1, sizeof(*c->map));
		if (!rc)
			rc = c->map ? merge_rows(m, c, &rows) : no_memory(m, -ENOMEM);
	} else {
		m->no_rows = true;
	}
	if (!rc)
		rc = contents_folded(s, c->ref, &c->d, &folded, m->err);
	if (!rc)
		rc = merge_folded(m, c, &folded);
	if (!rc)
		rc = merge_top(m, c);
	totals_fini(&t);
	rows_fini(&rows);
	rows_fini(&folded);
	return rc;
}

static int merge_child(struct merge *m, const struct block_ref *r)
{
	struct store *s = &m->w->s;
	struct child c = { .ref = r };
	int rc = block_read(s, r, WANT_TOTALS | WANT_ROWS | WANT_TABLE | WANT_FOLDED | WANT_TOP, &c.d, m->err);
	if (rc)
		return rc;
	rc = store_gen(s, r, &c.gen, m->err);
	if (!rc)
		rc = store_epoch(s, r, &c.epoch, m->err);
	if (!rc)
		rc = merge_parts(m, &c);
	free(c.map);
	settable_fini(&c.table);
	block_data_fini(&c.d);
	return rc;
}

/* ---- the block ---- */

static void describe(struct store_block *info, const struct block_ref *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct store_block *b = &v[i].b;
		info->t0_ns = i && info->t0_ns < b->t0_ns ? info->t0_ns : b->t0_ns;
		info->t1_ns = i && info->t1_ns > b->t1_ns ? info->t1_ns : b->t1_ns;
		if (!i || b->seq >= info->child_hi) {
			info->boot_ns = b->boot_ns;
			info->anchor = b->anchor;
			info->child_hi = b->seq + 1;
		}
		info->child_lo = i && info->child_lo < b->seq ? info->child_lo : b->seq;
		info->window_lo = i && info->window_lo < b->window_lo ? info->window_lo : b->window_lo;
		info->window_hi = i && info->window_hi > b->window_hi ? info->window_hi : b->window_hi;
		info->n_windows += b->n_windows;
	}
	info->n_children = (uint32_t)n;
}

static int add_dropped(struct buf *out, const struct dropped_key *k)
{
	int rc = buf_add_varint(out, k->key);
	return rc ? rc : buf_add_varint(out, k->windows);
}

static int encode(struct merge *m, struct block *b)
{
	const struct store_meta *meta = &m->w->s.header.meta;
	const struct store_event *events = m->w->s.sym.events;
	int rc = totals_encode(&b->column[COLUMN_TOTALS], &m->totals.t, meta->n_lost, meta->n_flagged, meta->n_lost,
			       meta->n_flagged);
	b->has |= 1u << COLUMN_TOTALS;
	rows_sort(&m->rows);
	rows_sort(&m->folded);
	bool fold = m->no_rows || b->info.level >= FOLDED_LEVEL;
	b->info.n_folded = fold ? (uint32_t)m->folded.n : 0;
	if (m->folded.n > ROWS_MAX || m->rows.n > ROWS_MAX)
		return -E2BIG;
	if (!rc && fold)
		rc = rows_encode(b, &m->folded, true, events);
	if (m->no_rows) {
		b->info.flags |= BLOCK_FOLDED_ONLY;
	} else if (!rc) {
		b->info.n_rows = (uint32_t)m->rows.n;
		rc = rows_encode(b, &m->rows, false, events);
	}
	for (size_t i = 0; !rc && i < m->n_dropped; i++)
		rc = add_dropped(&b->column[COLUMN_DROPPED], &m->dropped[i]);
	b->has |= 1u << COLUMN_DROPPED;
	top_cut(&m->top);
	if (!rc && m->top.n)
		rc = top_encode(b, &m->top);
	return rc;
}

static int make_parent(struct store_writer *w, uint8_t level, const struct block_ref *v, size_t n, struct block_ref *ret,
		       struct err *err)
{
	const struct store_meta *meta = &w->s.header.meta;
	struct merge m = { .w = w, .err = err, .totals = { .n_lost = meta->n_lost, .n_flagged = meta->n_flagged } };
	struct block b = { .info.level = level };
	describe(&b.info, v, n);
	int rc = drop_keys(&m, v, n);
	for (size_t i = 0; !rc && i < n; i++)
		rc = merge_child(&m, &v[i]);
	if (!rc) {
		rc = encode(&m, &b);
		rc = rc ? no_memory(&m, rc) : writer_put_block(w, &b, ret, err);
	}
	totals_fini(&m.totals);
	rows_fini(&m.rows);
	rows_fini(&m.folded);
	top_fini(&m.top);
	free(m.dropped);
	block_fini(&b);
	return rc;
}

/* ---- which slots are due ---- */

static int by_slot(const void *pa, const void *pb, void *ctx)
{
	const struct block_ref *a = pa, *b = pb;
	uint8_t level = *(const uint8_t *)ctx;
	int64_t x = slot_of(level, a->b.t0_ns), y = slot_of(level, b->b.t0_ns);
	if (x != y)
		return x < y ? -1 : 1;
	return (a->b.seq > b->b.seq) - (a->b.seq < b->b.seq);
}

/* The parents of all slots of this level that ended before `before`. */
static int compact_level(struct store_writer *w, uint8_t level, int64_t before, struct err *err)
{
	struct pending *p = &w->pending[level - 1];
	size_t to, keep = 0;
	int rc = 0;
	if (p->n)
		qsort_r(p->v, p->n, sizeof(*p->v), by_slot, &level);
	for (size_t from = 0; from < p->n; from = to) {
		int64_t slot = slot_of(level, p->v[from].b.t0_ns);
		struct block_ref parent;
		for (to = from; to < p->n && slot_of(level, p->v[to].b.t0_ns) == slot; to++)
			;
		bool due = !rc && (slot + 1) * levels[level].span_ns <= before;
		if (due && level < N_LEVELS - 1) /* so that nothing can fail behind the write */
			rc = ARRAY_RESERVE(w->pending[level].v, w->pending[level].cap, w->pending[level].n + 1);
		if (due && !rc)
			rc = make_parent(w, level, p->v + from, to - from, &parent, err);
		if (due && !rc && level < N_LEVELS - 1)
			w->pending[level].v[w->pending[level].n++] = parent;
		if (due && !rc)
			continue;
		memmove(p->v + keep, p->v + from, (to - from) * sizeof(*p->v));
		keep += to - from;
	}
	p->n = keep;
	return rc;
}

static int compact_before(struct store_writer *w, int64_t now_ns, int64_t before, struct err *err)
{
	int rc = 0;
	if (w->compact_after_ns > now_ns && w->compact_after_ns - now_ns <= RETRY_NS)
		return 0; /* it failed a moment ago */
	if (retain_space(w) >= SPACE_NO_LABELS)
		return 0;
	for (uint8_t level = 1; !rc && w->epoch && level < N_LEVELS; level++)
		rc = compact_level(w, level, before, err);
	if (!rc && w->epoch)
		rc = postings_due(w, before, err);
	writer_drop_read(w);
	w->compact_after_ns = rc ? now_ns + RETRY_NS : 0;
	return rc;
}

int compact_due(struct store_writer *w, int64_t now_ns, struct err *err)
{
	return compact_before(w, now_ns, now_ns - w->opt.grace_ns, err);
}

int store_compact(struct store_writer *w, struct err *err)
{
	int64_t last = INT64_MIN;
	for (int k = 0; k < N_LEVELS; k++)
		for (size_t i = 0; i < w->pending[k].n; i++)
			last = w->pending[k].v[i].b.t1_ns > last ? w->pending[k].v[i].b.t1_ns : last;
	w->compact_after_ns = 0;
	return last == INT64_MIN ? 0 : compact_before(w, last, last, err);
}

static int on_root(void *ctx, const struct block_ref *r)
{
	return pending_add(ctx, r);
}

int compact_load(struct store_writer *w, struct err *err)
{
	int rc = 0;
	for (uint8_t level = 0; !rc && level < N_LEVELS - 1; level++)
		rc = store_roots(&w->s, level, (uint8_t)(level + 1), INT64_MIN, INT64_MAX, on_root, &w->pending[level], err);
	struct pending all = { 0 };
	if (!rc)
		rc = store_roots(&w->s, 0, LEVEL_POSTINGS, INT64_MIN, INT64_MAX, on_root, &all, err);
	for (size_t i = 0; !rc && i < all.n; i++)
		if (all.v[i].b.n_table && pending_add(&w->unposted, &all.v[i]))
			rc = err_sys(err, -ENOMEM, "cannot open %s", w->s.dir);
	free(all.v);
	return rc;
}
