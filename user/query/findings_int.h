/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of findings share. */
#ifndef ASCRIBE_QUERY_FINDINGS_INT_H
#define ASCRIBE_QUERY_FINDINGS_INT_H

#include "query/findings.h"
#include "query/series.h"

/* The search for findings. */
struct looking {
	struct store *store;
	const struct findings_spec *spec;
	struct err *err;
	int64_t from_ns, to_ns, before_ns, step_ns;
	size_t n_cpus;
	int64_t without_waits_ns;
	const char *cpu_event;
	struct query_series *cpu; /* by keys[0], of all samples; NULL: not asked for yet */
	bool has_before, has_day, has_waits, has_wakers, bounded;
	const char *keys[FINDINGS_CHOSEN_MAX];
	size_t n_keys;
	struct finding *v;
	size_t n, cap;
	double *p;    /* of all tests, */
	size_t *told; /* and the finding of each, plus one; 0: nothing changed */
	size_t n_p, cap_p, cap_told;
	char **texts; /* what findings point to */
	size_t n_texts, cap_texts;
};

struct kept {
	struct findings f;
	struct looking l;
};

/* Keep a copy of a text, NULL for NULL. -ENOMEM. */
int findings_keep(struct looking *l, const char *text, const char **ret);
int findings_add(struct looking *l, const struct finding *f);

/* Choose who it is, by the best label that there is, and labels that programs gave their work. */
int findings_choose_keys(struct looking *l);

/* Make one finding of those that the same samples have, and of all who wait for a CPU. */
int findings_merge(struct looking *l);

/*
 * Name the code that the largest growths are in, who started it, who held the lock. Findings must
 * be in order.
 */
int findings_explain(struct looking *l);
int findings_explain_wait(struct looking *l, struct finding *f, const char *where);

/* Return the selector with one more matcher, to be freed. NULL: out of memory. */
char *findings_where(const char *where, const char *key, const char *value);

/* Add files that have a build in the range which they did not have before. */
int findings_builds(struct looking *l);

#endif
