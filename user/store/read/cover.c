/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical cover of a range. A block c is part of a block a of any higher level if it begins
 * in a's slot and its windows are in [a.window_lo, a.window_hi). A parent took all that there were
 * in its slot; what came later has windows of a higher seq and another parent. So this holds
 * whether the levels between them are there or not. Blocks that are part of none are the roots.
 * From them the walk goes down where a block is not wholly in the range or lacks the wanted detail,
 * and stops where a child is gone.
 */
#include "store/read/cover.h"

#include "store/read/block_data.h"
#include "store/read/contents.h"
#include "store/read/postings.h"
#include "store/read/rows.h"
#include "store/read/store_int.h"

#include "util/array.h"
#include "util/bisect.h"

#include <errno.h>

struct walk {
	struct store *s;
	int64_t from, to;
	enum store_want want;
	const char *const *keys;
	size_t n_keys;
	const char *value_key; /* NULL: none; else what is wide of it is found by postings */
	const struct settable_label *values; /* [n_hashes]: the forms that it may have */
	const uint32_t *hashes;
	size_t n_hashes;
	const struct block_ref **posted; /* blocks whose windows postings find */
	size_t n_posted, posted_cap;
	struct store_cover cover;
	size_t cap;
	struct err *err;
};

static int no_memory(struct walk *w)
{
	return err_sys(w->err, -ENOMEM, "cannot query %s", w->s->dir);
}

/* ---- children ---- */

static size_t first_seq(const struct segment *g, uint32_t seq)
{
	return bisect(i, 0, g->n_refs, g->refs[i].b.seq < seq);
}

static bool may_hold(const struct segment *g, uint8_t level, int64_t t0, int64_t t1)
{
	return g->m.level == level &&
	       (g->m.state == SEGMENT_OPEN || (g->m.t0_ns < t1 && g->m.t1_ns > t0));
}

static bool is_child(const struct store_block *p, const struct store_block *c)
{
	return c->seq >= p->child_lo && c->seq < p->child_hi &&
	       slot_of(p->level, c->t0_ns) == slot_of(p->level, p->t0_ns);
}

static int add_ref(const struct block_ref ***v, size_t *n, size_t *cap, const struct block_ref *r)
{
	int rc = ARRAY_RESERVE(*v, *cap, *n + 1);
	if (!rc)
		(*v)[(*n)++] = r;
	return rc;
}

int store_children(struct store *s, const struct block_ref *p, const struct block_ref ***ret,
		   size_t *ret_n)
{
	const struct block_ref **v = NULL;
	size_t n = 0, cap = 0;
	int rc = 0;
	for (size_t i = 0; !rc && i < s->n_segments; i++) {
		struct segment *g = &s->segments[i];
		if (!may_hold(g, (uint8_t)(p->b.level - 1), p->b.t0_ns, p->b.t1_ns))
			continue;
		if (g->m.state != SEGMENT_OPEN &&
		    (g->m.seq_lo >= p->b.child_hi || g->m.seq_hi <= p->b.child_lo))
			continue;
		rc = segment_load(s, g, NULL);
		if (rc == -ENOMEM)
			break;
		rc = 0;
		for (size_t k = first_seq(g, p->b.child_lo);
		     !rc && k < g->n_refs && g->refs[k].b.seq < p->b.child_hi; k++)
			if (is_child(&p->b, &g->refs[k].b))
				rc = add_ref(&v, &n, &cap, &g->refs[k]);
	}
	if (rc) {
		free(v);
		return rc;
	}
	*ret = v;
	*ret_n = n;
	return 0;
}

/* ---- the walk down ---- */

/* The keys of a block, which are borrowed from d. */
static int read_keys(struct walk *w, const struct block_ref *r, struct block_data *d,
		     struct block_keys *ret)
{
	int rc = block_read(w->s, r, WANT_KEYS, d, w->err);
	if (rc)
		return rc;
	rc = contents_keys(w->s, r, d, ret, w->err);
	if (rc)
		block_data_fini(d);
	return rc;
}

