/* SPDX-License-Identifier: Apache-2.0 */
#include "query/sums.h"

#include "query/seen.h"
#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Bytes of an answer: of a node of a tree with its links, of a function in a table, of a row while
 * runs are merged.
 */
#define NODE_BYTES 96
#define FUNCTION_BYTES 250
#define ROW_BYTES 128
/* Bytes of a stack that was chosen: its two nodes, its two rows and its sums. */
#define CHOSEN_BYTES (2 * NODE_BYTES + 2 * sizeof(struct store_row) + sizeof(struct sum[2]))

/* A label set in the answer: in the pool, in the sums and in a row of a table. */
#define SET_BYTES 400
#define LABEL_BYTES 100
/* Stands for a label set while keys are chosen: a hash, and the cost as a power of two. */
#define COST_BITS 4
#define HASH_BITS 26
#define AHEAD 16 /* rows whose memory is being fetched */

static bool by_stack(const struct sums *s)
{
	return s->spec->labels == QUERY_NO_LABELS;
}

static bool by_set(const struct sums *s)
{
	return s->spec->labels == QUERY_KEYS || s->spec->labels == QUERY_TOTALS;
}

/* Are a tree and a table of its functions made of the rows? */
static bool makes_tree(const struct sums *s)
{
	return by_stack(s) && !s->spec->rows_alone;
}

/* Of rows with stacks the sets have a third of the memory. */
static size_t room_for_sets(const struct sums *s)
{
	return by_set(s) ? s->budget / 8 * 7 : s->budget / 3;
}

static size_t room_for_rows(const struct sums *s)
{
	return by_stack(s) && s->spec->rows_alone ? s->budget / 4 * 3 : s->budget / 3;
}

/* For the stacks of an answer: their rows, nodes and functions. */
static size_t room_for_stacks(const struct sums *s)
{
	return s->budget / 4 * 3;
}

void sums_init(struct sums *s, struct query *q, const struct query_spec *spec)
{
	*s = (struct sums){ .q = q, .spec = spec, .seed = q->sets.seed };
	s->budget = query_budget(q->store, spec);
}

static void free_sums(struct sums *s)
{
	keysums_fini(&s->stacks);
	free(s->set.v);
	s->set = (struct set_sums){ 0 };
	runs_fini(&s->runs);
}

void sums_fini(struct sums *s)
{
	free_sums(s);
	keysums_fini(&s->sets);
	keysums_fini(&s->rows);
	subtree_fini(&s->kept);
	free(s->hash_of);
	free(s->node);
	free(s->waiting);
}

/* ---- label sets ---- */

/* Where all sets are kept nobody asks for the hash. */
static struct store_set_key key_of_set(const struct sums *s, const struct label *labels, size_t n)
{
	struct store_set_key k = { .n = (uint32_t)n };
	if (s->pass != SUMS_ALL)
		k.key = labels_list_key(labels, n, s->seed);
	for (size_t i = 0; i < n; i++)
		k.bytes += label_bytes(&labels[i]);
	return k;
}

static uint64_t cost_of_set(const struct store_set_key *k)
{
	return SET_BYTES + (uint64_t)k->n * LABEL_BYTES + 3 * (uint64_t)k->bytes;
}

/* The lowest power of two, from SET_BYTES on, that is not below a cost. */
static uint32_t class_of_cost(uint64_t cost)
{
	uint32_t class = 0;
	while (class < (1u << COST_BITS) - 1 && (uint64_t)SET_BYTES << class < cost)
		class ++;
	return class;
}

static uint64_t cost_of_hash(uint64_t hash)
{
	return (uint64_t)SET_BYTES << (hash & ((1u << COST_BITS) - 1));
}

static uint64_t cost_of_row(uint64_t key)
{
	(void)key;
	return ROW_BYTES;
}

/* Above QUERY_OTHER, and 0 for the empty set, which has that id in every pass. */
static uint32_t hash_of_set(const struct store_set_key *k)
{
	uint32_t hash = (uint32_t)(k->key ^ k->key >> 32) >> (32 - HASH_BITS);
	return k->n ? (hash | 1) << COST_BITS | class_of_cost(cost_of_set(k)) : 0;
}

