/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The difference between two queries, A beside the baseline B: what changed, and what is only
 * chance.
 *
 * Rows are matched by what they show (function and module, or the values of the keys), so that the
 * two may be of different stores. What is compared is either the share of each row in its side's
 * samples, or its absolute amount: CPU time per time covered by the windows that were read.
 *
 * Significance, per row: for shares Fisher's exact test, for amounts the exact binomial test of two
 * rates (see stats.h, which also says what large counts get). Many rows are tested at once, so the
 * p-values are adjusted by Benjamini and Hochberg. A row is a change when its q is below
 * QUERY_DIFF_RATE. At most that share of the rows called a change are wrong, on average. Rows with
 * so few samples that not even all of them on one side would give p below that cannot be told from
 * noise. They are not tested and weaken nobody else's test (after Tarone). Everything that is no
 * change is noise.
 */
#ifndef ASCRIBE_QUERY_DIFF_H
#define ASCRIBE_QUERY_DIFF_H

#include "query/view.h"

#define QUERY_DIFF_RATE 0.05

enum query_diff_verdict {
	DIFF_NOISE = 0,
	DIFF_MORE, /* A has more of it than B */
	DIFF_LESS,
};

struct query_diff_spec {
	const char *const *keys; /* NULL: by function */
	size_t n_keys;
	/*
	 * Functions: compare samples with the function anywhere on the stack, not only as the leaf
	 */
	bool inclusive;
	bool absolute; /* compare amounts, not shares */
};

/* [0] is A, [1] is B. */
struct query_diff_row {
	const char *text, *module; /* as in struct query_table_row */
	const char *const *values;
	const bool *present;
	uint64_t samples[2], self[2];
	uint64_t count[2]; /* the one of the two that is compared */
	double share[2];   /* count / the side's samples, 0 when it has none */
	double rate[2];	   /* count per second covered */
	double change;	   /* share[0] - share[1] */
	double low, high;  /* 95% interval of change, of this row by itself */
	/* Of the shares, or of the rates when absolute; INFINITY when B has none */
	double ratio;
	double p, q; /* q: adjusted; 1 when not tested */
	bool tested;
	bool other; /* what the budget of the queries cut; never tested */
	enum query_diff_verdict verdict;
};

struct query_diff {
	/* Changes before noise, then by the size of the change, descending; ties by text */
	struct query_diff_row *rows;
	size_t n_rows, n_tested, n_changed;
	uint64_t samples[2];
	double covered_s[2];
};

/* Both queries (and their stores) must outlive the diff. */
int query_diff(struct query_diff **ret, struct query *a, struct query *b,
	       const struct query_diff_spec *spec, struct err *err);
void query_diff_free(struct query_diff *d);

/*
 * How many samples are in both queries of one store: those that both selectors admit, of the
 * windows that both read. The tests take the two sides for apart. a, b: of the same event, and
 * by_start.
 */
int query_diff_shared(struct store *s, const struct query_spec *a, const struct query_spec *b,
		      uint64_t *ret, struct err *err);

/* ---- merged tree, for a flame graph of the difference ---- */

struct query_diff_node {
	const char *text, *module; /* "" for the root; owned by the tree */
	/* As in struct query_node; children by both totals, descending */
	uint32_t parent, first_child, next_sibling;
	uint64_t self[2], total[2];
	/*
	 * One of those that it stands for, of the store that it was seen in first: A's, if it is
	 * there
	 */
	uint32_t frame;
};

struct query_diff_tree {
	struct query_diff_node *nodes; /* parents before children, the root first */
	size_t n_nodes;
};

/*
 * One node for each path of (name, module): frames of one function that differ in line are one
 * here.
 */
int query_diff_tree(struct query_diff_tree **ret, struct query *a, struct query *b,
		    struct err *err);
/* The same of two views; spec NULL: of the trees themselves. */
int query_diff_view(struct query_diff_tree **ret, struct query *a, struct query *b,
		    const struct query_view_spec *spec, struct err *err);
void query_diff_tree_free(struct query_diff_tree *t);

/*
 * enum query_diff_verdict of the shares counts[i][0] of all[0] and counts[i][1] of all[1], as those
 * of a table's rows. -ENOMEM.
 */
int query_diff_verdicts(const uint64_t (*counts)[2], size_t n, const uint64_t all[2], uint8_t *ret);

#endif