/* Is the key whose value is asked for in the table of this window? */
static int in_table(struct walk *w, const struct block_ref *r, bool *ret)
{
	struct block_data d;
	struct block_keys keys;
	*ret = false;
	if (!w->value_key || !r->b.n_table)
		return 0;
	int rc = read_keys(w, r, &d, &keys);
	if (rc)
		return rc;
	*ret = block_keys_find(&keys, w->value_key, strlen(w->value_key)) != NULL;
	block_keys_fini(&keys);
	block_data_fini(&d);
	return 0;
}

static int parent_has_detail(struct walk *w, const struct block_ref *r, bool *ret, bool *ret_posted)
{
	struct block_data d;
	struct block_keys keys;
	int rc = read_keys(w, r, &d, &keys);
	if (rc)
		return rc;
	*ret = block_answers(&keys, w->keys, w->n_keys, w->want != STORE_KEY_SUMS);
	if (!*ret && w->value_key) {
		const struct block_key *key =
			block_keys_find(&keys, w->value_key, strlen(w->value_key));
		*ret_posted = key && key->windows == r->b.n_windows;
	}
	block_keys_fini(&keys);
	block_data_fini(&d);
	return 0;
}

/*
 * *ret_posted: in each of its windows the key in question is wide, so that postings tell which are
 * of interest.
 */
static int has_detail(struct walk *w, const struct block_ref *r, bool *ret, bool *ret_posted)
{
	*ret = w->want == STORE_FOLDED || !r->b.level;
	*ret_posted = false;
	if (w->want == STORE_FOLDED || r->b.flags & BLOCK_NO_LABELS)
		return 0;
	if (!r->b.level)
		return in_table(w, r, ret_posted);
	return w->want == STORE_ALL_LABELS ? 0 : parent_has_detail(w, r, ret, ret_posted);
}

static int take(struct walk *w, const struct block_ref *r, bool fine)
{
	struct store_cover *c = &w->cover;
	if (ARRAY_RESERVE(c->blocks, w->cap, c->n + 1))
		return no_memory(w);
	if (!c->n || r->b.t0_ns < c->from_ns)
		c->from_ns = r->b.t0_ns;
	if (!c->n || r->b.t1_ns > c->to_ns)
		c->to_ns = r->b.t1_ns;
	c->blocks[c->n++] = &r->b;
	c->coarse += fine ? 0 : r->b.n_windows;
	return 0;
}

/*
 * A child that cannot answer, and whose own children are gone: the edge of the range cannot be
 * finer than its parent, which can.
 */
static int is_edge(struct walk *w, const struct block_ref **children, size_t n, bool *ret)
{
	int rc = 0;
	*ret = false;
	for (size_t i = 0; !rc && !*ret && i < n; i++) {
		const struct block_ref **below;
		size_t n_below;
		bool fine, posted;
		rc = has_detail(w, children[i], &fine, &posted);
		if (rc || fine || posted)
			continue;
		if (store_children(w->s, children[i], &below, &n_below))
			return no_memory(w);
		*ret = n_below != children[i]->b.n_children;
		free(below);
	}
	return rc;
}

/* A parent that cannot answer, of which only some children are left: those may. */
static void count_gone(struct walk *w, const struct block_ref *r, const struct block_ref **children,
		       size_t n)
{
	uint32_t left = 0;
	for (size_t i = 0; i < n; i++)
		left += children[i]->b.n_windows;
	w->cover.gone += r->b.n_windows > left ? r->b.n_windows - left : 0;
}

