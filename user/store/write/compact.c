/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When parents are made. When a slot has ended and the grace is over, all blocks of the level below
 * that begin in it and have no parent become one block (merge.c). What comes later for the same
 * slot becomes another parent beside it. A window's commit does only a piece of that work, so that
 * it takes no longer where a week is summed up.
 */
#include "store/write/merge.h"

#include "store/writer.h"
#include "util/array.h"

#include <errno.h>
#include <stdio.h>

#define RETRY_NS (60 * SECOND_NS)

/*
 * Work of a commit, counted in rows of children. All levels together read a row of a window some
 * three times. Four times the window's rows, and some more, keep up. That is too little where a
 * window is longer than a slot, or where few rows have the same key. So each overdue block, whose
 * parent should have been written a slot ago, allows as much work again.
 */
#define WORK_PER_COMMIT (1u << 14)
#define WORK_PER_ROW 4
#define OVERDUE_MOST 7
#define STACKS_PER_ROW 32 /* of a dictionary that are read in the time of a row */

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

/*
 * Its end is over; or it begins so late that a wrong clock must have written its blocks, which
 * would wait for years.
 */
static bool slot_is_due(uint8_t level, int64_t slot, int64_t before)
{
	int64_t begin = slot * levels[level].span_ns;
	return begin + levels[level].span_ns <= before || begin - DAY_NS > before;
}

/*
 * A parent of what is left would seem to hold what was set aside, too: its windows lie among them.
 */
static bool slot_is_aside(const struct store_writer *w, uint8_t level, int64_t slot)
{
	for (uint8_t k = 0; k < level; k++)
		for (size_t i = 0; i < w->pending[k].n; i++)
			if (w->pending[k].v[i].aside &&
			    slot_of(level, w->pending[k].v[i].b.t0_ns) == slot)
				return true;
	return false;
}

/*
 * The blocks of the first slot of this level that is due: *ret_n of them from *ret_from on; 0:
 * none.
 */
static void find_due(struct store_writer *w, uint8_t level, int64_t before, size_t *ret_from,
		     size_t *ret_n)
{
	struct pending *p = &w->pending[level - 1];
	size_t to;
	*ret_n = 0;
	if (p->n)
		qsort_r(p->v, p->n, sizeof(*p->v), by_slot, &level);
	for (size_t from = 0; from < p->n; from = to) {
		int64_t slot = slot_of(level, p->v[from].b.t0_ns);
		for (to = from; to < p->n && slot_of(level, p->v[to].b.t0_ns) == slot; to++)
			;
		if (!slot_is_due(level, slot, before) ||
		    (w->any_aside && slot_is_aside(w, level, slot)))
			continue;
		*ret_from = from;
		*ret_n = to - from;
		return;
	}
}

static void spend(size_t *budget, size_t n)
{
	*budget -= n < *budget ? n : *budget;
}

static int finish(struct store_writer *w, uint8_t level, size_t *budget, struct err *err)
{
	struct merge *m = w->merges[level];
	struct pending *below = &w->pending[level - 1];
	struct block_ref parent;
	size_t keep = 0;
	int rc = merge_finish(m, &parent, err);
	for (size_t i = 0; !rc && i < below->n; i++)
		if (!merge_has(m, &below->v[i]))
			below->v[keep++] = below->v[i];
	below->n = rc ? below->n : keep;
	spend(budget, rc ? 0 : parent.b.n_folded);
	/* There is room: what became of so many is one. */
	if (!rc && level < N_LEVELS - 1)
		w->pending[level].v[w->pending[level].n++] = parent;
	merge_free(m);
	w->merges[level] = NULL;
	return rc;
}

static void abandon(struct store_writer *w, int level)
{
	if (!w->merges[level])
		return;
	merge_free(w->merges[level]);
	w->merges[level] = NULL;
	writer_drop_parent(w, (uint8_t)level);
}

/*
 * A slot that cannot be merged must not hold up all others: its blocks stay without a parent,
 * questions read them as they are. The next writer tries again.
 */
static void set_aside(struct store_writer *w, uint8_t level, const struct err *err)
{
	struct pending *below = &w->pending[level - 1];
	for (size_t i = 0; i < below->n; i++)
		below->v[i].aside |= slot_of(level, below->v[i].b.t0_ns) == w->merge_slot[level];
	w->any_aside = true;
	abandon(w, level);
	w->state.parents_failed++;
	if (err)
		snprintf(w->state.last_error, sizeof(w->state.last_error), "%s", err->text);
}

