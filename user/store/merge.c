/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A parent: the sum of its children. Their rows are sorted alike, so that they are merged as they
 * are decoded, group by group, and no more than the compressed size of a few blocks is in memory;
 * and so that the work can be done in pieces between two windows. Sums by stack are exact, rows are
 * of label sets without wide keys, and of wide keys the most frequent values are kept.
 */
#include "store/merge.h"

#include "util/array.h"

#include <errno.h>

/*
 * One child. Its groups are read from its columns as they are when its leaves are those of the
 * parent's generation; else all rows are translated and sorted first.
 */
struct child {
	struct block_ref ref;
	struct block_data d;
	struct dict_gen *gen, *epoch;
	struct settable table;
	uint32_t n_sets;
	uint32_t *map;	      /* [n_sets]: id + 1 in the writer's epoch, 0 unknown */
	uint64_t **by_event;  /* samples of each of its sets, by its own event: for what is dropped; NULL: nothing is */
	uint32_t n_events;
	struct rows_reader in;
	struct rows sorted;
	size_t at;	   /* in sorted */
	bool live;	   /* key and rows of the group at hand are below */
	uint32_t leaf, event;
	struct rows group; /* by set of the parent, not in order */
	uint32_t n_parts;  /* it has no rows: those are in the next so many children of the merge, its own */
	size_t owner;	   /* of such a part: its place in the merge + 1; 0: none */
	uint32_t *dropped; /* [n_dropped] of an owner: keys of whose values it has lists; strings of the writer's epoch */
	size_t n_dropped;
};

struct merge {
	struct store_writer *w;
	uint8_t level;
	struct block_ref *refs; /* the children */
	size_t n_refs;
	struct child *children; /* and, for those without rows, theirs */
	size_t n, cap;
	uint64_t rows_below;
	struct totals totals;
	struct top top;
	struct dropped_key *dropped; /* strings of the writer's epoch */
	size_t n_dropped, dropped_cap;
	bool folded; /* a child has no rows and nothing below it: the sum would not be the whole */
	bool overfull; /* more rows than a parent may have: they are left to the children */
	bool orphan;   /* a child leaves its rows to its own children: m may not do the same */
	struct rows group;
	struct setpool one; /* holds a copy of one set at a time */
	struct rows_writer out;
	struct err *err;
};

static int no_memory(const struct merge *m, int rc)
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

static int drop_keys_of(struct merge *m, struct child *c)
{
	struct dropped_key *v = NULL;
	size_t n = 0;
	int rc = c->ref.b.level ? 0 : drop_keys_of_window(m, &c->ref);
	if (rc)
		return no_memory(m, rc);
	rc = contents_dropped(&m->w->s, &c->ref, &c->d, &v, &n, m->err);
	if (!rc && c->n_parts && !(c->dropped = calloc(n + 1, sizeof(*c->dropped))))
		rc = no_memory(m, -ENOMEM);
	for (size_t i = 0; !rc && i < n; i++) {
		size_t len;
		const char *key = strings_get(&c->epoch->d.label_text, v[i].key, &len);
		rc = drop_key(m, key, len, v[i].windows);
		if (!rc && c->n_parts)
			rc = strings_add(&m->w->epoch->d.label_text, key, len, &c->dropped[c->n_dropped++]);
		if (rc)
			no_memory(m, rc);
	}
	free(v);
	return rc;
}

static bool is_listed(const struct child *owner, uint32_t key)
{
	for (size_t i = 0; i < owner->n_dropped; i++)
		if (owner->dropped[i] == key)
			return true;
	return false;
}

/*
 * Whether the values of a dropped key are to be counted by the rows of this child: an owner's lists
 * have those of its parts.
 */
static bool is_counted(const struct merge *m, const struct child *c, uint32_t key)
{
	return !c->n_parts && !(c->owner && is_listed(&m->children[c->owner - 1], key));
}

static int drop_wide_keys(struct merge *m)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < m->w->n_keys; i++)
		if (m->w->keys[i].wide)
			rc = drop_key(m, m->w->keys[i].key, m->w->keys[i].key_len, 0);
	return rc ? no_memory(m, rc) : 0;
}

/* ---- label sets ---- */

static struct settable_label value_of(const struct label *l)
{
	return (struct settable_label){ .len = l->str_len, .type = l->type, .str = l->str, .num = l->num };
}

/*
 * The labels of a set of the child; those of dropped keys go to the end, from *ret_n on, and their
 * keys into keys.
 */
