/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many blocks without their labels, added up by stack. The dictionaries of one segment after the
 * other are in memory, not those of all: the blocks of a segment are added up by leaf, which stand
 * side by side, and then by the ids that the reader gives.
 */
#include "store/block/prune.h"
#include "store/read/block_data.h"
#include "store/read/contents.h"
#include "store/read/store_int.h"
#include "store/read/symbols.h"

#include "util/array.h"
#include "util/keysums.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIN_STACKS 1024	      /* that a segment may always add */
#define FEW_STACKS (1u << 17) /* that are translated in some 20 ms */

/* By event of the segment: [n_leaves], or NULL. */
struct leaf_sums {
	struct rows_sum **v;
	size_t *n; /* [n_events]: n_leaves each */
	uint32_t n_events, n_leaves;
};

static void leaf_sums_fini(struct leaf_sums *l)
{
	for (uint32_t e = 0; l->v && e < l->n_events; e++)
		free(l->v[e]);
	free(l->v);
	free(l->n);
}

int store_fold_block(struct store *s, struct store_folding *f, const struct store_block *b,
		     struct err *err)
{
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

static int add_groups(struct leaf_sums *l, struct rows_reader *rows)
{
	int more;
	while ((more = rows_next_group(rows)) > 0) {
		struct rows_sum **v = &l->v[rows->group.event];
		if (!*v && !(*v = calloc((size_t)l->n_leaves + 1, sizeof(**v))))
			return -ENOMEM;
		(*v)[rows->group.stack].samples += rows->group.samples;
		(*v)[rows->group.stack].value += rows->group.value;
	}
	return more;
}

static int add_block(struct store *s, struct leaf_sums *l, const struct block_ref *ref,
		     struct err *err)
{
	struct block_data d;
	struct rows_reader rows;
	int rc = block_read(s, ref, WANT_FOLDED, &d, err);
	if (rc)
		return rc;
	rc = contents_rows(s, ref, &d, SYMBOLS_NAMES, &rows, err);
	if (!rc) { /* its limits are within those of the segment */
		rc = add_groups(l, &rows);
		if (rc)
			rc = rc == -EBADMSG ? block_damaged(s, ref, err)
					    : err_sys(err, rc, "cannot read %s", s->dir);
	}
	block_data_fini(&d);
	return rc;
}

/* ---- sums by the reader's stacks ---- */

#define BELOW (1u << 31) /* of what is below a stack and was not kept; ids of stacks are less */

/* Few stacks have samples of an event, and there may be many events: so sums are sparse. */
static uint64_t sum_key(uint32_t event, uint32_t at)
{
	return (uint64_t)event << 32 | at;
}

static int add_sum(struct keysums *to, uint32_t event, uint32_t at, const struct rows_sum *sum)
{
	return keysums_add(to, sum_key(event, at), sum->samples, sum->value);
}

static int leaf_sums_init(struct leaf_sums *l, const struct dicts *d)
{
	*l = (struct leaf_sums){ calloc((size_t)d->n_events + 1, sizeof(*l->v)),
				 calloc((size_t)d->n_events + 1, sizeof(*l->n)), d->n_events,
				 d->n_leaves };
	for (uint32_t e = 0; l->n && e < d->n_events; e++)
		l->n[e] = d->n_leaves;
	return l->v && l->n ? 0 : -ENOMEM;
}

/*
 * All stacks are summed where there is room for them. Else the stacks that matter are chosen from
 * one segment after the other, and then these are summed: that needs a second reading, but knows by
 * then which stacks of a segment belong to a large one of another.
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
	struct idset chosen; /* of the reader's stacks, some of which are from other questions */
	size_t left;	     /* segments to come, with this one */
	uint32_t first;	     /* of the reader's stacks that this question adds */
	double part;	     /* of what may be missed of a stack, that of this segment */
	/* by event of the reader: samples of the segments so far, without idle CPUs */
	double *seen;
};

/*
 * Count the stacks that still fit the reader's own dictionaries, which may take half of the limit.
 * Where small stacks may be left out, a question adds a few of all and then chooses: to choose
 * costs less than to translate what is left out then. What it added makes the next question
 * cheaper.
 */
