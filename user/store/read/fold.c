/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many blocks without their labels, added up by stack. The dictionaries of one segment after the
 * other are in memory, not those of all. The blocks of a segment are added up by leaf, which stand
 * side by side, and then by the ids that the reader gives.
 */
#include "store/read/block_data.h"
#include "store/read/chosen.h"
#include "store/read/contents.h"
#include "store/read/store_int.h"
#include "store/read/symbols.h"

#include "util/array.h"
#include "util/keysums.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIN_STACKS 1024 /* that a segment may always add */
#define KEPT_PART 8	/* of the limit, for sums that are kept for a second look */

/* The sums of a segment. All zero is empty. */
struct segment_sums {
	struct leaf_sums *v; /* [n_events], by event of the segment */
	uint32_t n_events, n_leaves;
	struct prune_nodes used; /* where they were asked for */
};

static void segment_sums_fini(struct segment_sums *l)
{
	for (uint32_t e = 0; l->v && e < l->n_events; e++) {
		free(l->v[e].v);
		free(l->v[e].leaves);
	}
	free(l->v);
	prune_nodes_fini(&l->used);
	*l = (struct segment_sums){ 0 };
}

int store_fold_block(struct store *s, struct store_folding *f, const struct store_block *b,
		     struct err *err)
{
	int rc = store_check_scope(s, err);
	if (rc)
		return rc;
	if (ARRAY_RESERVE(f->blocks, f->cap, f->n + 1))
		return err_sys(err, -ENOMEM, "cannot read %s", s->dir);
	f->blocks[f->n++] = b;
	return 0;
}

void store_folding_fini(struct store_folding *f)
{
	free(f->blocks);
	*f = (struct store_folding){ 0 };
}

/* Those of the highest level first: they have the most samples. */
static int by_segment(const void *pa, const void *pb)
{
	const struct block_ref *a = *(const struct block_ref *const *)pa,
			       *b = *(const struct block_ref *const *)pb;
	if (a->b.level != b->b.level)
		return a->b.level > b->b.level ? -1 : 1;
	if (a->part != b->part)
		return a->part < b->part ? -1 : 1;
	if (a->segment != b->segment)
		return a->segment < b->segment ? -1 : 1;
	return (a->b.seq > b->b.seq) - (a->b.seq < b->b.seq);
}

/* Room for one more leaf. */
static int reserve_leaf(const struct segment_sums *l, struct leaf_sums *e)
{
	if (!e->v && !(e->v = calloc(l->n_leaves, sizeof(*e->v))))
		return -ENOMEM;
	return ARRAY_RESERVE(e->leaves, e->cap, (size_t)e->n + 1);
}

/* events: of the reader, which are wanted; NULL: all. */
static int add_groups(struct segment_sums *l, struct translation *t, const bool *events,
		      struct rows_reader *rows)
{
	int more;
	while ((more = rows_next_group(rows)) > 0) {
		uint32_t event;
		int rc = translate_event(t, rows->group.event, &event);
		if (rc)
			return rc;
		if (events && !events[event])
			continue;
		struct leaf_sums *e = &l->v[rows->group.event];
		uint32_t leaf = rows->group.stack;
		if (reserve_leaf(l, e))
			return -ENOMEM;
		if (!e->v[leaf].samples)
			e->leaves[e->n++] = leaf;
		e->v[leaf].samples += rows->group.samples;
		e->v[leaf].value += rows->group.value;
	}
	return more;
}

static int add_block(struct store *s, struct segment_sums *l, struct translation *t,
		     const bool *events, const struct block_ref *ref, struct err *err)
{
	struct block_data d;
	struct rows_reader rows;
	int rc = block_read(s, ref, WANT_FOLDED, &d, err);
	if (rc)
		return rc;
	rc = contents_rows(s, ref, &d, SYMBOLS_NAMES, &rows, err);
	if (!rc) { /* its limits are within those of the segment */
		rc = add_groups(l, t, events, &rows);
		rc = block_failed(s, ref, rc, err);
	}
	block_data_fini(&d);
	return rc;
}