/* All slots of this level that are due, as far as the budget goes. */
static int compact_level(struct store_writer *w, uint8_t level, int64_t before, size_t *budget,
			 struct err *err)
{
	int rc = 0;
	while (!rc && *budget) {
		size_t from, n;
		bool done = false;
		if (!w->merges[level]) {
			find_due(w, level, before, &from, &n);
			if (!n)
				return 0;
			/* So that nothing can fail behind the write. */
			if (level < N_LEVELS - 1 && pending_reserve(&w->pending[level]))
				return err_sys(err, -ENOMEM, "cannot compact %s", w->s.dir);
			w->merge_slot[level] =
				slot_of(level, w->pending[level - 1].v[from].b.t0_ns);
			bool reads = !w->out[level].loaded;
			rc = merge_begin(&w->merges[level], w, level,
					 w->pending[level - 1].v + from, n, err);
			if (!rc && reads)
				spend(budget,
				      merge_dicts(w->merges[level])->n_stacks / STACKS_PER_ROW);
		}
		if (!rc)
			rc = merge_step(w->merges[level], budget, &done, err);
		if (!rc && done && *budget)
			rc = finish(w, level, budget, err);
		if (rc == -E2BIG || rc == -EBADMSG) {
			set_aside(w, level, err);
			rc = 0;
		}
	}
	return rc;
}

void compact_abandon(struct store_writer *w)
{
	for (int level = 1; level < N_LEVELS; level++)
		abandon(w, level);
}

static bool at_rest(const struct store_writer *w)
{
	for (int level = 1; level < N_LEVELS; level++)
		if (w->merges[level])
			return false;
	return true;
}

static int compact_before(struct store_writer *w, int64_t now_ns, int64_t before, size_t budget,
			  struct err *err)
{
	int rc = 0;
	if (w->compact_after_ns > now_ns && w->compact_after_ns - now_ns <= RETRY_NS)
		return 0; /* it failed a moment ago */
	for (uint8_t level = 1; !rc && level < N_LEVELS; level++)
		rc = compact_level(w, level, before, &budget, err);
	if (!rc)
		rc = postings_due(w, before, err);
	if (rc)
		compact_abandon(w);
	if (at_rest(w))
		writer_drop_read(w);
	w->compact_after_ns = rc ? now_ns + RETRY_NS : 0;
	return rc;
}

/* Blocks whose slot of the next level ended as long ago as it is long; at most OVERDUE_MOST. */
static size_t count_overdue(const struct store_writer *w, int64_t before)
{
	size_t n = 0;
	for (uint8_t level = 1; level < N_LEVELS; level++) {
		const struct pending *p = &w->pending[level - 1];
		for (size_t i = 0; i < p->n && n < OVERDUE_MOST; i++) {
			int64_t span = levels[level].span_ns;
			int64_t end = (slot_of(level, p->v[i].b.t0_ns) + 1) * span;
			n += !p->v[i].aside && end + span <= before;
		}
	}
	return n;
}

int compact_due(struct store_writer *w, int64_t now_ns, size_t rows, struct err *err)
{
	int64_t before = now_ns - w->opt.grace_ns;
	size_t work = WORK_PER_COMMIT + WORK_PER_ROW * rows;
	return compact_before(w, now_ns, before, work * (1 + count_overdue(w, before)), err);
}

int store_compact(struct store_writer *w, struct err *err)
{
	int64_t last = INT64_MIN;
	uint64_t failed = w->state.parents_failed;
	for (int k = 0; k < N_LEVELS; k++)
		for (size_t i = 0; i < w->pending[k].n; i++)
			last = w->pending[k].v[i].b.t1_ns > last ? w->pending[k].v[i].b.t1_ns
								 : last;
	w->compact_after_ns = 0;
	int rc = last == INT64_MIN ? 0 : compact_before(w, last, last, SIZE_MAX, err);
	return rc || w->state.parents_failed == failed
		       ? rc
		       : err_set(err, -EBADMSG, "%s", w->state.last_error);
}

static int on_root(void *ctx, const struct block_ref *r)
{
	return pending_add(ctx, r);
}

int compact_load(struct store_writer *w, struct err *err)
{
	int rc = 0;
	for (uint8_t level = 0; !rc && level < N_LEVELS - 1; level++)
		rc = store_roots(&w->s, level, (uint8_t)(level + 1), INT64_MIN, INT64_MAX, on_root,
				 &w->pending[level], err);
	struct pending all = { 0 };
	if (!rc)
		rc = store_roots(&w->s, 0, LEVEL_POSTINGS, INT64_MIN, INT64_MAX, on_root, &all,
				 err);
	for (size_t i = 0; !rc && i < all.n; i++)
		if (all.v[i].b.n_table && pending_add(&w->unposted, &all.v[i]))
			rc = err_sys(err, -ENOMEM, "cannot open %s", w->s.dir);
	free(all.v);
	return rc;
}