/* Note the hash that a set was chosen by. */
static int keep_hash(struct sums *s, uint32_t id, uint32_t hash)
{
	int rc = ARRAY_RESERVE(s->hash_of, s->hash_cap, (size_t)id + 1);
	if (!rc)
		s->hash_of[id] = hash;
	return rc;
}

static int keep_set(struct sums *s, const struct label *labels, size_t n, uint64_t cost,
		    uint32_t *ret)
{
	uint32_t before = s->q->sets.n;
	int rc = setpool_add(&s->q->sets, labels, n, ret);
	if (!rc && s->q->sets.n > before)
		s->sets_cost += cost;
	return rc;
}

bool sums_name_key(const struct sums *s, const struct store_set_key *key, uint32_t *ret)
{
	if (s->pass == SUMS_ALL)
		return false;
	const uint32_t hash = hash_of_set(key);
	const bool chosen = s->pass == SUMS_CHOSEN && hash;
	*ret = chosen ? QUERY_OTHER : hash;
	return !chosen || !keysums_find(&s->sets, hash);
}

int sums_name(struct sums *s, const struct label *labels, size_t n, uint32_t *ret)
{
	const struct store_set_key key = key_of_set(s, labels, n);
	const uint64_t cost = cost_of_set(&key);
	if (s->pass == SUMS_ALL) {
		int rc = keep_set(s, labels, n, cost, ret);
		return rc == -E2BIG || (!rc && s->sets_cost > room_for_sets(s)) ? -ENOBUFS : rc;
	}
	/* Sets of one hash may be more than were paid for. */
	if (sums_name_key(s, &key, ret) || setpool_find(&s->q->sets, labels, n, ret) ||
	    s->sets_cost + cost > room_for_sets(s))
		return 0;
	int rc = keep_set(s, labels, n, cost, ret);
	return rc ? rc : keep_hash(s, *ret, hash_of_set(&key));
}

/* ---- rows ---- */

static int add_to_set(struct set_sums *t, uint32_t set, const struct store_row *row)
{
	int rc = ARRAY_RESERVE_CLEARED(t->v, t->cap, (size_t)set + 1);
	if (rc)
		return rc;
	t->v[set].samples += row->samples;
	t->v[set].value += row->value;
	return 0;
}

static int count_key(struct keysums *k, uint64_t key, uint64_t samples)
{
	int rc = keysums_add(k, key, samples, 0);
	if (rc != -ENOBUFS)
		return rc;
	keysums_shrink(k);
	return keysums_add(k, key, samples, 0);
}

static uint64_t key_of(uint32_t hash, uint32_t stack)
{
	return (uint64_t)hash << 32 | stack;
}

/* Merging two runs takes as much again. */
static int add_run(struct sums *s, const struct store_row *row)
{
	int rc = runs_add(&s->runs, row);
	return !rc && s->pass == SUMS_ALL && runs_bytes(&s->runs) > room_for_rows(s) / 2 ? -ENOBUFS
											 : rc;
}

static int add_stack(struct sums *s, const struct store_row *row)
{
	if (s->pass == SUMS_ALL)
		return add_run(s, row);
	if (s->pass == SUMS_CHOSEN) {
		uint32_t at = subtree_nearest(&s->kept, s->q->store, row->stack);
		struct sum *to = &s->node[subtree_index(&s->kept, at)]
					 [at != row->stack || row->set == QUERY_OTHER];
		to->samples += row->samples;
		to->value += row->value;
		return 0;
	}
	int rc = keysums_add(&s->stacks, row->stack, row->samples, row->value);
	if (rc != -ENOBUFS)
		return rc;
	rc = subtree_carry(&s->stacks, s->q->store);
	return rc ? rc : keysums_add(&s->stacks, row->stack, row->samples, row->value);
}