/* ---- sums by the reader's stacks ---- */

/* Few stacks have samples of an event, and there may be many events: so sums are sparse. */
static uint64_t sum_key(uint32_t event, uint32_t at)
{
	return (uint64_t)event << 32 | at;
}

static int add_sum(struct keysums *to, uint32_t event, uint32_t at, const struct rows_sum *sum)
{
	return keysums_add(to, sum_key(event, at), sum->samples, sum->value);
}

/*
 * All stacks are summed where they are wanted and there is room for them. Else the stacks that
 * matter are chosen from one segment after the other, and then these are summed. By then it is
 * known which stacks of a segment belong to a large one of another.
 */
enum mode {
	SUM_ALL,
	CHOOSE,
	SUM_CHOSEN,
};

/* What the folding of all segments is at. */
struct folding {
	enum mode mode;
	struct keysums sums; /* by sum_key(), of stacks of the reader */
	uint32_t least;	     /* of the question, 0: all stacks are wanted */
	const bool *events;  /* of the question */
	struct chosen chosen;
	size_t left; /* segments to come, with this one */
	double part; /* of what may be missed of a stack, that of this segment */
	/* by event of the reader: samples of the segments so far, without idle CPUs */
	double *seen;
	/* [n], by segment: sums kept from choosing, so that summing need not read again */
	struct segment_sums *kept;
	size_t n, kept_bytes;
};

/* Count the stacks that still fit the reader's own dictionaries, half of the limit. */
static size_t room_for(const struct store *s)
{
	size_t most = symbols_limit(s) / 2, has = dicts_bytes(&s->sym);
	return (most > has ? most - has : 0) / STACK_BYTES;
}

/* Add the sums of an event. map: by node of the shape, as of chosen_map; NULL: all are kept. */
static int add_leaves(struct keysums *to, struct translation *t, const struct shape *shape,
		      const struct segment_sums *l, const uint32_t *map, uint32_t e)
{
	uint32_t event, at;
	int rc = translate_event(t, e, &event);
	for (uint32_t i = 0; !rc && i < l->v[e].n; i++) {
		uint32_t leaf = l->v[e].leaves[i];
		if (map)
			at = map[shape->of_leaf[leaf]];
		else
			rc = translate_leaf_stack(t, leaf, &at);
		if (!rc)
			rc = add_sum(to, event, at, &l->v[e].v[leaf]);
	}
	return rc;
}

/* ---- all stacks of a segment ---- */

/* Whether what the reader lacks of the stacks fits. */
static int all_fit(const struct store *s, const struct translation *t, const struct segment_sums *l,
		   bool *ret)
{
	size_t room = room_for(s), n = 0;
	struct idset met = { 0 };
	*ret = true;
	if (t->from->n_stacks <= room)
		return 0;
	int rc = idset_init(&met, t->from->n_stacks);
	for (uint32_t e = 0; !rc && e < l->n_events; e++)
		for (uint32_t i = 0; i < l->v[e].n; i++)
			for (uint32_t id = t->from->leaves[l->v[e].leaves[i]];
			     id && !translate_knows_stack(t, id) && !idset_has(&met, id);
			     id = t->from->stacks[id].parent) {
				idset_add(&met, id);
				n++;
			}
	idset_fini(&met);
	*ret = n <= room;
	return rc;
}

/* 1: there is no room for all. */
static int take_all(struct store *s, struct folding *f, struct translation *t,
		    const struct segment_sums *l)
{
	bool fit;
	int rc = all_fit(s, t, l, &fit);
	for (uint32_t e = 0; !rc && fit && e < l->n_events; e++)
		rc = l->v[e].n ? add_leaves(&f->sums, t, NULL, l, NULL, e) : 0;
	return rc ? rc : !fit;
}

/* ---- those that are chosen ---- */