static int split_labels(struct merge *m, const struct child *c, uint32_t set, struct label *labels, uint32_t *keys,
			size_t *ret_n, size_t *ret_all)
{
	const struct settable_set *ts = c->table.n ? &c->table.sets[set] : NULL;
	struct label all[STORE_SET_MAX], dropped[STORE_SET_MAX];
	size_t n = contents_labels(&c->epoch->d, ts ? ts->narrow : set, &c->table, ts, NULL, all), n_kept = 0, n_dropped = 0;
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

/* Texts of labels are the epoch's own and move when that grows: the set is added from a copy. */
static int map_set(struct merge *m, struct child *c, uint32_t set)
{
	struct label labels[STORE_SET_MAX];
	uint32_t keys[STORE_SET_MAX], id = 0;
	size_t n, all;
	int rc = split_labels(m, c, set, labels, keys, &n, &all);
	if (!rc && n) {
		setpool_clear(&m->one);
		rc = setpool_add(&m->one, labels, n, &id);
		if (!rc)
			rc = dicts_add_set(&m->w->epoch->d, m->one.sets[id].labels, n, &id);
	}
	if (!rc)
		c->map[set] = id + 1;
	return rc;
}

/* ---- the wide labels that are dropped ---- */

static int count_dropped(struct child *c, const struct store_row *row)
{
	uint64_t **sums = &c->by_event[row->event];
	if (!*sums)
		*sums = calloc(c->n_sets, sizeof(**sums));
	if (!*sums)
		return -ENOMEM;
	(*sums)[row->set] += row->samples;
	return 0;
}

static int add_set_to_top(struct merge *m, const struct child *c, uint32_t set, uint32_t event, uint64_t samples)
{
	struct label labels[STORE_SET_MAX];
	uint32_t keys[STORE_SET_MAX];
	size_t n, all;
	int rc = split_labels(m, c, set, labels, keys, &n, &all);
	for (size_t i = n; !rc && i < all; i++) {
		struct settable_label v = value_of(&labels[i]);
		if (is_counted(m, c, keys[i - n]))
			rc = top_add(&m->top, keys[i - n], event, &v, samples);
	}
	return rc;
}

/* What the child's rows had, and the lists that it made itself. */
static int merge_top(struct merge *m, const struct child *c)
{
	struct store *s = &m->w->s;
	struct top top;
	int rc = contents_top(s, &c->ref, &c->d, &top, m->err);
	if (rc)
		return rc;
	for (uint32_t e = 0; !rc && c->by_event && e < c->n_events; e++) {
		uint32_t event;
		rc = c->by_event[e] ? dict_gen_event(s, c->gen, e, &event) : 0;
		for (uint32_t set = 0; !rc && c->by_event[e] && set < c->n_sets; set++)
			if (c->by_event[e][set])
				rc = add_set_to_top(m, c, set, event, c->by_event[e][set]);
	}
	for (size_t i = 0; !rc && i < top.n; i++) {
		size_t len;
		const char *key = strings_get(&c->epoch->d.label_text, top.lists[i].key, &len);
		uint32_t id, event;
		char copy[STRING_MAX + 1];
		memcpy(copy, key, len);
		rc = strings_add(&m->w->epoch->d.label_text, copy, len, &id);
		if (!rc)
			rc = dict_gen_event(s, c->gen, top.lists[i].event, &event);
		if (!rc)
			rc = top_merge(&m->top, id, event, &top.lists[i]);
	}
	top_fini(&top);
	return rc ? no_memory(m, rc) : 0;
}

/* ---- the rows of a child, group by group ---- */

/* A row in the parent's sets; leaf and event are still the child's. */
static int take_row(struct merge *m, struct child *c, const struct store_row *row, struct rows *to)
{
	struct store_row out = *row;
	int rc = 0;
	if (c->n_parts) {
		out.set = 0;
	} else if (!m->folded) {
		if (c->by_event)
			rc = count_dropped(c, row);
		if (!rc && !c->map[row->set])
			rc = map_set(m, c, row->set);
		out.set = rc ? 0 : c->map[row->set] - 1;
	}
	if (!rc)
		rc = rows_add(to, &out);
	return rc ? no_memory(m, rc) : 0;
}

static int take_group(struct merge *m, struct child *c, struct rows *to)
{
	int more, rc = 0;
	if (m->folded || c->n_parts)
		return take_row(m, c, &c->in.group, to);
	while (!rc && (more = rows_next(&c->in)))
		rc = more < 0 ? block_damaged(&m->w->s, &c->ref, m->err) : take_row(m, c, &c->in.row, to);
	return rc;
}

/* Of another generation: all at once, in the ids of this one. */
static int sort_child(struct merge *m, struct child *c)
{
	struct store *s = &m->w->s;
	int more, rc = 0;
	while (!rc && (more = rows_next_group(&c->in))) {
		size_t from = c->sorted.n;
		uint32_t stack, leaf, event;
		if (more < 0)
			return block_damaged(s, &c->ref, m->err);
		rc = take_group(m, c, &c->sorted);
		if (rc)
			break;
		rc = dict_gen_leaf(s, c->gen, c->in.group.stack, &stack);
		if (!rc)
			rc = dicts_add_leaf(&s->sym, stack, &leaf);
		if (!rc)
			rc = dict_gen_event(s, c->gen, c->in.group.event, &event);
		if (rc)
			return no_memory(m, rc);
		for (size_t i = from; i < c->sorted.n; i++) {
			c->sorted.v[i].stack = leaf;
			c->sorted.v[i].event = event;
		}
	}
	if (!rc)
		rows_sort(&c->sorted);
	return rc;
}

static int next_sorted(struct merge *m, struct child *c)
{
	const struct store_row *first = &c->sorted.v[c->at];
	c->live = c->at < c->sorted.n;
	for (; c->at < c->sorted.n; c->at++) {
		const struct store_row *row = &c->sorted.v[c->at];
		if (row->stack != first->stack || row->event != first->event)
			break;
		if (rows_add(&c->group, row))
			return no_memory(m, -ENOMEM);
	}
	return 0;
}

static int next_group(struct merge *m, struct child *c)
{
	int more, rc;
	c->group.n = 0;
	if (!c->gen->same) {
		rc = next_sorted(m, c);
	} else {
		more = rows_next_group(&c->in);
		c->live = more > 0;
		rc = more < 0 ? block_damaged(&m->w->s, &c->ref, m->err) : more ? take_group(m, c, &c->group) : 0;
	}
	if (!rc && c->live) {
		c->leaf = c->group.v->stack;
		c->event = c->group.v->event;
	}
	return rc;
}

/* ---- beginning ---- */

static int open_child(struct merge *m, struct child *c)
{
	struct store *s = &m->w->s;
	struct totals t = { 0 };
	int rc = block_read(s, &c->ref, WANT_TOTALS | WANT_ROWS | WANT_TABLE | WANT_TOP | WANT_DROPPED, &c->d, m->err);
	if (rc)
		return rc;
	rc = store_gen(s, &c->ref, &c->gen, m->err);
	if (!rc)
		rc = store_epoch(s, &c->ref, &c->epoch, m->err);
	if (!rc && !c->owner)
		rc = drop_keys_of(m, c);
	if (!rc && !c->owner)
		rc = contents_totals(s, &c->ref, &c->d, &t, m->err);
	if (!rc && !c->owner && totals_add(&m->totals, &t.t))
		rc = no_memory(m, -ENOMEM);
	totals_fini(&t);
	m->rows_below += c->ref.b.n_rows;
	return rc;
}

/* Does the owner of a part have lists of all values that the part's table has? */
static bool all_listed(const struct merge *m, const struct child *c)
{
	const struct manifest_epoch *e = store_epoch_info(&m->w->s, c->ref.b.epoch);
	bool all = c->owner && e && e->n_wide; /* none: a repair has lost which keys they are */
	for (size_t i = 0; all && i < e->n_wide; i++) {
		const struct child *owner = &m->children[c->owner - 1];
		uint32_t key;
		all = !strings_add(&m->w->epoch->d.label_text, e->wide[i].key, strlen(e->wide[i].key), &key) && is_listed(owner, key);
	}
	return all;
}

/* When all are open it is known which keys are dropped and whether there will be rows. */
static int begin_child(struct merge *m, struct child *c)
{
	int rc = contents_rows(&m->w->s, &c->ref, &c->d, !m->folded, &c->in, m->err);
	if (rc)
		return rc;
	c->n_sets = c->in.limits.n_sets;
	c->n_events = c->in.limits.n_events;
	c->map = calloc((size_t)c->n_sets + 1, sizeof(*c->map));
	bool counted = false;
	for (size_t i = 0; i < m->n_dropped && !m->folded; i++)
		counted |= is_counted(m, c, m->dropped[i].key);
	rc = contents_table(&m->w->s, &c->ref, &c->d, counted || !all_listed(m, c), NULL, &c->table, m->err);
	if (rc)
		return rc;
	if (counted)
		c->by_event = calloc((size_t)c->n_events + 1, sizeof(*c->by_event));
	if (!c->map || (counted && !c->by_event))
		return no_memory(m, -ENOMEM);
	rc = c->gen->same ? 0 : sort_child(m, c);
	return rc ? rc : next_group(m, c);
}

static int add_one(struct merge *m, const struct block_ref *r, uint32_t n_parts, size_t owner)
{
	int rc = ARRAY_RESERVE(m->children, m->cap, m->n + 1);
	if (rc)
		return rc;
	m->children[m->n++] = (struct child){ .ref = *r, .n_parts = n_parts, .owner = owner };
	m->folded |= !n_parts && (r->b.flags & (BLOCK_NO_ROWS | BLOCK_FOLDED_ONLY));
	return 0;
}

/*
 * A child without rows has them in its own children, windows: they come with it, and it stands for
 * what it has more than they, which is nothing unless some are gone. Its lists of values are as
 * good as what they have. Where all are gone its sums are all there is. Above level 1 such a child
 * had too many rows, and so has its parent.
 */
static int add_child(struct merge *m, const struct block_ref *r)
{
	const struct block_ref **below = NULL;
	size_t n = 0;
	bool few = r->b.flags & BLOCK_NO_ROWS && r->b.level == 1;
	int rc = few ? store_children(&m->w->s, r, &below, &n) : 0;
	m->orphan |= few;
	if (!rc)
		rc = add_one(m, r, (uint32_t)n, 0);
	size_t owner = m->n;
	for (size_t i = 0; !rc && i < n; i++)
		rc = add_one(m, below[i], 0, owner);
	free(below);
	return rc;
}

int merge_begin(struct merge **ret, struct store_writer *w, uint8_t level, const struct block_ref *v, size_t n,
		struct err *err)
{
	const struct store_meta *meta = &w->s.header.meta;
	struct merge *m = calloc(1, sizeof(*m));
	struct block_ref *refs = calloc(n + 1, sizeof(*refs));
	if (!m || !refs) {
		free(m);
		free(refs);
		return err_sys(err, -ENOMEM, "cannot compact %s", w->s.dir);
	}
	*m = (struct merge){ .w = w, .level = level, .refs = refs, .n_refs = n, .err = err };
	memcpy(refs, v, n * sizeof(*refs));
	m->totals = (struct totals){ .n_lost = meta->n_lost, .n_flagged = meta->n_flagged };
	int rc = setpool_init(&m->one) ? no_memory(m, -ENOMEM) : drop_wide_keys(m);
	for (size_t i = 0; !rc && i < n; i++)
		if (add_child(m, &v[i]))
			rc = no_memory(m, -ENOMEM);
	for (size_t i = 0; !rc && i < m->n; i++)
		rc = open_child(m, &m->children[i]);
	for (size_t i = 0; !rc && i < m->n; i++)
		rc = begin_child(m, &m->children[i]);
	m->out.folded = m->folded;
	if (rc)
		merge_free(m);
	else
		*ret = m;
	return rc;
}

static void child_fini(struct child *c)
{
	for (uint32_t i = 0; c->by_event && i < c->n_events; i++)
		free(c->by_event[i]);
	free(c->by_event);
	free(c->dropped);
	free(c->map);
	rows_fini(&c->sorted);
	rows_fini(&c->group);
	settable_fini(&c->table);
	block_data_fini(&c->d);
}

void merge_free(struct merge *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n; i++)
		child_fini(&m->children[i]);
	free(m->children);
	free(m->refs);
	totals_fini(&m->totals);
	top_fini(&m->top);
	free(m->dropped);
	rows_fini(&m->group);
	setpool_fini(&m->one);
	rows_writer_fini(&m->out);
	free(m);
}

