/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/causes.h"

#include "store/writer.h"
#include "util/array.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BYTES offsetof(struct causes_row, sum)
#define SET_MORE (STORE_SET_MAX + 1)

int causes_init(struct causes *c)
{
	return setpool_init(&c->sets);
}

void causes_fini(struct causes *c)
{
	free(c->v);
	idhash_fini(&c->hash);
	setpool_fini(&c->sets);
	*c = (struct causes){ 0 };
}

void causes_clear(struct causes *c)
{
	c->n = 0;
	idhash_clear(&c->hash);
	setpool_clear(&c->sets);
	for (int i = 0; i < CAUSE_EVENTS; i++)
		pairs_clear(&c->pairs[i]);
}

/* ---- adding ---- */

static bool same_row(const void *ctx, uint32_t id, const void *key)
{
	return !memcmp(&((const struct causes *)ctx)->v[id], key, KEY_BYTES);
}

/* max: rows that there may be. */
static struct causes_row *find_row(struct causes *c, const struct causes_row *key, size_t max)
{
	uint32_t hash = idhash_hash(&c->hash, key, KEY_BYTES);
	uint32_t id = idhash_find(&c->hash, hash, same_row, c, key);
	if (id != IDHASH_NONE)
		return &c->v[id];
	if (c->n >= max || ARRAY_RESERVE(c->v, c->cap, c->n + 1) || idhash_reserve(&c->hash))
		return NULL;
	c->v[c->n] = *key;
	idhash_put(&c->hash, hash, (uint32_t)c->n);
	return &c->v[c->n++];
}

static void add_sum(struct cause_sum *to, uint64_t n, uint64_t ns)
{
	to->n += n;
	to->ns += ns;
}

static size_t set_size(size_t n)
{
	return n < STORE_SET_MAX ? n : STORE_SET_MAX;
}

/* Add the cause "(other)" to the labels of who waited. Return their number. */
static size_t add_other(const struct label *waited, size_t n, struct label out[SET_MORE])
{
	n = set_size(n);
	memcpy(out, waited, n * sizeof(*out));
	out[n++] = (struct label){
		.key = "by.comm", .key_len = 7, .str = "(other)", .str_len = 7, .type = LABEL_STRING
	};
	return set_size(labels_normalize(out, n));
}

/* Find the row of a cause without a name, of a thread with these labels. NULL: there is no room or
 * memory. */
static struct causes_row *other_row(struct causes *c, const struct causes_row *of,
				    const struct cause_labels *waited, size_t max)
{
	struct causes_row key = *of;
	struct label other[SET_MORE];
	size_t n = add_other(waited->v, waited->n, other);
	key.named = false;
	if (setpool_add(&c->sets, waited->v, set_size(waited->n), &key.waited) ||
	    setpool_add(&c->sets, other, n, &key.pair))
		return NULL;
	return find_row(c, &key, max);
}

/*
 * The same where the table is full: without the stack, and where that is not there, for all
 * threads.
 */
static struct causes_row *last_row(struct causes *c, const struct causes_row *of,
				   const struct cause_labels *waited)
{
	static const struct label nobody = {
		.key = "comm", .key_len = 4, .str = "(other)", .str_len = 7, .type = LABEL_STRING
	};
	const struct cause_labels all = { &nobody, 1 };
	struct causes_row key = *of, *found;
	key.stack = of->event == CAUSE_WAKER ? c->no_stack : 0;
	key.lock = key.lock_end = 0;
	found = other_row(c, &key, waited, CAUSES_MAX);
	return found ? found : other_row(c, &key, &all, CAUSES_MAX + CAUSE_EVENTS);
}

int causes_add(struct causes *c, const struct cause *row, bool *ret_cut)
{
	struct causes_row key = { .event = row->event,
				  .stack = row->stack,
				  .lock = row->lock,
				  .lock_end = row->lock_end,
				  .program = row->program,
				  .named = row->named,
				  .process = { row->process[0], row->process[1] } };
	uint64_t hash = labels_key(row->pair.v, row->pair.n, 0),
		 others = (1ull << 2 * row->thinning) - 1;
	struct causes_row *to = NULL;
	bool fits = !key.named || pairs_fit(&c->pairs[row->event], PAIRS_MAX, hash, key.process[0],
					    key.process[1]);
	if (!fits)
		to = other_row(c, &key, &row->waited, CAUSES_MAX);
	else if (!setpool_add(&c->sets, row->waited.v, set_size(row->waited.n), &key.waited) &&
		 !setpool_add(&c->sets, row->pair.v, set_size(row->pair.n), &key.pair))
		to = find_row(c, &key, CAUSES_MAX);
	*ret_cut |= !fits || !to;
	to = to ? to : last_row(c, &key, &row->waited);
	if (!to)
		return -ENOMEM;
	add_sum(&to->sum[row->part], row->n, row->ns);
	if (row->part != CAUSE_UNKNOWN && others) { /* what a sampled wait stands for */
		add_sum(&to->stands[row->part], row->n * others, row->ns * others);
		to->n_samples += row->n;
	}
	return 0;
}

