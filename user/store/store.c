/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_int.h"

#include "util/array.h"

#include <errno.h>
#include <stdlib.h>

int store_open(struct store **ret, const char *dir, struct err *err)
{
	struct store *s = malloc(sizeof(*s));
	if (!s)
		return err_sys(err, -ENOMEM, "cannot open %s", dir);
	store_init(s);
	int rc = store_open_dir(s, dir, err);
	if (!rc)
		rc = store_load(s, false, err);
	if (rc)
		store_close(s);
	else
		*ret = s;
	return rc;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	store_fini(s);
	free(s);
}

const char *store_damage(const struct store *s)
{
	return s->damage[0] ? s->damage : NULL;
}

bool store_lost_windows(const struct store *s)
{
	return s->lost_windows;
}

const struct store_meta *store_meta(const struct store *s)
{
	return &s->header.meta;
}

const char *store_level_name(uint8_t level)
{
	return level < N_SEGMENT_LEVELS ? levels[level].name : "?";
}

int64_t store_level_span_ns(uint8_t level)
{
	return level < N_SEGMENT_LEVELS ? levels[level].span_ns : 0;
}

const struct store_anchor *store_anchor(const struct store *s, uint32_t i)
{
	return i < s->manifest.n_anchors ? &s->manifest.anchors[i] : NULL;
}

const struct store_cut *store_cut(const struct store *s, uint8_t level)
{
	return level < N_SEGMENT_LEVELS ? &s->manifest.cuts[level] : NULL;
}

/* ---- dictionaries ---- */

const char *store_string(const struct store *s, uint32_t id, size_t *ret_len)
{
	return strings_get(&s->sym.strings, id, ret_len);
}

const struct store_frame *store_frame(const struct store *s, uint32_t id)
{
	return id && id < s->sym.n_frames ? &s->sym.frames[id] : NULL;
}

void store_stack(const struct store *s, uint32_t id, uint32_t *ret_parent, uint32_t *ret_frame)
{
	struct stack_node n = id < s->sym.n_stacks ? s->sym.stacks[id] : (struct stack_node){ 0 };
	*ret_parent = n.parent;
	*ret_frame = n.frame;
}

size_t store_set(const struct store *s, uint32_t id, const struct label **ret_labels)
{
	return setpool_get(&s->sets, id, ret_labels);
}

size_t store_set_copy(const struct store *s, uint32_t id, struct label *out, size_t cap)
{
	const struct label *v;
	size_t n = setpool_get(&s->sets, id, &v);
	for (size_t i = 0; i < n && i < cap; i++)
		out[i] = v[i];
	return n;
}

int store_keep_set(struct store *s, const struct label *labels, size_t n, uint32_t *ret_id)
{
	return setpool_add(&s->sets, labels, n, ret_id);
}

const struct store_event *store_event(const struct store *s, uint32_t id)
{
	return id < s->sym.n_events ? &s->sym.events[id] : NULL;
}

uint32_t store_n_strings(const struct store *s)
{
	return s->sym.strings.n;
}

uint32_t store_n_frames(const struct store *s)
{
	return s->sym.n_frames;
}

uint32_t store_n_stacks(const struct store *s)
{
	return s->sym.n_stacks;
}

uint32_t store_n_sets(const struct store *s)
{
	return s->sets.n;
}

void store_limit(struct store *s, const struct store_limits *limits)
{
	s->limits = *limits;
}

size_t store_budget(const struct store *s)
{
	return s->limits.bytes;
}

int store_goes_on(const struct store *s, struct err *err)
{
	if (s->limits.stop && __atomic_load_n(s->limits.stop, __ATOMIC_RELAXED))
		return err_set(err, -EAGAIN, "the server is about to end");
	return 0;
}

uint32_t store_n_events(const struct store *s)
{
	return s->sym.n_events;
}

/* ---- blocks ---- */

#define SOME_ROWS 64
#define UNWANTED 1
#define WANTED(id) ((id) + 2)