static size_t room_for(const struct store *s, const struct folding *f)
{
	bool few = f->least && f->mode == SUM_ALL;
	size_t most = symbols_limit(s) / (few ? 3 : 2), has = dicts_bytes(&s->sym);
	size_t room = (most > has ? most - has : 0) / STACK_BYTES,
	       added = s->sym.n_stacks - f->first;
	if (few && room > FEW_STACKS - (added < FEW_STACKS ? added : FEW_STACKS))
		room = FEW_STACKS - (added < FEW_STACKS ? added : FEW_STACKS);
	return room;
}

/* Add the sums of an event. map: as of map_stacks; NULL: all stacks are kept. */
static int add_leaves(struct keysums *to, struct translation *t, const struct leaf_sums *l,
		      const uint32_t *map, uint32_t e)
{
	uint32_t event, at;
	int rc = translate_event(t, e, &event);
	for (uint32_t leaf = 0; !rc && leaf < l->n_leaves; leaf++) {
		const struct rows_sum *from = &l->v[e][leaf];
		if (!from->samples)
			continue;
		if (map)
			at = map[t->from->leaves[leaf]];
		else
			rc = translate_leaf_stack(t, leaf, &at);
		if (!rc)
			rc = add_sum(to, event, at, from);
	}
	return rc;
}

/* ---- all stacks of a segment ---- */

/* Whether what the reader lacks of the stacks fits. */
static int all_fit(const struct store *s, const struct folding *f, const struct translation *t,
		   const struct leaf_sums *l, bool *ret)
{
	size_t room = room_for(s, f), n = 0;
	struct idset met = { 0 };
	*ret = true;
	if (t->from->n_stacks <= room)
		return 0;
	int rc = idset_init(&met, t->from->n_stacks);
	for (uint32_t e = 0; !rc && e < l->n_events; e++)
		for (uint32_t leaf = 0; l->v[e] && leaf < l->n_leaves; leaf++)
			for (uint32_t id = l->v[e][leaf].samples ? t->from->leaves[leaf] : 0;
			     id && !translate_knows_stack(t, id) && !idset_has(&met, id);
			     id = t->from->stacks[id].parent) {
				idset_add(&met, id);
				n++;
			}
	idset_fini(&met);
	*ret = n <= room;
	return rc;
}

/* ---- those that are kept ---- */

/*
 * map: by stack of the segment that is used, the reader's, without source lines where the question
 * leaves them out. keep: the stacks to be chosen; NULL: those that were.
 */
static int map_stacks(struct store *s, struct folding *f, struct translation *t,
		      const struct prune_sums *of, const struct idset *used,
		      const struct idset *keep, uint32_t *map)
{
	const struct stack_node *nodes = of->d->stacks;
	int rc = 0;
	map[0] = 0;
	for (uint32_t id = idset_next(used, 1); !rc && id != IDSET_NONE;
	     id = idset_next(used, id + 1)) {
		uint32_t at = map[nodes[id].parent], frame, found;
		if (of->same && of->same[id] != id) {
			map[id] = map[of->same[id]];
			continue;
		}
		map[id] = at | BELOW;
		if (at & BELOW || (keep && !idset_has(keep, id)))
			continue;
		rc = translate_frame(t, nodes[id].frame, &frame);
		if (rc)
			break;
		if (!keep) {
			found = dicts_find_stack(&s->sym, at, frame);
			map[id] = found && idset_has(&f->chosen, found) ? found : map[id];
			continue;
		}
		rc = dicts_add_stack(&s->sym, at, frame, &map[id]);
		if (!rc)
			rc = idset_reserve(&f->chosen, s->sym.stacks_cap);
		if (!rc)
			idset_add(&f->chosen, map[id]);
	}
	return rc;
}

static double busy_samples(const struct dicts *d, const struct rows_sum *v, size_t n)
{
	double sum = 0;
	for (size_t i = 0; i < n; i++)
		if (v[i].samples && !dicts_is_idle(d, d->leaves[i]))
			sum += (double)v[i].samples;
	return sum;
}

/*
 * The share of a segment's samples below which a stack need not be chosen here. The parts of all
 * segments are 1 in sum: a stack with 1/least of all samples has in one of them that part of it.
 * All samples are at least those that were seen so far.
 */