static double busy_samples(const struct prune_sums *of, const struct leaf_sums *event)
{
	double sum = 0;
	for (uint32_t i = 0; i < event->n; i++)
		if (!shape_is_idle(of->shape, of->d, of->shape->of_leaf[event->leaves[i]]))
			sum += (double)event->v[event->leaves[i]].samples;
	return sum;
}

/*
 * The share of a segment's samples below which a stack need not be chosen here. The parts of all
 * segments are 1 in sum: a stack with 1/least of all samples has in one of them that part of it.
 * All samples are at least those that were seen so far.
 */
static int least_share(struct folding *f, struct translation *t, const struct prune_sums *of,
		       double *ret)
{
	double ratio = INFINITY;
	*ret = 0;
	for (uint32_t e = 0; f->least && e < of->n_events; e++) {
		uint32_t event;
		double here = busy_samples(of, &of->events[e]);
		if (here <= 0)
			continue;
		int rc = translate_event(t, e, &event);
		if (rc)
			return rc;
		f->seen[event] += here;
		ratio = fmin(ratio, f->seen[event] / here);
	}
	if (f->least && isfinite(ratio))
		*ret = ratio * f->part / f->least;
	return 0;
}

static int choose(struct store *s, struct folding *f, struct shaped *y, const struct prune_sums *of,
		  const struct prune_nodes *used)
{
	double least;
	int rc = least_share(f, &y->to, of, &least);
	return rc ? rc
		  : chosen_add(&f->chosen, y, of, used, room_for(s) / f->left + MIN_STACKS, least);
}

static int sum_chosen(struct folding *f, struct shaped *y, const struct segment_sums *l)
{
	uint32_t *map = NULL;
	int rc = chosen_map(&f->chosen, y, &l->used, &map);
	for (uint32_t e = 0; !rc && e < l->n_events; e++)
		rc = l->v[e].n ? add_leaves(&f->sums, &y->to, &y->shape, l, map, e) : 0;
	free(map);
	return rc;
}

static int take_chosen(struct store *s, struct folding *f, struct shaped *y, struct segment_sums *l)
{
	const struct prune_sums of = { y->to.from, &y->shape, l->v, l->n_events };
	int rc = l->used.v ? 0 : prune_used(&of, &l->used);
	if (rc)
		return rc;
	return f->mode == CHOOSE ? choose(s, f, y, &of, &l->used) : sum_chosen(f, y, l);
}

/* ---- segments ---- */

/* What the sums of a segment take in memory. */
static size_t sums_bytes(const struct segment_sums *l)
{
	size_t n = l->used.n * sizeof(*l->used.v);
	for (uint32_t e = 0; e < l->n_events; e++)
		n += (l->v[e].v ? l->n_leaves * sizeof(*l->v->v) : 0) +
		     l->v[e].cap * sizeof(*l->v->leaves);
	return n;
}

static int sum_blocks(struct store *s, const struct block_ref *const *refs, size_t n,
		      struct translation *t, const bool *events, struct segment_sums *l,
		      struct err *err)
{
	const struct dicts *d = t->from;
	*l = (struct segment_sums){
		calloc(d->n_events, sizeof(*l->v)), d->n_events, d->n_leaves, { 0 }
	};
	int rc = l->v ? 0 : err_sys(err, -ENOMEM, "cannot read %s", s->dir);
	for (size_t i = 0; !rc && i < n; i++)
		rc = add_block(s, l, t, events, refs[i], err);
	return rc;
}

/* Keep the sums from choosing where there is room. */
static void keep_or_free(const struct store *s, struct folding *f, size_t i, struct segment_sums *l)
{
	size_t bytes = sums_bytes(l);
	if (f->mode == CHOOSE && bytes < symbols_limit(s) / KEPT_PART - f->kept_bytes) {
		f->kept_bytes += bytes;
		f->kept[i] = *l;
	} else {
		segment_sums_fini(l);
	}
}