/* From the rows of a block to the ids that the store gives. */
struct reading {
	struct store *s;
	const struct block_ref *ref;
	const struct store_reading *how; /* NULL: groups are wanted */
	struct dict_gen *gen, *epoch;
	struct settable_keys wants;
	uint8_t *known; /* per string of the epoch: 0 unknown, UNWANTED, WANTED(0) as a key; NULL: all keys are wanted */
	struct settable table;
	uint32_t *map; /* per set of the block: 0 unknown, UNWANTED, WANTED(id) */
	uint32_t *of_narrow; /* the same per narrow set, of sets that have nothing else of interest; NULL: there is no table */
	uint32_t n_sets; /* in map */
	struct rows_sum **sums; /* [n_events] of the block, with fold_stacks: by set, NULL where there is none */
	uint32_t n_events;
	uint32_t stack, event; /* of the group at hand */
	int (*cb)(void *ctx, const struct store_row *row);
	void *ctx;
	struct err *err;
};

static int failed(const struct reading *r, int rc)
{
	return err_sys(r->err, rc, "cannot read %s", r->s->dir);
}

static bool wants_key(void *ctx, uint32_t key)
{
	struct reading *r = ctx;
	if (!r->known[key])
		r->known[key] = contents_wants(r->how->keys, strings_get(&r->epoch->d.label_text, key, NULL)) ? WANTED(0) : UNWANTED;
	return r->known[key] == WANTED(0);
}

static const struct settable_keys *keys_of(const struct reading *r)
{
	return r->known ? &r->wants : NULL;
}

static int map_labels(struct reading *r, uint32_t narrow, const struct settable_set *ts, uint32_t *ret)
{
	struct label labels[STORE_SET_MAX];
	size_t n = contents_labels(&r->epoch->d, narrow, &r->table, ts, keys_of(r), labels);
	bool wanted = true;
	uint32_t id = 0;
	int rc = r->how->filter ? r->how->filter(r->how->ctx, labels, n, &wanted) : 0;
	if (rc || !wanted) {
		*ret = UNWANTED;
		return rc;
	}
	if (r->how->set && !r->how->fold_sets) {
		rc = r->how->set(r->how->ctx, labels, n, &id);
	} else if (!r->how->fold_sets) {
		rc = setpool_add(&r->s->sets, labels, n, &id);
		rc = rc ? failed(r, rc) : 0;
	}
	if (rc)
		return rc;
	*ret = WANTED(id);
	return 0;
}

/* What the table has of a set are the labels of interest alone. */
static int map_set(struct reading *r, uint32_t set)
{
	const struct settable_set *ts = r->table.n ? &r->table.sets[set] : NULL;
	if (!ts || ts->n)
		return map_labels(r, ts ? ts->narrow : set, ts, &r->map[set]);
	uint32_t *of = &r->of_narrow[ts->narrow];
	int rc = *of ? 0 : map_labels(r, ts->narrow, NULL, of);
	r->map[set] = *of;
	return rc;
}

static inline int find_set(struct reading *r, uint32_t set, uint32_t *ret)
{
	int rc = r->map[set] ? 0 : map_set(r, set);
	*ret = r->map[set];
	return rc;
}

/* ---- rows as they are ---- */

static int give_rows(struct reading *r, struct store_row *rows, int n)
{
	size_t n_out = 0;
	uint32_t id;
	for (int i = 0; i < n; i++) {
		int rc = find_set(r, rows[i].set, &id);
		if (rc)
			return rc;
		if (id != UNWANTED)
			rows[n_out++] = (struct store_row){ id - WANTED(0), r->stack, r->event, rows[i].samples, rows[i].value };
	}
	return n_out ? r->how->rows(r->how->ctx, rows, n_out) : 0;
}

static int add_rows(struct reading *r, const struct store_row *rows, int n, struct store_row *sum)
{
	uint32_t id;
	for (int i = 0; i < n; i++) {
		int rc = find_set(r, rows[i].set, &id);
		if (rc)
			return rc;
		if (id != UNWANTED) {
			sum->samples += rows[i].samples;
			sum->value += rows[i].value;
		}
	}
	return 0;
}