/* ---- the work ---- */

static struct child *lowest(struct merge *m)
{
	struct child *best = NULL;
	for (size_t i = 0; i < m->n; i++) {
		struct child *c = &m->children[i];
		if (!c->live)
			continue;
		if (!best || c->leaf < best->leaf || (c->leaf == best->leaf && c->event < best->event))
			best = c;
	}
	return best;
}

/* What a child has more of the group at hand than its parts. */
static struct store_row rest_of(const struct child *c)
{
	struct store_row rest = *c->group.v;
	for (const struct child *p = c + 1; p <= c + c->n_parts; p++)
		for (size_t k = 0; p->live && p->leaf == c->leaf && p->event == c->event && k < p->group.n; k++) {
			const struct store_row *r = &p->group.v[k];
			rest.samples -= r->samples < rest.samples ? r->samples : rest.samples;
			rest.value -= r->value < rest.value ? r->value : rest.value;
		}
	return rest;
}

static int add_group(struct merge *m, const struct child *c)
{
	int rc = 0;
	if (c->n_parts) {
		struct store_row rest = rest_of(c);
		return rest.samples ? rows_add(&m->group, &rest) : 0;
	}
	for (size_t k = 0; !rc && k < c->group.n; k++)
		rc = rows_add(&m->group, &c->group.v[k]);
	return rc;
}