/* The blocks of the i-th segment. 1: there is no room for all stacks. */
static int fold_segment(struct store *s, const struct block_ref *const *refs, size_t n,
			struct folding *f, size_t i, struct err *err)
{
	struct segment_sums now = f->kept[i];
	struct store *of = store_of(s, refs[0]);
	struct translation *t;
	struct shaped *y = NULL;
	int rc = f->mode == SUM_ALL ? store_translation(of, refs[0], SYMBOLS_NAMES, &t, err)
				    : store_shaped(of, refs[0], f->least > 0, &y, err);
	if (rc)
		return rc;
	t = y ? &y->to : t;
	f->kept[i] = (struct segment_sums){ 0 };
	if (!now.v)
		rc = sum_blocks(of, refs, n, t, f->events, &now, err);
	if (!rc && (rc = y ? take_chosen(s, f, y, &now) : take_all(s, f, t, &now)) < 0)
		block_failed(of, refs[0], rc, err);
	if (rc < 0)
		segment_sums_fini(&now);
	else
		keep_or_free(s, f, i, &now);
	return rc;
}

static size_t segment_end(const struct block_ref *const *refs, size_t n, size_t from)
{
	size_t to = from;
	while (to < n && refs[to]->segment == refs[from]->segment &&
	       refs[to]->part == refs[from]->part)
		to++;
	return to;
}

/*
 * Weigh a segment by the root of its number of windows: where there are more samples, more of a
 * stack's may be missed.
 */
static double weight(const struct block_ref *const *refs, size_t n)
{
	double windows = 0;
	for (size_t i = 0; i < n; i++)
		windows += refs[i]->b.n_windows;
	return sqrt(windows);
}

static int fold_segments(struct store *s, const struct block_ref *const *refs, size_t n,
			 struct folding *f, struct err *err)
{
	int rc = 0;
	double sum = 0;
	f->left = 0;
	for (size_t from = 0; from < n; from = segment_end(refs, n, from), f->left++)
		sum += weight(refs + from, segment_end(refs, n, from) - from);
	for (size_t from = 0, to, i = 0; !rc && from < n; from = to, f->left--, i++) {
		to = segment_end(refs, n, from);
		f->part = weight(refs + from, to - from) / sum;
		rc = fold_segment(s, refs + from, to - from, f, i, err);
	}
	return rc;
}

/* ---- the sums of a question ---- */

static uint32_t event_of(const struct keysum *sum)
{
	return (uint32_t)((sum->key - 1) >> 32);
}

static uint32_t at_of(const struct keysum *sum)
{
	return (uint32_t)(sum->key - 1);
}

/*
 * Return each stack's sum of an event with those of all stacks below it. Idle CPUs are not added to
 * the root.
 */
static struct rows_sum *totals_of(const struct dicts *d, const struct keysum *v, size_t n,
				  uint32_t event)
{
	struct rows_sum *total = calloc(d->n_stacks, sizeof(*total));
	for (size_t i = 0; total && i < n; i++)
		if (event_of(&v[i]) == event) {
			total[at_of(&v[i]) & ~BELOW].samples += v[i].samples;
			total[at_of(&v[i]) & ~BELOW].value += v[i].value;
		}
	for (uint32_t id = total ? d->n_stacks : 0; id-- > 1;)
		if (!dicts_is_idle(d, id)) {
			total[d->stacks[id].parent].samples += total[id].samples;
			total[d->stacks[id].parent].value += total[id].value;
		}
	return total;
}

/*
 * Add the sums of an event to `to`, those of stacks with too few samples to the nearest with
 * enough.
 */