static int give_group(struct reading *r, struct rows_reader *rows)
{
	struct store_row some[SOME_ROWS], sum = { .stack = r->stack, .event = r->event };
	int rc = 0, n;
	while (!rc && (n = rows_take(rows, some, SOME_ROWS))) {
		if (n < 0)
			rc = block_damaged(r->s, r->ref, r->err);
		else
			rc = r->how->fold_sets ? add_rows(r, some, n, &sum) : give_rows(r, some, n);
	}
	return rc || !sum.samples ? rc : r->how->rows(r->how->ctx, &sum, 1);
}

/* ---- rows without their stacks: of each set one, when all have been added up ---- */

static int sum_group(struct reading *r, struct rows_reader *rows)
{
	struct rows_sum **sums = &r->sums[rows->group.event];
	if (!*sums && !(*sums = calloc((size_t)r->n_sets + 1, sizeof(**sums))))
		return failed(r, -ENOMEM);
	return rows_sum(rows, *sums) ? block_damaged(r->s, r->ref, r->err) : 0;
}

static int give_sums(struct reading *r)
{
	struct store_row some[SOME_ROWS];
	uint32_t event = 0;
	int rc = 0;
	r->stack = 0;
	for (uint32_t e = 0; !rc && e < r->n_events; e++) {
		const struct rows_sum *sums = r->sums[e];
		int n = 0;
		rc = sums ? dict_gen_event(r->s, r->gen, e, &event) : 0;
		if (rc)
			return failed(r, rc);
		r->event = event;
		for (uint32_t i = 0; sums && !rc && i < r->n_sets; i++) {
			if (sums[i].samples)
				some[n++] = (struct store_row){ .set = i, .samples = sums[i].samples, .value = sums[i].value };
			if (n == SOME_ROWS) {
				rc = give_rows(r, some, n);
				n = 0;
			}
		}
		rc = rc || !n ? rc : give_rows(r, some, n);
	}
	return rc;
}

/* ---- a block ---- */

/*
 * The sum of a group. Filled in by parts: to copy the whole of it, right after its parts were
 * written, is what would take longest.
 */
static int give_sum(struct reading *r, const struct store_row *group)
{
	const struct store_row out = { .stack = r->stack, .event = r->event, .samples = group->samples, .value = group->value };
	return r->cb(r->ctx, &out);
}

/* Leaf and event of a group are looked up once. */
static int read_group(struct reading *r, struct rows_reader *rows)
{
	int rc = dict_gen_leaf(r->s, r->gen, rows->group.stack, &r->stack), wanted = 1;
	if (!rc)
		rc = dict_gen_event(r->s, r->gen, rows->group.event, &r->event);
	if (rc)
		return failed(r, rc);
	if (!r->how)
		return give_sum(r, &rows->group);
	if (r->how->group) {
		const struct store_row sum = { .stack = r->stack, .event = r->event, .samples = rows->group.samples, .value = rows->group.value };
		wanted = r->how->group(r->how->ctx, &sum);
	}
	if (wanted <= 0)
		return wanted;
	return r->sums ? sum_group(r, rows) : give_group(r, rows);
}

static int read_groups(struct reading *r, const struct block_data *d)
{
	struct rows_reader rows;
	int more, rc = store_gen(r->s, r->ref, &r->gen, r->err);
	if (!rc)
		rc = contents_rows(r->s, r->ref, d, r->how != NULL, &rows, r->err);
	while (!rc && (more = rows_next_group(&rows)))
		rc = more < 0 ? block_damaged(r->s, r->ref, r->err) : read_group(r, &rows);
	return rc;
}