/*
 * The next group of the parent, from all children that have it. A child's parts are behind it: they
 * are not past the group yet.
 */
static int merge_group(struct merge *m, uint32_t leaf, uint32_t event)
{
	int rc = 0;
	m->group.n = 0;
	for (size_t i = 0; !rc && i < m->n; i++) {
		struct child *c = &m->children[i];
		if (!c->live || c->leaf != leaf || c->event != event)
			continue;
		rc = add_group(m, c);
		rc = rc ? no_memory(m, rc) : next_group(m, c);
	}
	if (rc)
		return rc;
	rows_sort(&m->group);
	if (!m->out.folded && m->group.n > m->w->opt.parent_rows - m->out.n_rows)
		m->out.folded = m->overfull = true;
	rc = rows_put(&m->out, m->group.v, m->group.n);
	return rc ? no_memory(m, rc) : 0;
}

int merge_step(struct merge *m, size_t *budget, bool *ret_done, struct err *err)
{
	struct child *c;
	int rc = 0;
	m->err = err;
	/* Events may have been added since. */
	m->out.events = m->w->s.sym.events;
	for (size_t i = 0; i < m->n; i++)
		m->children[i].in.limits.events = dict_gen_dicts(&m->w->s, m->children[i].gen)->events;
	while (!rc && *budget && (c = lowest(m))) {
		rc = merge_group(m, c->leaf, c->event);
		*budget -= m->group.n < *budget ? m->group.n : *budget;
	}
	*ret_done = !rc && !lowest(m);
	return rc;
}

