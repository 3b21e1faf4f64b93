/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/estimate.h"

#include "store/writer.h"
#include "util/array.h"
#include "util/bisect.h"

#define KEEP 4096 /* items whose memory is kept from window to window */

void estimate_fini(struct estimate *e)
{
	free(e->samples.v);
	free(e->rest.v);
	*e = (struct estimate){ 0 };
}

static void clear(struct estimate_list *l)
{
	if (l->cap > KEEP) {
		free(l->v);
		*l = (struct estimate_list){ 0 };
	}
	l->n = 0;
}

void estimate_clear(struct estimate *e)
{
	clear(&e->samples);
	clear(&e->rest);
}

/* ---- order: by label set, by image, or by program ---- */

enum level { BY_SET, BY_IMAGE, BY_PROGRAM, N_LEVELS };

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static uint64_t level_key(const struct estimate_key *k, enum level level)
{
	return level == BY_SET ? k->set : level == BY_IMAGE ? k->image : k->program;
}

static int by_group(const struct estimate_key *a, const struct estimate_key *b, enum level level)
{
	int d = compare(a->event, b->event);
	return d ? d : compare(level_key(a, level), level_key(b, level));
}

static int by_level(const void *pa, const void *pb, enum level level)
{
	const struct estimate_item *a = pa, *b = pb;
	int d = by_group(&a->key, &b->key, level);
	return d ? d : compare(a->stack, b->stack);
}

static int by_set(const void *a, const void *b)
{
	return by_level(a, b, BY_SET);
}

static int by_image(const void *a, const void *b)
{
	return by_level(a, b, BY_IMAGE);
}

static int by_program(const void *a, const void *b)
{
	return by_level(a, b, BY_PROGRAM);
}

/* ---- lists ---- */

static void add_up(struct estimate_item *sum, const struct estimate_item *item)
{
	sum->n_samples += item->n_samples;
	sum->n += item->n;
	sum->ns += item->ns;
}

/* Sort by label set and stack, and add up equal ones. */
static void merge_same(struct estimate_list *l)
{
	size_t n = 0;
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_set);
	for (size_t i = 0; i < l->n; i++) {
		if (n && !by_set(&l->v[n - 1], &l->v[i])) {
			add_up(&l->v[n - 1], &l->v[i]);
		} else {
			l->v[n++] = l->v[i];
		}
	}
	l->n = n;
}

static void add(struct estimate_list *l, const struct estimate_item *item)
{
	if (l->n && !by_set(&l->v[l->n - 1], item)) {
		add_up(&l->v[l->n - 1], item);
		return;
	}
	/* Leave as much room again, so that merging is rare. */
	if (l->n == 2 * ESTIMATE_MAX)
		merge_same(l);
	if (l->n < 2 * ESTIMATE_MAX && !ARRAY_RESERVE(l->v, l->cap, l->n + 1))
		l->v[l->n++] = *item;
}

void estimate_add_sample(struct estimate *e, const struct estimate_key *key, uint32_t stack,
			 uint32_t n_samples, uint64_t n, uint64_t ns)
{
	if (n && ns)
		add(&e->samples, &(struct estimate_item){ *key, stack, n_samples, n, ns });
}

void estimate_add_rest(struct estimate *e, const struct estimate_key *key, uint64_t n, uint64_t ns)
{
	if (n)
		add(&e->rest, &(struct estimate_item){ *key, 0, 0, n, ns });
}

/* ---- division ---- */

/* The samples of one group, and the sums that they stand for. */
struct group {
	const struct estimate_item *v;
	size_t n;
	uint64_t n_samples;
	unsigned __int128 waits, ns;
};

static size_t lower_bound(const struct estimate_list *l, const struct estimate_key *key,
			  enum level level)
{
	return bisect(i, 0, l->n, by_group(&l->v[i].key, key, level) < 0);
}

/* True if the group has enough samples. At the last level one is enough. */
static bool find_group(const struct estimate_list *l, const struct estimate_key *key,
		       enum level level, struct group *ret)
{
	size_t at = lower_bound(l, key, level);
	*ret = (struct group){ .v = l->v + at };
	for (; at < l->n && !by_group(&l->v[at].key, key, level); at++) {
		ret->n_samples += l->v[at].n_samples;
		ret->waits += l->v[at].n;
		ret->ns += l->v[at].ns;
		ret->n++;
	}
	return ret->n_samples >= (level == BY_PROGRAM ? 1 : ESTIMATE_ENOUGH);
}