static int make_maps(struct reading *r, const struct block_data *d)
{
	struct rows_limits l;
	int rc = contents_limits(r->s, r->ref, &d->head, &l, r->err);
	if (rc)
		return rc;
	uint32_t n_narrow = d->head.marks[KIND_SETS].count;
	r->n_sets = l.n_sets;
	r->map = calloc((size_t)r->n_sets + 1, sizeof(*r->map));
	if (r->map && r->table.n)
		r->of_narrow = calloc((size_t)n_narrow + 1, sizeof(*r->of_narrow));
	if (r->how->fold_stacks) {
		r->n_events = l.n_events;
		r->sums = calloc((size_t)r->n_events + 1, sizeof(*r->sums));
	}
	return r->map && (r->of_narrow || !r->table.n) && (r->sums || !r->how->fold_stacks) ? 0 : failed(r, -ENOMEM);
}

/* Whether a label of interest may be in the block's table: the others need not be unpacked. */
static bool needs_table(const struct reading *r)
{
	const struct manifest_epoch *e = store_epoch_info(r->s, r->ref->b.epoch);
	if (!r->how->keys || !e || !e->t0_ns) /* a repair may have lost the list of wide keys */
		return true;
	for (size_t i = 0; i < e->n_wide; i++)
		if (contents_wants(r->how->keys, e->wide[i].key))
			return true;
	return false;
}

static void reading_fini(struct reading *r)
{
	for (uint32_t i = 0; r->sums && i < r->n_events; i++)
		free(r->sums[i]);
	free(r->sums);
	free(r->map);
	free(r->of_narrow);
	free(r->known);
	settable_fini(&r->table);
}

static int read_rows(struct reading *r, const struct block_data *d, bool labels)
{
	int rc = store_epoch(r->s, r->ref, &r->epoch, r->err);
	if (rc)
		return rc;
	if (r->how->keys && !(r->known = calloc((size_t)r->epoch->d.label_text.n + 1, 1)))
		return failed(r, -ENOMEM);
	r->wants = (struct settable_keys){ wants_key, r };
	rc = contents_table(r->s, r->ref, d, labels, keys_of(r), &r->table, r->err);
	rc = rc ? rc : make_maps(r, d);
	rc = rc ? rc : read_groups(r, d);
	return rc || !r->sums ? rc : give_sums(r);
}

int store_block_read(struct store *s, const struct store_block *b, const struct store_reading *how, struct err *err)
{
	struct reading r = { .s = s, .ref = store_ref(b), .how = how, .err = err };
	struct block_data d;
	if (b->flags & BLOCK_FOLDED_ONLY)
		return err_set(err, -ENODATA, "the labels of this time were not written, for want of space");
	if (b->flags & BLOCK_NO_ROWS)
		return err_set(err, -ENODATA, "the rows of this block are in its children");
	bool labels = needs_table(&r);
	int rc = block_read(s, r.ref, WANT_ROWS | (labels ? WANT_TABLE : WANT_NARROW), &d, err);
	if (rc)
		return rc;
	rc = read_rows(&r, &d, labels);
	reading_fini(&r);
	block_data_fini(&d);
	return rc;
}

struct one_by_one {
	store_filter *filter;
	int (*cb)(void *ctx, const struct store_row *row);
	void *ctx;
};

static int filter_one(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	const struct one_by_one *o = ctx;
	return o->filter(o->ctx, labels, n, ret);
}

static int give_one_by_one(void *ctx, const struct store_row *rows, size_t n)
{
	const struct one_by_one *o = ctx;
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++)
		rc = o->cb(o->ctx, &rows[i]);
	return rc;
}

int store_block_rows(struct store *s, const struct store_block *b, const struct store_keys *keys, store_filter *filter,
		     int (*cb)(void *ctx, const struct store_row *row), void *ctx, struct err *err)
{
	struct one_by_one o = { filter, cb, ctx };
	const struct store_reading how = { .keys = keys, .filter = filter ? filter_one : NULL, .rows = give_one_by_one, .ctx = &o };
	return store_block_read(s, b, &how, err);
}

int store_block_folded(struct store *s, const struct store_block *b,
		       int (*cb)(void *ctx, const struct store_row *row), void *ctx, struct err *err)
{
	struct reading r = { .s = s, .ref = store_ref(b), .cb = cb, .ctx = ctx, .err = err };
	struct block_data d;
	int rc = block_read(s, r.ref, WANT_FOLDED, &d, err);
	if (rc)
		return rc;
	rc = read_groups(&r, &d);
	block_data_fini(&d);
	return rc;
}