bool merge_has(const struct merge *m, const struct block_ref *r)
{
	for (size_t i = 0; i < m->n_refs; i++)
		if (m->refs[i].b.seq == r->b.seq)
			return true;
	return false;
}

/* ---- the block ---- */

static void describe(const struct merge *m, struct store_block *info)
{
	for (size_t i = 0; i < m->n_refs; i++) {
		const struct store_block *b = &m->refs[i].b;
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
	info->n_children = (uint32_t)m->n_refs;
}

static int add_dropped(struct buf *out, const struct dropped_key *k)
{
	int rc = buf_add_varint(out, k->key);
	return rc ? rc : buf_add_varint(out, k->windows);
}

/*
 * Where the six windows of a block of level 1 have few rows in common, a question by label reads
 * them as fast, and the block has the groups alone. Higher up the rows are written: a question
 * needs few blocks.
 */
static bool saves_little(const struct merge *m)
{
	return m->level == 1 && !m->folded && m->out.n_rows > m->rows_below / 3;
}

static int encode(struct merge *m, struct block *b)
{
	const struct store_meta *meta = &m->w->s.header.meta;
	int rc = totals_encode(&b->column[COLUMN_TOTALS], &m->totals.t, meta->n_lost, meta->n_flagged, meta->n_lost,
			       meta->n_flagged);
	b->has |= 1u << COLUMN_TOTALS | 1u << COLUMN_DROPPED;
	for (size_t i = 0; !rc && i < m->n_dropped; i++)
		rc = add_dropped(&b->column[COLUMN_DROPPED], &m->dropped[i]);
	b->info.flags = m->folded || (m->overfull && m->orphan) ? BLOCK_FOLDED_ONLY :
			m->overfull || saves_little(m) ? BLOCK_NO_ROWS : 0;
	m->out.folded = b->info.flags != 0;
	rows_finish(&m->out, b);
	top_cut(&m->top);
	if (!rc && m->top.n)
		rc = top_encode(b, &m->top);
	return rc ? no_memory(m, rc) : 0;
}

int merge_finish(struct merge *m, struct block_ref *ret, struct err *err)
{
	struct block b = { .info.level = m->level };
	int rc = 0;
	m->err = err;
	describe(m, &b.info);
	for (size_t i = 0; !rc && i < m->n; i++)
		rc = merge_top(m, &m->children[i]);
	if (!rc)
		rc = encode(m, &b);
	if (!rc)
		rc = writer_put_block(m->w, &b, ret, err);
	block_fini(&b);
	return rc;
}
