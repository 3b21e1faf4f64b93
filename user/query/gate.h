/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judge rules: a growth between two sides of a comparison, or the accounting of a recording.
 *
 * A growth breaks a rule only where it is certain to be over the limit. The bound of its
 * confidence interval decides, with both sides' noise in it. All rows that could break a rule share
 * GATE_ERROR between them (Bonferroni). So of 100 comparisons where nothing grew beyond the limit,
 * at most one breaks the rule by chance. Samples are taken as independent draws (query/stats.h):
 * what varies from run to run has to be in the limit, or averaged over several runs.
 *
 * Counts of a recording are exact. They have no interval.
 */
#ifndef ASCRIBE_QUERY_GATE_H
#define ASCRIBE_QUERY_GATE_H

#include "query/account.h"
#include "query/diff.h"
#include "query/gate_rule.h"

#define GATE_ERROR 0.01
#define GATE_LINES_MAX 20 /* of a verdict; more are counted */
#define GATE_RULES_MAX 64

enum gate_verdict {
	GATE_HOLDS,
	GATE_BROKEN,
	GATE_UNKNOWN, /* nothing to judge by: no samples, no row of that name, an answer cut */
};

/* In one line each; bytes of names are as other programs chose them. */
struct gate_result {
	const struct gate_rule *rule;
	enum gate_verdict verdict;
	char *line[GATE_LINES_MAX]; /* what broke it, or why there is no verdict */
	size_t n_lines, n_broken;   /* n_broken: also those beyond the last line */
	size_t n_unsure;	    /* rows over the limit that may be noise */
	char *note;		    /* what would still pass unseen; NULL: nothing to say */
};

struct gate_sides {
	const struct query_diff *d;
	const char *const *keys; /* NULL: by function */
	size_t n_keys;
	/*
	 * What amounts are per: recordings, or seconds covered, over the nanoseconds of a sample.
	 * > 0.
	 */
	double exposure[2];
	bool bounded; /* the budget cut an answer */
};

/*
 * Can this rule be judged for rows by these keys, or of a recording with these counters? -EINVAL:
 * err says what is allowed.
 */
int gate_check_diff(const struct gate_rule *r, const char *const *keys, size_t n_keys,
		    struct err *err);
int gate_check_account(const struct gate_rule *r, const struct store_meta *m, struct err *err);

/* A checked rule. -ENOMEM; -E2BIG: a regular expression took too many steps. Release the result. */
int gate_judge_diff(const struct gate_rule *r, const struct gate_sides *s, struct gate_result *ret,
		    struct err *err);
int gate_judge_account(const struct gate_rule *r, const struct account *a,
		       const struct store_meta *m, struct gate_result *ret, struct err *err);
void gate_result_fini(struct gate_result *r);

#endif