/* ---- many blocks without labels ---- */

/* Leaves and events of one generation: sums[event] has n_leaves, or is NULL. */
struct fold_gen {
	struct dict_gen *gen;
	struct rows_sum **sums;
	uint32_t n_events, n_leaves;
};

static int find_fold(struct store *s, struct store_folding *f, struct dict_gen *gen, struct fold_gen **ret)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->gens[i].gen == gen) {
			*ret = &f->gens[i];
			return 0;
		}
	const struct dicts *d = dict_gen_dicts(s, gen);
	int rc = ARRAY_RESERVE(f->gens, f->cap, f->n + 1);
	struct fold_gen g = { gen, rc ? NULL : calloc((size_t)d->n_events + 1, sizeof(*g.sums)), d->n_events, d->n_leaves };
	if (!g.sums)
		return -ENOMEM;
	f->gens[f->n] = g;
	*ret = &f->gens[f->n++];
	return 0;
}

static struct rows_sum *sums_of(struct store_folding *f, struct fold_gen *g, uint32_t event)
{
	if (!g->sums[event]) {
		g->sums[event] = calloc((size_t)g->n_leaves + 1, sizeof(**g->sums));
		f->bytes += g->sums[event] ? (size_t)g->n_leaves * sizeof(**g->sums) : 0;
	}
	return g->sums[event];
}

static int fold_groups(struct store_folding *f, struct fold_gen *g, struct rows_reader *rows)
{
	int more;
	while ((more = rows_next_group(rows)) > 0) {
		/* Other generations may have added events since. */
		if (rows->group.event >= g->n_events || rows->group.stack >= g->n_leaves)
			return -EBADMSG;
		struct rows_sum *sums = sums_of(f, g, rows->group.event);
		if (!sums)
			return -ENOMEM;
		sums[rows->group.stack].samples += rows->group.samples;
		sums[rows->group.stack].value += rows->group.value;
	}
	return more;
}

int store_fold_block(struct store *s, struct store_folding *f, const struct store_block *b, struct err *err)
{
	const struct block_ref *ref = store_ref(b);
	struct block_data d;
	struct rows_reader rows;
	struct dict_gen *gen;
	struct fold_gen *g = NULL;
	int rc = block_read(s, ref, WANT_FOLDED, &d, err);
	if (rc)
		return rc;
	rc = store_gen(s, ref, &gen, err);
	rc = rc ? rc : contents_rows(s, ref, &d, false, &rows, err); /* its limits are within those of the generation */
	if (!rc) {
		rc = find_fold(s, f, gen, &g);
		rc = rc ? rc : fold_groups(f, g, &rows);
		if (rc)
			rc = rc == -EBADMSG ? block_damaged(s, ref, err) : err_sys(err, rc, "cannot read %s", s->dir);
	}
	block_data_fini(&d);
	return rc;
}

static int give_folded(struct store *s, const struct fold_gen *g, uint32_t event, int (*cb)(void *ctx, const struct store_row *row), void *ctx,
		       struct err *err)
{
	const struct rows_sum *sums = g->sums[event];
	struct store_row row = { 0 };
	int rc = dict_gen_event(s, g->gen, event, &row.event);
	if (rc)
		return err_sys(err, rc, "cannot read %s", s->dir);
	for (uint32_t leaf = 0; !rc && leaf < g->n_leaves; leaf++) {
		if (!sums[leaf].samples)
			continue;
		rc = dict_gen_leaf(s, g->gen, leaf, &row.stack);
		if (rc)
			return err_sys(err, rc, "cannot read %s", s->dir);
		row.samples = sums[leaf].samples;
		row.value = sums[leaf].value;
		rc = cb(ctx, &row);
	}
	return rc;
}