/*
 * Count the rows that wait. Each takes one or two misses of the cache, so its memory is fetched
 * while the rows before it are counted.
 */
static int count_waiting(struct sums *s)
{
	const unsigned n = s->n_waiting;
	int rc = 0;
	s->n_waiting = 0;
	for (unsigned i = 0; !rc && i < n + AHEAD; i++) {
		if (i < n) {
			keysums_prefetch(&s->sets, s->waiting[i].set);
			keysums_prefetch(&s->rows, key_of(s->waiting[i].set, s->waiting[i].stack));
		}
		if (i < AHEAD)
			continue;
		const struct store_row *row = &s->waiting[i - AHEAD];
		rc = count_key(&s->sets, row->set, row->samples);
		if (!rc && !by_set(s))
			rc = count_key(&s->rows, key_of(row->set, row->stack), row->samples);
	}
	return rc;
}

static int add_row(struct sums *s, const struct store_row *row)
{
	if (s->pass == SUMS_CHOOSE) {
		if (!s->waiting)
			s->waiting = malloc(SUMS_WAITING * sizeof(*s->waiting));
		if (!s->waiting)
			return -ENOMEM;
		s->waiting[s->n_waiting++] = *row;
		return s->n_waiting < SUMS_WAITING ? 0 : count_waiting(s);
	}
	bool rest =
		by_set(s) || (s->pass == SUMS_CHOSEN &&
			      (row->set == QUERY_OTHER ||
			       !keysums_find(&s->rows, key_of(s->hash_of[row->set], row->stack))));
	return rest ? add_to_set(&s->set, row->set, row) : add_run(s, row);
}

int sums_add(struct sums *s, const struct store_row *row)
{
	s->q->info.samples += row->samples;
	s->q->info.value += row->value;
	return by_stack(s) ? add_stack(s, row) : add_row(s, row);
}

int sums_end_block(struct sums *s)
{
	s->budget = query_budget(s->q->store, s->spec);
	return runs_close(&s->runs);
}

/* ---- passes ---- */

/* Does the tree of a set of stacks fit, and a table of its functions? */
static int subtree_fits(const struct sums *s, const struct subtree *t, size_t room, bool *ret)
{
	struct seen seen;
	size_t cost = t->n * NODE_BYTES;
	*ret = cost <= room;
	if (!*ret)
		return 0;
	if (seen_init(&seen, room / FUNCTION_BYTES, s->seed))
		return -ENOMEM;
	for (size_t i = 0; i < t->n_words && cost <= room; i++)
		for (uint64_t left = t->bits[i]; left; left &= left - 1) {
			uint32_t parent, frame;
			store_stack(s->q->store,
				    (uint32_t)(64 * i) + (uint32_t)__builtin_ctzll(left), &parent,
				    &frame);
			if (frame && seen_add(&seen, store_frame(s->q->store, frame)))
				cost += FUNCTION_BYTES;
		}
	*ret = cost <= room;
	seen_fini(&seen);
	return 0;
}

/* The same of all stacks. */
static int tree_fits(const struct sums *s, bool *ret)
{
	const struct store *store = s->q->store;
	size_t room = room_for_stacks(s) - s->q->n_rows * sizeof(*s->q->rows);
	struct subtree t;
	*ret = (uint64_t)store_n_stacks(store) * (NODE_BYTES + FUNCTION_BYTES) <= room;
	if (*ret || subtree_init(&t, store))
		return *ret ? 0 : -ENOMEM;
	for (size_t i = 0; i < s->q->n_rows; i++)
		subtree_add(&t, store, s->q->rows[i].stack);
	int rc = subtree_fits(s, &t, room, ret);
	subtree_fini(&t);
	return rc;
}

int sums_end(struct sums *s, bool *ret_again)
{
	struct query *q = s->q;
	bool fits = true;
	int rc = s->pass == SUMS_CHOOSE ? count_waiting(s)
					: runs_finish(&s->runs, &q->rows, &q->n_rows);
	if (!rc && s->pass == SUMS_ALL && makes_tree(s))
		rc = tree_fits(s, &fits);
	*ret_again = s->pass == SUMS_CHOOSE || !fits;
	return rc;
}