static int keep_large(const struct dicts *d, const struct keysum *v, size_t n, uint32_t event,
		      uint32_t least, struct keysums *to)
{
	struct rows_sum *total = totals_of(d, v, n, event);
	uint32_t *near = malloc(d->n_stacks * sizeof(*near));
	int rc = total && near ? 0 : -ENOMEM;
	for (uint32_t id = 0; !rc && id < d->n_stacks; id++) {
		bool large = total[id].samples >= total[0].samples / least + 1 ||
			     total[id].value >= total[0].value / least + 1;
		near[id] = !id || large || dicts_is_idle(d, id) ? id : near[d->stacks[id].parent];
	}
	for (size_t i = 0; !rc && i < n; i++) {
		uint32_t id = at_of(&v[i]) & ~BELOW;
		const struct rows_sum sum = { v[i].samples, v[i].value };
		if (event_of(&v[i]) == event)
			rc = add_sum(to, event, near[id] == id ? at_of(&v[i]) : near[id] | BELOW,
				     &sum);
	}
	free(total);
	free(near);
	return rc;
}

/* Add the sums of small stacks to those of large ones. */
static int leave_out_small(const struct store *s, struct folding *f)
{
	struct keysums all = f->sums;
	size_t n = keysums_pack(&all);
	uint32_t n_events = 0;
	int rc = 0;
	keysums_init(&f->sums, SIZE_MAX);
	for (size_t i = 0; i < n; i++)
		n_events = event_of(&all.v[i]) >= n_events ? event_of(&all.v[i]) + 1 : n_events;
	for (uint32_t e = 0; !rc && e < n_events; e++)
		rc = keep_large(&s->sym, all.v, n, e, f->least, &f->sums);
	keysums_fini(&all);
	return rc;
}

static int give(struct keysums *sums, int (*cb)(void *ctx, const struct store_row *row), void *ctx)
{
	int rc = 0;
	for (size_t i = 0, n = keysums_pack(sums); !rc && i < n; i++) {
		const struct keysum *sum = &sums->v[i];
		uint32_t at = at_of(sum);
		const struct store_row row = { at & BELOW ? STORE_OTHER : 0, at & ~BELOW,
					       event_of(sum), sum->samples, sum->value };
		rc = cb(ctx, &row);
	}
	return rc;
}

static int fold(struct store *s, const struct block_ref *const *refs, size_t n, struct folding *f,
		struct err *err)
{
	int rc = f->least ? 1 : fold_segments(s, refs, n, f, err);
	if (rc <= 0)
		return rc;
	keysums_fini(&f->sums);
	keysums_init(&f->sums, SIZE_MAX);
	f->mode = CHOOSE;
	rc = fold_segments(s, refs, n, f, err);
	f->mode = SUM_CHOSEN;
	return rc ? rc : fold_segments(s, refs, n, f, err);
}

int store_fold_rows(struct store *s, const struct store_folding *of,
		    int (*cb)(void *ctx, const struct store_row *row), void *ctx, bool *ret_pruned,
		    struct err *err)
{
	const struct block_ref **refs = malloc(of->n * sizeof(*refs));
	struct folding f = { .least = of->least, .events = of->events, .n = of->n };
	keysums_init(&f.sums, SIZE_MAX);
	f.seen = calloc(s->sym.n_events, sizeof(*f.seen));
	f.kept = calloc(of->n, sizeof(*f.kept));
	int rc = refs && f.seen && f.kept ? 0 : err_sys(err, -ENOMEM, "cannot read %s", s->dir);
	for (size_t i = 0; !rc && i < of->n; i++)
		refs[i] = store_ref(of->blocks[i]);
	if (!rc) {
		qsort(refs, of->n, sizeof(*refs), by_segment);
		rc = fold(s, refs, of->n, &f, err);
	}
	if (!rc && f.least && (rc = leave_out_small(s, &f)))
		err_sys(err, rc, "cannot read %s", s->dir);
	*ret_pruned = f.mode == SUM_CHOSEN && !f.least;
	rc = rc ? rc : give(&f.sums, cb, ctx);
	for (size_t i = 0; f.kept && i < f.n; i++)
		segment_sums_fini(&f.kept[i]);
	free(f.kept);
	keysums_fini(&f.sums);
	free(f.seen);
	chosen_fini(&f.chosen);
	free(refs);
	return rc;
}