/* ---- which pairs keep their names ---- */

struct pair {
	uint32_t event, pair;
	uint64_t ns;
	size_t first, n; /* rows, sorted by pair */
};

static int by_pair(const void *pa, const void *pb)
{
	const struct causes_row *a = pa, *b = pb;
	if (a->event != b->event)
		return a->event < b->event ? -1 : 1;
	return a->pair != b->pair ? (a->pair < b->pair ? -1 : 1)
				  : (a->stack > b->stack) - (a->stack < b->stack);
}

static int by_time(const void *pa, const void *pb)
{
	const struct pair *a = pa, *b = pb;
	return a->ns != b->ns ? (a->ns < b->ns ? 1 : -1)
			      : (a->first > b->first) - (a->first < b->first);
}

static uint64_t row_n(const struct causes_row *r)
{
	return r->sum[CAUSE_BUSY].n + r->sum[CAUSE_IDLE].n + r->sum[CAUSE_UNKNOWN].n;
}

static uint64_t row_ns(const struct causes_row *r)
{
	return r->sum[CAUSE_BUSY].ns + r->sum[CAUSE_IDLE].ns + r->sum[CAUSE_UNKNOWN].ns;
}

/* Cut the smallest pairs of events that have too many. Without memory all keep their names. */
static void cut_pairs(struct causes *c, struct causes_result *ret)
{
	struct pair *pairs = calloc(c->n + 1, sizeof(*pairs));
	size_t n = 0;
	for (size_t i = 0; pairs && i < c->n; i++) {
		const struct causes_row *r = &c->v[i];
		if (!r->named)
			continue;
		if (!n || pairs[n - 1].event != r->event || pairs[n - 1].pair != r->pair)
			pairs[n++] = (struct pair){ r->event, r->pair, 0, i, 0 };
		pairs[n - 1].ns += row_ns(r);
		pairs[n - 1].n++;
	}
	if (n)
		qsort(pairs, n, sizeof(*pairs), by_time);
	for (int i = 0; i < CAUSE_EVENTS; i++)
		pairs_clear(&c->pairs[i]);
	for (size_t i = 0; i < n; i++) {
		struct causes_row *r = &c->v[pairs[i].first];
		bool fits = pairs_fit(&c->pairs[r->event], CAUSES_PAIRS,
				      (uint64_t)(r->pair + 1) * 0x9e3779b97f4a7c15ull,
				      r->process[0], r->process[1]);
		for (size_t k = 0; !fits && k < pairs[i].n; k++) {
			r[k].cut = true;
			ret->cut[r->event] += row_n(&r[k]);
		}
	}
	free(pairs);
}

/* Locks of little time lose their names. Of the others it is known now which are one. */
static void cut_locks(struct causes *c, struct locks *locks, struct causes_result *ret)
{
	for (size_t i = 0; i < c->n; i++)
		locks_add_time(locks, c->v[i].lock, row_ns(&c->v[i]));
	locks_rank(locks);
	for (size_t i = 0; i < c->n; i++) {
		c->v[i].lock_group = locks_group(locks, c->v[i].lock);
		c->v[i].lock_idle = lock_kind_is_idle(locks_kind(locks, c->v[i].lock));
		if (locks_is_cut(locks, c->v[i].lock))
			ret->locks_cut += row_n(&c->v[i]);
	}
}

/* ---- which part was idle ---- */

enum level { BY_LOCK, BY_PAIR, BY_WAITED, BY_PROGRAM, LEVELS };

/* What the samples of one group stand for. */
struct group {
	uint64_t key; /* 0: free */
	uint64_t n_samples;
	struct cause_sum stands[2];
};

struct groups {
	struct group *v; /* open addressing; [mask + 1] for each level */
	size_t mask;
};

static uint64_t level_key(const struct causes_row *r, enum level level)
{
	uint64_t k = level == BY_LOCK	  ? r->lock_group
		     : level == BY_PAIR	  ? r->pair
		     : level == BY_WAITED ? r->waited
					  : r->program;
	return (k + 1) * 0x9e3779b97f4a7c15ull | 1;
}

static struct group *group_of(const struct groups *g, const struct causes_row *r, enum level level)
{
	uint64_t key = level_key(r, level);
	struct group *v = g->v + level * (g->mask + 1);
	size_t at = (size_t)(key >> 32);
	while (v[at & g->mask].key && v[at & g->mask].key != key)
		at++;
	return &v[at & g->mask];
}

static void add_to_groups(const struct groups *g, const struct causes_row *r)
{
	for (int level = 0; level < LEVELS; level++) {
		struct group *to = group_of(g, r, level);
		to->key = level_key(r, level);
		to->n_samples += r->n_samples;
		for (int i = 0; i < 2; i++)
			add_sum(&to->stands[i], r->stands[i].n, r->stands[i].ns);
	}
}