static int visit(struct walk *w, const struct block_ref *r)
{
	const struct block_ref **children = NULL;
	size_t n = 0;
	bool fine, posted, edge = false;
	if (r->b.t1_ns <= w->from || r->b.t0_ns >= w->to)
		return 0;
	int rc = has_detail(w, r, &fine, &posted);
	if (rc)
		return rc;
	if (posted) {
		/* Windows that are gone cannot be found. */
		w->cover.gone += r->b.t0_ns < w->s->manifest.cuts[0].before_ns ? r->b.n_windows : 0;
		return add_ref(&w->posted, &w->n_posted, &w->posted_cap, r) ? no_memory(w) : 0;
	}
	bool inside = r->b.t0_ns >= w->from && r->b.t1_ns <= w->to;
	if (!r->b.level || (inside && fine))
		return take(w, r, fine);
	rc = store_children(w->s, r, &children, &n);
	if (rc)
		return no_memory(w);
	if (fine && w->want != STORE_FOLDED)
		rc = is_edge(w, children, n, &edge);
	if (!fine && n && n != r->b.n_children)
		count_gone(w, r, children, n);
	else
		edge |= n != r->b.n_children;
	if (!rc && edge)
		rc = take(w, r, fine);
	for (size_t i = 0; !rc && !edge && i < n; i++)
		rc = visit(w, children[i]);
	free(children);
	return rc;
}

/* ---- the roots ---- */

static int by_slot(const void *pa, const void *pb)
{
	const struct block_ref *a = *(const struct block_ref *const *)pa,
			       *b = *(const struct block_ref *const *)pb;
	int64_t x = slot_of(a->b.level, a->b.t0_ns), y = slot_of(b->b.level, b->b.t0_ns);
	if (a->b.level != b->b.level)
		return a->b.level < b->b.level ? -1 : 1;
	return (x > y) - (x < y);
}

/* The first of `level` whose slot is not below `slot`. */
static size_t first_slot(const struct block_ref **v, size_t n, uint8_t level, int64_t slot)
{
	return bisect(i, 0, n,
		      v[i]->b.level < level ||
			      (v[i]->b.level == level && slot_of(level, v[i]->b.t0_ns) < slot));
}

static bool is_part(const struct block_ref **parents, size_t n, uint8_t from,
		    const struct store_block *c)
{
	for (uint8_t level = from; n && level <= parents[n - 1]->b.level; level++) {
		int64_t slot = slot_of(level, c->t0_ns);
		for (size_t i = first_slot(parents, n, level, slot); i < n; i++) {
			const struct store_block *p = &parents[i]->b;
			if (p->level != level || slot_of(level, p->t0_ns) != slot)
				break;
			if (c->window_lo >= p->window_lo && c->window_hi <= p->window_hi)
				return true;
		}
	}
	return false;
}

/* The blocks from level on, to the highest or that of postings, which those of g may be part of. */
static int list_parents(struct store *s, const struct segment *g, uint8_t level,
			const struct block_ref ***ret, size_t *ret_n, struct err *err)
{
	const struct block_ref **v = NULL;
	size_t n = 0, cap = 0;
	int64_t t0 = INT64_MAX, t1 = INT64_MIN;
	int rc = 0;
	for (size_t k = 0; k < g->n_refs; k++) {
		t0 = g->refs[k].b.t0_ns < t0 ? g->refs[k].b.t0_ns : t0;
		t1 = g->refs[k].b.t1_ns > t1 ? g->refs[k].b.t1_ns : t1;
	}
	for (size_t i = 0; !rc && i < s->n_segments; i++) {
		struct segment *p = &s->segments[i];
		bool above = level == LEVEL_POSTINGS ? p->m.level == level
						     : p->m.level >= level && p->m.level < N_LEVELS;
		if (!above || !may_hold(p, p->m.level, t0, t1))
			continue;
		rc = segment_load(s, p, err);
		if (rc == -ENOENT)
			rc = 0;
		for (size_t k = 0; !rc && k < p->n_refs; k++)
			rc = add_ref(&v, &n, &cap, &p->refs[k]);
	}
	if (rc) {
		free(v);
		return rc;
	}
	if (n)
		qsort(v, n, sizeof(*v), by_slot);
	*ret = v;
	*ret_n = n;
	return 0;
}

