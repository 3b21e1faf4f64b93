/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which cgroups are recorded, and at which rate, by the labels that follow from a cgroup: cgroup,
 * unit, and those of pod_labels.h.
 *
 *   row, or new process: cgroup id -> path -> labels -> rules -> answer
 *                                                                 |
 *                     table in shared memory, which BPF reads <---'
 *
 * 1. A cgroup is recorded at the highest rate until there is an answer. Its rows then wait for the
 *    answer, and are stored or left out by it: no first sample is missed.
 * 2. While names are on their way (pods.h) there is no answer. If they do not come in time, the
 *    rules see the labels that are there: ids alone.
 * 3. When pods come or change, all answers are given anew.
 * 4. What is in the root of the v2 hierarchy may be in a v1 cgroup, which /proc names. Its rows are
 *    stored or left out one by one, and all have the first rate.
 * 5. Kernel threads have no labels.
 *
 * Not thread-safe.
 */
#ifndef ASCRIBE_ATTRIBUTE_CHOOSER_H
#define ASCRIBE_ATTRIBUTE_CHOOSER_H

#include "pods/pods.h"
#include "proc/proc.h"
#include "query/selector.h"
#include "sampler/sampler.h"

#define SELECTION_RULES_MAX 64 /* of each kind */

/* How much a pod's annotations (profile in pod_labels.h) say. */
enum selection_annotated {
	ANNOTATED_IGNORE,
	ANNOTATED_OUT, /* "false": the pod is not recorded */
	ANNOTATED_IN,  /* only "true" is recorded, besides what a rule selects; "false" is not */
};

struct selection_rule {
	struct selector *selector;
	const char *text; /* borrowed */
	unsigned rate;	  /* of rates: index in selection_rules.rates */
	bool matched;	  /* something, so far */
};

struct selection_list {
	struct selection_rule v[SELECTION_RULES_MAX];
	size_t n;
};

struct selection_rules {
	enum selection_annotated annotated;
	/* Recorded is what any of `in` matches, or everything without `in`, and none of `out` */
	struct selection_list in, out, rate; /* the first of `rate` that matches counts */
	unsigned rates[RATES_MAX], n_rates;  /* in Hz, [0]: of what no rule names */
};

/* Are there any? Do some leave cgroups out? */
bool selection_rules_any(const struct selection_rules *r);
bool selection_rules_select(const struct selection_rules *r);

struct chooser;

/* rules, s and procs are borrowed. 0 or -ENOMEM. */
int chooser_new(struct chooser **ret, struct selection_rules *rules, struct sampler *s,
		struct procs *procs);
void chooser_free(struct chooser *s);
/* Names from here on; NULL: ids alone. */
void chooser_set_pods(struct chooser *s, struct pods *p);

/* A process was sampled for the first time, in this v2 cgroup: decide of it soon. */
void chooser_note(struct chooser *s, uint64_t cgroup);

/*
 * Is a row of this cgroup left out? im: of its process, may be NULL. *ret_late: names are on their
 * way, and the answer is by the labels that are there.
 */
bool chooser_leaves_out(struct chooser *s, uint64_t cgroup, const struct proc_image *im,
			bool kthread, bool *ret_late);

/* Give answers anew if pods changed. Return ms until it is due again; -1: not before they change */
int chooser_tick(struct chooser *s, uint64_t now_ns);

#endif
