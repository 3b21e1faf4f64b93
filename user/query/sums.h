/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sums of a query within a budget of memory: by stack, by label set, or by both.
 *
 * First everything is summed. Where that does not fit, all rows come twice more. First the keys
 * that stay are chosen, those with the most samples as far as a small table can tell. Then these
 * are summed exactly, and all others as (other). Label sets have no ids while keys are chosen: a
 * hash stands for each, and two sets of one hash are chosen together.
 */
#ifndef ASCRIBE_QUERY_SUMS_H
#define ASCRIBE_QUERY_SUMS_H

#include "query/query_int.h"
#include "query/runs.h"
#include "query/subtree.h"

enum sums_pass {
	SUMS_ALL = 0,
	SUMS_CHOOSE,
	SUMS_CHOSEN,
};

struct sum {
	uint64_t samples, value;
};

#define SUMS_WAITING 256

/* Sums by the id of a label set. */
struct set_sums {
	struct sum *v; /* [cap] */
	size_t cap;
};

struct sums {
	struct query *q;
	const struct query_spec *spec;
	enum sums_pass pass;
	size_t budget; /* as of the last block: the dictionaries grow */
	/* Of the label sets that are kept, about what the answer takes for them */
	uint64_t sets_cost;
	uint64_t seed;	   /* of the sets' hashes */
	uint32_t *hash_of; /* [hash_cap]: by the id of a set that was chosen */
	size_t hash_cap;
	/* QUERY_KEYS: all rows; else those of rows whose stack is (other) */
	struct set_sums set;
	struct runs runs;	   /* rows with stacks */
	struct keysums stacks;	   /* QUERY_NO_LABELS, what is being chosen: by stack */
	struct keysums sets, rows; /* what is being chosen, or was: by hash; by hash and stack */
	struct store_row *waiting; /* [SUMS_WAITING], for their turn to be counted; or NULL */
	unsigned n_waiting;
	struct subtree kept; /* QUERY_NO_LABELS: stacks that were chosen */
	struct sum (
		*node)[2]; /* [kept.n]: of a stack itself, of those below it that were not chosen */
};

/* spec must stay. */
void sums_init(struct sums *s, struct query *q, const struct query_spec *spec);
void sums_fini(struct sums *s);

/* Give a label set its id in the rows of this pass. -ENOBUFS as sums_add; -ENOMEM. */
int sums_name(struct sums *s, const struct label *labels, size_t n, uint32_t *ret);
/* The same by the key of a set (sums.seed); false: its labels are needed. */
bool sums_name_key(const struct sums *s, const struct store_set_key *key, uint32_t *ret);
/* Add a row. -ENOBUFS: there is no room to sum everything, go on with sums_next; -ENOMEM. */
int sums_add(struct sums *s, const struct store_row *row);
/* The rows of a block have all been added. -ENOMEM. */
int sums_end_block(struct sums *s);
/*
 * All rows have been added. *ret_again: they must be added once more, after sums_next. -ENOMEM.
 */
int sums_end(struct sums *s, bool *ret_again);
/* Begin the next pass. -ENOMEM. */
int sums_next(struct sums *s);
/* Make the sums the rows of the query. -ENOMEM. */
int sums_give(struct sums *s);

#endif