int store_roots(struct store *s, uint8_t level, uint8_t parent_level, int64_t from, int64_t to,
		int (*cb)(void *ctx, const struct block_ref *r), void *ctx, struct err *err)
{
	int rc = 0;
	/* above them there is nothing; postings have the same number */
	bool top = level == N_LEVELS - 1;
	uint32_t covered =
		s->manifest.covered[parent_level == LEVEL_POSTINGS ? LEVEL_POSTINGS : level];
	/* By index: loading may add nothing, but the callback may load. */
	for (size_t i = 0; !rc && i < s->n_segments; i++) {
		const struct block_ref **parents = NULL;
		size_t n = 0;
		if (!may_hold(&s->segments[i], level, from, to))
			continue;
		if (!top && s->segments[i].m.state != SEGMENT_OPEN &&
		    s->segments[i].m.seq_hi <= covered)
			continue;
		rc = segment_load(s, &s->segments[i], err);
		if (rc == -ENOENT) {
			rc = 0;
			continue;
		}
		if (!rc && !top)
			rc = list_parents(s, &s->segments[i], parent_level, &parents, &n, err);
		for (size_t k = 0; !rc && k < s->segments[i].n_refs; k++) {
			const struct block_ref *r = &s->segments[i].refs[k];
			if (r->b.t0_ns < to && r->b.t1_ns > from &&
			    !is_part(parents, n, parent_level, &r->b))
				rc = cb(ctx, r);
		}
		free(parents);
	}
	return rc == -ENOMEM ? err_sys(err, rc, "cannot query %s", s->dir) : rc;
}

static int on_root(void *ctx, const struct block_ref *r)
{
	return visit(ctx, r);
}

int cover_by_time(const void *pa, const void *pb)
{
	const struct store_block *a = *(const struct store_block *const *)pa;
	const struct store_block *b = *(const struct store_block *const *)pb;
	if (a->t0_ns != b->t0_ns)
		return a->t0_ns < b->t0_ns ? -1 : 1;
	return a->level != b->level ? b->level - a->level : (a->seq > b->seq) - (a->seq < b->seq);
}

/* ---- by the value of a wide key ---- */

struct hit {
	struct walk *w;
	const struct block_ref *postings;
};

static const struct block_ref *window_by_seq(struct store *s, uint32_t seq)
{
	for (size_t i = s->n_segments; i-- > 0;) {
		struct segment *g = &s->segments[i];
		if (g->m.level ||
		    (g->m.state != SEGMENT_OPEN && (seq < g->m.seq_lo || seq >= g->m.seq_hi)))
			continue;
		if (segment_load(s, g, NULL))
			continue;
		size_t k = first_seq(g, seq);
		if (k < g->n_refs && g->refs[k].b.seq == seq)
			return &g->refs[k];
	}
	return NULL;
}

/* Other windows are part of blocks that answer by themselves, or were taken. */
static bool is_posted(const struct walk *w, const struct store_block *b)
{
	for (size_t i = 0; i < w->n_posted; i++) {
		const struct store_block *p = &w->posted[i]->b;
		bool part = b->window_lo >= p->window_lo && b->window_hi <= p->window_hi;
		if (part && slot_of(p->level, b->t0_ns) == slot_of(p->level, p->t0_ns))
			return true;
	}
	return false;
}

static int take_window(struct walk *w, const struct block_ref *r)
{
	if (r->b.t1_ns <= w->from || r->b.t0_ns >= w->to || !is_posted(w, &r->b))
		return 0;
	return take(w, r, true);
}

static int on_hit(void *ctx, uint32_t seq)
{
	struct hit *h = ctx;
	const struct block_ref *r = window_by_seq(h->w->s, seq);
	if (r)
		return take_window(h->w, r);
	h->w->cover.gone++; /* the window is cut already, the postings not yet */
	return 0;
}

static int find_posted(struct walk *w)
{
	struct store *s = w->s;
	int rc = 0;
	for (size_t i = 0; !rc && i < s->n_segments; i++) {
		if (!may_hold(&s->segments[i], LEVEL_POSTINGS, w->from, w->to))
			continue;
		rc = segment_load(s, &s->segments[i], w->err);
		for (size_t k = 0; !rc && k < s->segments[i].n_refs; k++) {
			struct hit h = { w, &s->segments[i].refs[k] };
			if (h.postings->b.t0_ns >= w->to || h.postings->b.t1_ns <= w->from)
				continue;
			for (size_t j = 0; !rc && j < w->n_hashes; j++)
				rc = postings_find(s, h.postings, w->hashes[j], on_hit, &h, w->err);
		}
		if (rc == -ENOENT)
			rc = 0;
	}
	return rc;
}