int store_fold_rows(struct store *s, const struct store_folding *f, int (*cb)(void *ctx, const struct store_row *row), void *ctx,
		    struct err *err)
{
	int rc = 0;
	for (size_t i = 0; i < f->n; i++)
		for (uint32_t e = 0; !rc && e < f->gens[i].n_events; e++)
			rc = f->gens[i].sums[e] ? give_folded(s, &f->gens[i], e, cb, ctx, err) : 0;
	return rc;
}

void store_folding_fini(struct store_folding *f)
{
	for (size_t i = 0; i < f->n; i++) {
		for (uint32_t e = 0; e < f->gens[i].n_events; e++)
			free(f->gens[i].sums[e]);
		free(f->gens[i].sums);
	}
	free(f->gens);
	*f = (struct store_folding){ 0 };
}

static int read_totals(struct store *s, const struct block_ref *ref, struct totals *ret, struct err *err)
{
	struct block_data d;
	int rc = block_read(s, ref, WANT_TOTALS, &d, err);
	if (rc)
		return rc;
	rc = contents_totals(s, ref, &d, ret, err);
	block_data_fini(&d);
	return rc;
}

int store_block_totals(struct store *s, const struct store_block *b, struct store_totals **ret, struct err *err)
{
	struct totals *t = calloc(1, sizeof(*t));
	int rc = t ? read_totals(s, store_ref(b), t, err) : err_sys(err, -ENOMEM, "cannot read %s", s->dir);
	if (rc)
		free(t);
	else
		*ret = &t->t; /* its first member */
	return rc;
}

void store_totals_free(struct store_totals *t)
{
	if (!t)
		return;
	totals_fini((struct totals *)t);
	free(t);
}

/* ---- windows ---- */

static int by_time(const void *pa, const void *pb)
{
	const struct store_block *a = *(const struct store_block *const *)pa;
	const struct store_block *b = *(const struct store_block *const *)pb;
	if (a->t0_ns != b->t0_ns)
		return a->t0_ns < b->t0_ns ? -1 : 1;
	return (a->seq > b->seq) - (a->seq < b->seq);
}

static int list_windows(struct store *s)
{
	size_t n = 0, cap = 0;
	for (size_t i = 0; i < s->n_segments; i++) {
		struct segment *g = &s->segments[i];
		int rc = g->m.level ? 0 : segment_load(s, g, NULL);
		if (g->m.level || (rc && rc != -ENOMEM))
			continue;
		if (rc || ARRAY_RESERVE(s->windows, cap, n + g->n_refs + 1)) {
			free(s->windows);
			s->windows = NULL;
			return -ENOMEM;
		}
		for (size_t k = 0; k < g->n_refs; k++)
			s->windows[n++] = &g->refs[k];
	}
	if (n)
		qsort(s->windows, n, sizeof(*s->windows), by_time);
	s->n_windows = n;
	return 0;
}

size_t store_n_windows(struct store *s)
{
	if (!s->windows && list_windows(s))
		return 0;
	return s->n_windows;
}

const struct store_window *store_window(struct store *s, size_t i, struct err *err)
{
	if (i >= store_n_windows(s)) {
		err_set(err, -EINVAL, "there is no window %zu", i);
		return NULL;
	}
	const struct block_ref *r = s->windows[i];
	if (!s->window_totals)
		s->window_totals = calloc(s->n_windows, sizeof(*s->window_totals));
	if (!s->window_totals) {
		err_sys(err, -ENOMEM, "cannot read %s", s->dir);
		return NULL;
	}
	if (!s->window_totals[i].t.cpu && read_totals(s, r, &s->window_totals[i], err))
		return NULL;
	s->window = (struct store_window){ r->b.t0_ns, r->b.t1_ns, r->b.boot_ns, r->b.n_rows, s->window_totals[i].t };
	return &s->window;
}

int store_rows(struct store *s, size_t i, int (*cb)(void *ctx, const struct store_row *row), void *ctx, struct err *err)
{
	if (i >= store_n_windows(s))
		return err_set(err, -EINVAL, "there is no window %zu", i);
	return store_block_rows(s, &s->windows[i]->b, NULL, NULL, cb, ctx, err);
}