static int begin_choice(struct sums *s)
{
	free_sums(s);
	setpool_clear(&s->q->sets);
	int rc = query_add_other(s->q);
	s->sets_cost = 0;
	keysums_init(&s->stacks, s->budget / 2);
	keysums_init(&s->sets, by_set(s) ? s->budget / 2 : s->budget / 4);
	keysums_init(&s->rows, s->budget / 4);
	return rc;
}

/* Take up what was chosen. */
static int begin_chosen(struct sums *s)
{
	if (by_stack(s)) {
		const struct subtree_room room = { room_for_stacks(s), CHOSEN_BYTES, FUNCTION_BYTES,
						   s->seed };
		int rc = subtree_choose(&s->kept, &s->stacks, s->q->store, &room);
		keysums_fini(&s->stacks);
		s->node = rc ? NULL : calloc(s->kept.n, sizeof(*s->node));
		return s->node ? 0 : -ENOMEM;
	}
	int rc = keysums_keep(&s->sets, room_for_sets(s), cost_of_hash);
	rc = rc ? rc : keysums_keep(&s->rows, room_for_rows(s), cost_of_row);
	rc = rc ? rc : keep_hash(s, 0, 0);
	return rc ? rc : keep_hash(s, QUERY_OTHER, QUERY_OTHER);
}

int sums_next(struct sums *s)
{
	struct query_info *info = &s->q->info;
	info->samples = info->value = 0;
	info->bounded = true;
	free(s->q->rows);
	s->q->rows = NULL;
	s->q->n_rows = 0;
	s->pass++;
	return s->pass == SUMS_CHOOSE ? begin_choice(s) : begin_chosen(s);
}

/* ---- the answer ---- */

static int by_set_and_stack(const void *a, const void *b)
{
	const struct store_row *x = a, *y = b;
	if (x->set != y->set)
		return x->set < y->set ? -1 : 1;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

static void put(struct query *q, uint32_t set, uint32_t stack, const struct sum *sum)
{
	if (sum->samples || sum->value)
		q->rows[q->n_rows++] =
			(struct store_row){ set, stack, q->event, sum->samples, sum->value };
}

static int give_nodes(struct sums *s)
{
	struct query *q = s->q;
	const struct subtree *t = &s->kept;
	free(q->rows);
	q->rows = malloc((2 * t->n + 1) * sizeof(*q->rows));
	if (!q->rows)
		return -ENOMEM;
	for (int other = 0; other < 2; other++)
		for (size_t i = 0, at = 0; i < t->n_words; i++)
			for (uint64_t left = t->bits[i]; left; left &= left - 1)
				put(q, other ? QUERY_OTHER : 0,
				    (uint32_t)(64 * i) + (uint32_t)__builtin_ctzll(left),
				    &s->node[at++][other]);
	return 0;
}

/* Add the sums by set to the rows that are there. */
static int give_sets(struct sums *s)
{
	struct query *q = s->q;
	uint32_t stack = by_set(s) ? 0 : QUERY_OTHER_STACK;
	size_t n = 0;
	for (size_t i = 0; i < s->set.cap; i++)
		n += s->set.v[i].samples || s->set.v[i].value;
	struct store_row *v = realloc(q->rows, (q->n_rows + n + 1) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	q->rows = v;
	for (size_t i = 0; i < s->set.cap; i++)
		put(q, (uint32_t)i, stack, &s->set.v[i]);
	return 0;
}

int sums_give(struct sums *s)
{
	struct query *q = s->q;
	int rc = 0;
	if (by_stack(s) && s->pass == SUMS_CHOSEN)
		rc = give_nodes(s);
	else if (!by_stack(s))
		rc = give_sets(s);
	if (!rc && q->n_rows && !by_stack(s) && s->pass == SUMS_CHOSEN)
		qsort(q->rows, q->n_rows, sizeof(*q->rows), by_set_and_stack);
	return rc;
}