/*
 * The last hour or so: the windows themselves are looked into, for the value alone; the rows tell
 * the rest.
 */
static int on_unposted(void *ctx, const struct block_ref *r)
{
	struct walk *w = ctx;
	struct block_data d;
	uint32_t columns = 0;
	bool may = false;
	if (!r->b.n_table)
		return 0;
	for (size_t i = 0; i < w->n_hashes; i++)
		columns |= settable_columns(&w->values[i]);
	int rc = block_read(w->s, r, columns, &d, w->err);
	if (rc)
		return rc;
	for (size_t i = 0; i < w->n_hashes; i++)
		may |= settable_may_have(d.column + COLUMN_TABLE_NARROW, &w->values[i]);
	block_data_fini(&d);
	return may ? take_window(w, r) : 0;
}

static void drop_twins(struct store_cover *c)
{
	size_t n = 0;
	for (size_t i = 0; i < c->n; i++)
		if (!n || c->blocks[n - 1] != c->blocks[i])
			c->blocks[n++] = c->blocks[i];
	c->n = n;
}

static int walk_down(struct walk *w)
{
	int rc = 0;
	for (int level = N_LEVELS - 1; !rc && w->from < w->to && level >= 0; level--)
		rc = store_roots(w->s, (uint8_t)level, (uint8_t)(level + 1), w->from, w->to,
				 on_root, w, w->err);
	return rc;
}

static int finish(struct walk *w, int rc, struct store_cover *ret)
{
	free(w->posted);
	if (rc) {
		store_cover_free(&w->cover);
		return rc;
	}
	if (w->cover.n)
		qsort(w->cover.blocks, w->cover.n, sizeof(*w->cover.blocks), cover_by_time);
	drop_twins(&w->cover);
	*ret = w->cover;
	return 0;
}

int cover_value(struct store *s, int64_t from_ns, int64_t to_ns, const struct label *values,
		size_t n_values, const char *const *keys, size_t n_keys, struct store_cover *ret,
		struct err *err)
{
	struct settable_label forms[STORE_VALUES_MAX];
	uint32_t hashes[STORE_VALUES_MAX];
	char key[STRING_MAX + 1];
	struct walk w = { .s = s,
			  .from = from_ns,
			  .to = to_ns,
			  .want = STORE_NARROW_KEYS,
			  .keys = keys,
			  .n_keys = n_keys,
			  .value_key = key,
			  .values = forms,
			  .hashes = hashes,
			  .n_hashes = n_values,
			  .err = err };
	if (!n_values || n_values > STORE_VALUES_MAX || values->key_len > STRING_MAX)
		return err_set(err, -EINVAL, "no value to look for");
	memcpy(key, values->key, values->key_len);
	key[values->key_len] = 0;
	for (size_t i = 0; i < n_values; i++) {
		forms[i] = settable_value(&values[i]);
		hashes[i] = postings_hash(key, values->key_len, &forms[i]);
	}
	int rc = walk_down(&w);
	if (!rc && w.n_posted)
		rc = find_posted(&w);
	if (!rc && w.n_posted)
		rc = store_roots(s, 0, LEVEL_POSTINGS, from_ns, to_ns, on_unposted, &w, err);
	return finish(&w, rc, ret);
}

int cover_rows(struct store *s, int64_t from_ns, int64_t to_ns, enum store_want want,
	       const char *const *keys, size_t n_keys, struct store_cover *ret, struct err *err)
{
	struct walk w = { .s = s,
			  .from = from_ns,
			  .to = to_ns,
			  .want = want,
			  .keys = keys,
			  .n_keys = n_keys,
			  .err = err };
	return finish(&w, walk_down(&w), ret);
}

void store_cover_free(struct store_cover *c)
{
	if (!c)
		return;
	for (struct store_part *p = c->parts, *next; p; p = next) {
		next = p->next;
		free(p);
	}
	free(c->blocks);
	memset(c, 0, sizeof(*c));
}