static uint64_t share(uint64_t whole, uint64_t part, uint64_t other)
{
	unsigned __int128 total = (unsigned __int128)part + other;
	return total ? (uint64_t)((unsigned __int128)whole * part / total) : 0;
}

/* Divide the part of a row that no sample has. Where no sample stands for it, it counts as busy. */
static void divide(const struct groups *g, struct causes_row *r)
{
	struct cause_sum all = r->sum[CAUSE_UNKNOWN], idle = { 0, 0 };
	const struct group *of = NULL;
	int level = r->lock >= LOCK_ID_FIRST ? BY_LOCK : BY_PAIR;
	for (; all.n && level < LEVELS && !of; level++) {
		of = group_of(g, r, level);
		if (of->n_samples < (level == BY_PROGRAM || level == BY_LOCK ? 1 : CAUSES_ENOUGH))
			of = NULL;
		if (level == BY_LOCK && !of && r->lock_idle) {
			idle = all;
			break;
		}
	}
	if (of) {
		idle.n = share(all.n, of->stands[CAUSE_IDLE].n, of->stands[CAUSE_BUSY].n);
		idle.ns = share(all.ns, of->stands[CAUSE_IDLE].ns, of->stands[CAUSE_BUSY].ns);
		bool more = idle.ns > all.ns / 2;
		if (!idle.n || idle.n == all.n) /* time without a wait cannot be stored */
			idle = more ? all : (struct cause_sum){ 0, 0 };
	}
	add_sum(&r->sum[CAUSE_IDLE], idle.n, idle.ns);
	add_sum(&r->sum[CAUSE_BUSY], all.n - idle.n, all.ns - idle.ns);
	r->sum[CAUSE_UNKNOWN] = (struct cause_sum){ 0, 0 };
}

static void divide_all(struct causes *c)
{
	struct groups g = { .mask = 1 };
	while (g.mask < 2 * c->n)
		g.mask = 2 * g.mask + 1;
	g.v = calloc(LEVELS * (g.mask + 1), sizeof(*g.v));
	for (size_t i = 0; g.v && i < c->n; i++)
		if (c->v[i].n_samples)
			add_to_groups(&g, &c->v[i]);
	for (size_t i = 0; g.v && i < c->n; i++)
		if (c->v[i].event == CAUSE_WAKER)
			divide(&g, &c->v[i]);
	free(g.v);
}

/* ---- storing ---- */

/* Return the label set of a row in the store. */
static int row_set(struct causes *c, const struct causes_store *to, const struct causes_row *r,
		   uint32_t *ret)
{
	const struct label *v;
	struct label other[SET_MORE], all[LOCK_LABELS + SET_MORE];
	size_t n = setpool_get(&c->sets, r->cut ? r->waited : r->pair, &v);
	if (r->cut) {
		n = add_other(v, n, other);
		v = other;
	}
	size_t own = r->event == CAUSE_WAKER && to->locks
			     ? locks_labels(to->locks, r->lock, r->lock_end, all)
			     : 0;
	if (own) { /* they win over those of a program */
		memcpy(all + own, v, n * sizeof(*v));
		n = set_size(labels_normalize(all, own + n));
		v = all;
	}
	return store_add_set(to->store, v, n, ret);
}

static int store_sum(const struct causes_store *to, const struct causes_row *r, uint32_t set,
		     uint32_t event, const struct cause_sum *s)
{
	unsigned weight = r->event == CAUSE_WAKER ? to->weight : 1;
	return s->n ? store_add_row(to->store, set, r->stack, event, s->n * weight, s->ns) : 0;
}

static void store_row(struct causes *c, const struct causes_store *to, const struct causes_row *r,
		      struct causes_result *ret)
{
	struct cause_sum busy = r->sum[CAUSE_BUSY];
	const struct cause_sum *idle = &r->sum[CAUSE_IDLE];
	uint32_t set;
	add_sum(&busy, r->sum[CAUSE_UNKNOWN].n, r->sum[CAUSE_UNKNOWN].ns);
	int rc = row_set(c, to, r, &set);
	if (rc || store_sum(to, r, set, r->event == CAUSE_BLAME ? to->blame : to->waker, &busy))
		ret->failed += busy.n;
	if (rc || store_sum(to, r, set, to->waker_idle, idle))
		ret->failed += idle->n;
}

void causes_flush(struct causes *c, const struct causes_store *to, struct causes_result *ret)
{
	*ret = (struct causes_result){ 0 };
	if (!c->n)
		return;
	idhash_clear(&c->hash); /* the rows change their places */
	qsort(c->v, c->n, sizeof(*c->v), by_pair);
	cut_pairs(c, ret);
	if (to->locks)
		cut_locks(c, to->locks, ret);
	divide_all(c);
	for (size_t i = 0; i < c->n; i++)
		store_row(c, to, &c->v[i], ret);
	c->n = 0;
}
