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

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MIN_STACKS 1024 /* that a segment may always add */

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

static int by_segment(const void *pa, const void *pb)
{
	const struct block_ref *a = *(const struct block_ref *const *)pa,
			       *b = *(const struct block_ref *const *)pb;
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
	rc = contents_rows(s, ref, &d, false, &rows, err);
	if (!rc) { /* its limits are within those of the segment */
		rc = add_groups(l, &rows);
		if (rc)
			rc = rc == -EBADMSG ? block_damaged(s, ref, err)
					    : err_sys(err, rc, "cannot read %s", s->dir);
	}
	block_data_fini(&d);
	return rc;
}

/* By event of the reader: [cap] by its stack. */
struct stack_sums {
	struct {
		struct rows_sum *v;
		size_t cap;
	} * events;
	uint32_t n_events;
};

static int stack_sum(struct stack_sums *t, const struct store *s, uint32_t event, uint32_t stack,
		     struct rows_sum **ret)
{
	if (stack >= t->events[event].cap) {
		size_t had = t->events[event].cap, cap = s->sym.n_stacks + s->sym.n_stacks / 4 + 64;
		struct rows_sum *v = realloc(t->events[event].v, cap * sizeof(*v));
		if (!v)
			return -ENOMEM;
		memset(v + had, 0, (cap - had) * sizeof(*v));
		t->events[event].v = v;
		t->events[event].cap = cap;
	}
	*ret = &t->events[event].v[stack];
	return 0;
}

static int add_leaves(struct store *s, struct stack_sums *to, struct translation *t,
		      const struct leaf_sums *l, uint32_t e)
{
	uint32_t event, stack;
	int rc = translate_event(t, e, &event);
	for (uint32_t leaf = 0; !rc && leaf < l->n_leaves; leaf++) {
		const struct rows_sum *from = &l->v[e][leaf];
		struct rows_sum *sum;
		if (!from->samples)
			continue;
		rc = translate_leaf_stack(t, leaf, &stack);
		if (!rc)
			rc = stack_sum(to, s, event, stack, &sum);
		if (rc)
			break;
		sum->samples += from->samples;
		sum->value += from->value;
	}
	return rc;
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

/* Count the stacks that still fit the reader's own dictionaries, which may take half of the limit. */
static size_t room_for(const struct store *s)
{
	size_t most = symbols_limit(s) / 2, has = dicts_bytes(&s->sym);
	return (most > has ? most - has : 0) / STACK_BYTES;
}

/* What the folding of all segments is at. */
struct folding {
	struct stack_sums sums;
	bool pruned; /* stacks are only chosen, to be summed again */
	bool frozen; /* that is now */
	size_t left; /* segments to come, with this one */
};

/* Add the sums of a segment; where its stacks do not fit, only the largest are taken into the
 * reader's dictionaries. */
static int take_segment(struct store *s, struct folding *f, struct translation *t,
			const struct leaf_sums *l)
{
	struct translation frozen = {
		.from = t->from, .to = t->to, .no_new_events = true, .frozen = true
	};
	size_t room = room_for(s);
	bool *keep;
	int rc = 0;
	if (!f->frozen && t->from->n_stacks > room &&
	    prune_count(t->from, l->v, l->n, l->n_events) > room) {
		f->pruned = true;
		rc = prune_choose(t->from, l->v, l->n, l->n_events, room / f->left + MIN_STACKS,
				  &keep);
		if (rc)
			return rc;
		rc = prune_translate(t, keep);
		free(keep);
		return rc;
	}
	for (uint32_t e = 0; !rc && e < l->n_events; e++)
		rc = l->v[e] ? add_leaves(s, &f->sums, f->frozen ? &frozen : t, l, e) : 0;
	translation_fini(&frozen);
	return rc;
}

/* The blocks of one segment. */
static int fold_segment(struct store *s, const struct block_ref *const *refs, size_t n,
			struct folding *f, struct err *err)
{
	struct translation *t;
	struct leaf_sums l = { 0 };
	struct store *of = store_of(s, refs[0]);
	int rc = store_translation(of, refs[0], &t, err);
	if (rc)
		return rc;
	if (leaf_sums_init(&l, t->from))
		rc = err_sys(err, -ENOMEM, "cannot read %s", s->dir);
	for (size_t i = 0; !rc && i < n; i++)
		rc = add_block(of, &l, refs[i], err);
	if (!rc && (rc = take_segment(s, f, t, &l)))
		err_sys(err, rc, "cannot read %s", s->dir);
	leaf_sums_fini(&l);
	return rc;
}

static size_t segment_end(const struct block_ref *const *refs, size_t n, size_t from)
{
	size_t to = from;
	while (to < n && refs[to]->segment == refs[from]->segment && refs[to]->part == refs[from]->part)
		to++;
	return to;
}

static int fold_segments(struct store *s, const struct block_ref *const *refs, size_t n,
			 struct folding *f, struct err *err)
{
	int rc = 0;
	f->left = 0;
	for (size_t from = 0; from < n; from = segment_end(refs, n, from))
		f->left++;
	for (size_t from = 0, to; !rc && from < n; from = to, f->left--) {
		to = segment_end(refs, n, from);
		rc = fold_segment(s, refs + from, to - from, f, err);
	}
	return rc;
}

static int give(const struct stack_sums *t, int (*cb)(void *ctx, const struct store_row *row),
		void *ctx)
{
	int rc = 0;
	for (uint32_t e = 0; e < t->n_events; e++)
		for (size_t i = 0; !rc && i < t->events[e].cap; i++) {
			const struct rows_sum *sum = &t->events[e].v[i];
			const struct store_row row = { 0, (uint32_t)i, e, sum->samples,
						       sum->value };
			rc = row.samples ? cb(ctx, &row) : 0;
		}
	return rc;
}

static void forget_sums(struct stack_sums *t)
{
	for (uint32_t e = 0; t->events && e < t->n_events; e++) {
		free(t->events[e].v);
		t->events[e].v = NULL;
		t->events[e].cap = 0;
	}
}

int store_fold_rows(struct store *s, const struct store_folding *of,
		    int (*cb)(void *ctx, const struct store_row *row), void *ctx, bool *ret_pruned,
		    struct err *err)
{
	const struct block_ref **refs = malloc((of->n + 1) * sizeof(*refs));
	struct folding f = { .sums.n_events = s->sym.n_events };
	f.sums.events = calloc((size_t)s->sym.n_events + 1, sizeof(*f.sums.events));
	int rc = refs && f.sums.events ? 0 : err_sys(err, -ENOMEM, "cannot read %s", s->dir);
	for (size_t i = 0; !rc && i < of->n; i++)
		refs[i] = store_ref(of->blocks[i]);
	if (!rc)
		qsort(refs, of->n, sizeof(*refs), by_segment);
	rc = rc ? rc : fold_segments(s, refs, of->n, &f, err);
	if (!rc &&
	    f.pruned) { /* now that it is known which stacks matter, their sums in all segments */
		forget_sums(&f.sums);
		f.frozen = true;
		rc = fold_segments(s, refs, of->n, &f, err);
	}
	*ret_pruned = f.pruned;
	rc = rc ? rc : give(&f.sums, cb, ctx);
	forget_sums(&f.sums);
	free(f.sums.events);
	free(refs);
	return rc;
}