static int least_share(struct folding *f, struct translation *t, const struct leaf_sums *l,
		       double *ret)
{
	double ratio = INFINITY;
	*ret = 0;
	for (uint32_t e = 0; f->least && e < l->n_events; e++) {
		uint32_t event;
		double here = l->v[e] ? busy_samples(t->from, l->v[e], l->n[e]) : 0;
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

/* Choose the stacks of a segment, or sum those that were chosen. */
static int take_chosen(struct store *s, struct folding *f, struct translation *t,
		       const uint32_t *same, const struct leaf_sums *l)
{
	const struct prune_sums of = { t->from, same, l->v, l->n, l->n_events };
	struct idset used = { 0 }, keep = { 0 };
	bool choose = f->mode == CHOOSE;
	uint32_t *map = malloc(t->from->n_stacks * sizeof(*map));
	double least = 0;
	int rc = map ? prune_used(&of, &used) : -ENOMEM;
	if (!rc && choose)
		rc = least_share(f, t, l, &least);
	if (!rc && choose)
		rc = prune_choose(&of, &used, room_for(s, f) / f->left + MIN_STACKS, least, &keep);
	if (!rc)
		rc = map_stacks(s, f, t, &of, &used, choose ? &keep : NULL, map);
	for (uint32_t e = 0; !rc && !choose && e < l->n_events; e++)
		rc = l->v[e] ? add_leaves(&f->sums, t, l, map, e) : 0;
	idset_fini(&used);
	idset_fini(&keep);
	free(map);
	return rc;
}

/* 1: there is no room for all. */
static int take_segment(struct store *s, struct folding *f, struct translation *t,
			const uint32_t *same, const struct leaf_sums *l)
{
	bool fit;
	if (f->mode != SUM_ALL)
		return take_chosen(s, f, t, same, l);
	int rc = all_fit(s, f, t, l, &fit);
	for (uint32_t e = 0; !rc && fit && e < l->n_events; e++)
		rc = l->v[e] ? add_leaves(&f->sums, t, l, NULL, e) : 0;
	return rc ? rc : !fit;
}

/* The blocks of one segment. As take_segment. */
static int fold_segment(struct store *s, const struct block_ref *const *refs, size_t n,
			struct folding *f, struct err *err)
{
	struct translation *t;
	struct symbols *y = NULL;
	struct leaf_sums l = { 0 };
	struct store *of = store_of(s, refs[0]);
	int rc = f->least ? store_functions(of, refs[0], &y, err)
			  : store_translation(of, refs[0], SYMBOLS_NAMES, &t, err);
	if (rc)
		return rc;
	t = y ? &y->functions : t;
	if (leaf_sums_init(&l, t->from))
		rc = err_sys(err, -ENOMEM, "cannot read %s", s->dir);
	for (size_t i = 0; !rc && i < n; i++)
		rc = add_block(of, &l, refs[i], err);
	if (!rc && (rc = take_segment(s, f, t, y ? y->same : NULL, &l)) < 0)
		err_sys(err, rc, "cannot read %s", s->dir);
	leaf_sums_fini(&l);
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
	for (size_t from = 0, to; !rc && from < n; from = to, f->left--) {
		to = segment_end(refs, n, from);
		f->part = weight(refs + from, to - from) / sum;
		rc = fold_segment(s, refs + from, to - from, f, err);
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
	int rc = fold_segments(s, refs, n, f, err);
	if (rc <= 0)
		return rc;
	keysums_fini(&f->sums);
	keysums_init(&f->sums, SIZE_MAX);
	f->mode = CHOOSE;
	rc = fold_segments(s, refs, n, f, err);
	f->mode = SUM_CHOSEN;
	if (!rc && (rc = idset_reserve(&f->chosen, s->sym.n_stacks)))
		err_sys(err, rc, "cannot read %s", s->dir);
	return rc ? rc : fold_segments(s, refs, n, f, err);
}

int store_fold_rows(struct store *s, const struct store_folding *of,
		    int (*cb)(void *ctx, const struct store_row *row), void *ctx, bool *ret_pruned,
		    struct err *err)
{
	const struct block_ref **refs = malloc((of->n + 1) * sizeof(*refs));
	struct folding f = { .least = of->least, .first = s->sym.n_stacks };
	keysums_init(&f.sums, SIZE_MAX);
	f.seen = calloc((size_t)s->sym.n_events + 1, sizeof(*f.seen));
	int rc = refs && f.seen ? 0 : err_sys(err, -ENOMEM, "cannot read %s", s->dir);
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
	keysums_fini(&f.sums);
	free(f.seen);
	idset_fini(&f.chosen);
	free(refs);
	return rc;
}