/* May the waits be among those that the samples of a wider group stand for? */
static bool is_alike(const struct estimate_item *rest, const struct group *g)
{
	return rest->ns * g->waits <= ESTIMATE_ALIKE * g->ns * rest->n;
}

/*
 * Return the share of `part` in `total`, of a whole. The shares of all parts add up to the whole.
 */
static uint64_t share(uint64_t whole, unsigned __int128 part, unsigned __int128 total)
{
	while (total >> 63) { /* keep the products within 128 bits */
		total >>= 1;
		part >>= 1;
	}
	return part >= total ? whole : (uint64_t)((unsigned __int128)whole * part / total);
}

struct move {
	struct store_writer *store;
	uint32_t no_stack;
	unsigned weight;
	uint64_t moved;
};

static bool move(struct move *m, const struct estimate_item *rest, uint32_t stack, uint64_t n,
		 uint64_t ns)
{
	if (!n && !ns)
		return true;
	if (store_move_row(m->store, rest->key.set, rest->key.event, m->no_stack, stack,
			   n * m->weight, ns))
		return false;
	m->moved += n;
	return true;
}

/* Divide in proportion to each stack. All stacks have a row of this label set already. */
static void divide_all(struct move *m, const struct estimate_item *rest, const struct group *g)
{
	unsigned __int128 waits = 0, ns = 0;
	uint64_t n_moved = 0, ns_moved = 0;
	for (size_t i = 0; i < g->n; i++) {
		waits += g->v[i].n;
		ns += g->v[i].ns;
		uint64_t n_to = share(rest->n, waits, g->waits), ns_to = share(rest->ns, ns, g->ns);
		if (move(m, rest, g->v[i].stack, n_to - n_moved, ns_to - ns_moved)) {
			n_moved = n_to;
			ns_moved = ns_to;
		}
	}
}

/*
 * Divide in equal parts among at most ESTIMATE_POINTS stacks, drawn in proportion to their time by
 * systematic sampling. The label set determines the first point. So a label set without samples of
 * its own gets few rows, however many stacks its process has.
 */
static void divide_some(struct move *m, const struct estimate_item *rest, const struct group *g)
{
	uint64_t points = rest->n < ESTIMATE_POINTS ? rest->n : ESTIMATE_POINTS;
	/* Of 2^32: position of each point in its part */
	uint64_t begin = (rest->key.set + 1) * 0x9e3779b97f4a7c15ull >> 32;
	unsigned __int128 upto = g->v[0].ns;
	for (uint64_t p = 0, i = 0; p < points; p++) {
		unsigned __int128 at = g->ns / points * p + (g->ns / points * begin >> 32);
		while (upto <= at && i + 1 < g->n)
			upto += g->v[++i].ns;
		move(m, rest, g->v[i].stack,
		     share(rest->n, p + 1, points) - share(rest->n, p, points),
		     share(rest->ns, p + 1, points) - share(rest->ns, p, points));
	}
}

uint64_t estimate_divide(struct estimate *e, struct store_writer *store, uint32_t no_stack,
			 unsigned weight)
{
	static int (*const order[N_LEVELS])(const void *, const void *) = { by_set, by_image,
									    by_program };
	struct move m = { store, no_stack, weight, 0 };
	struct group g;
	merge_same(&e->samples);
	merge_same(&e->rest);
	for (int level = 0; level < N_LEVELS && e->samples.n; level++) {
		size_t left = 0;
		if (level)
			qsort(e->samples.v, e->samples.n, sizeof(*e->samples.v), order[level]);
		for (size_t i = 0; i < e->rest.n; i++) {
			const struct estimate_item *rest = &e->rest.v[i];
			if (!find_group(&e->samples, &rest->key, level, &g) ||
			    (level != BY_SET && !is_alike(rest, &g)))
				e->rest.v[left++] = *rest;
			else if (level == BY_SET)
				divide_all(&m, rest, &g);
			else
				divide_some(&m, rest, &g);
		}
		e->rest.n = left;
	}
	return m.moved;
}
