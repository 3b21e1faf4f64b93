/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a rate over time changed for good, or was high for a moment.
 *
 * Steps of one length; NAN where nothing was recorded. A change for good is the split after which
 * the rates differ most from those before, by the ranks of the steps (Mann and Whitney), corrected
 * for the number of splits that were tried. A burst is a run of steps that are nearer to the
 * highest one than to what is usual, as no other step is; its p is that of its counts. Where it
 * goes on to the last step, it is a change for good: the ranks of a few steps can show none. Of a
 * split and a burst the one that explains more is told. Neighbouring steps are not independent
 * draws: so a change must also be large, and beyond what nine of ten steps before it had.
 */
#ifndef ASCRIBE_QUERY_CHANGE_H
#define ASCRIBE_QUERY_CHANGE_H

#include <stddef.h>

#define CHANGE_STEPS_MIN 3   /* on each side of a split */
#define CHANGE_RATIO 1.25    /* of the rates after and before, or before and after */
#define CHANGE_BURST_RATIO 2 /* of the rates in a burst and besides */

enum change_kind {
	CHANGE_NONE = 0,
	CHANGE_MORE, /* from `begin` to the end */
	CHANGE_LESS,
	CHANGE_BURST, /* from `begin` to `end`, and not otherwise */
};

struct change {
	enum change_kind kind;
	size_t begin, end; /* steps */
	/* Mean rates: from begin to end, and before (CHANGE_BURST: of all other steps) */
	double inside, outside;
	double p;
	double explained; /* of the squares of the steps' differences from their mean */
};

struct change_spec {
	size_t from;  /* changes before this step do not count */
	double least; /* of the difference of the rates, and of a burst's */
	double least_burst;
	double per_step; /* samples in a step at rate 1: what the test of a burst counts */
};

/* -ENOMEM. p is that of the best split also where there is no change. */
int change_find(struct change *ret, const double *rate, size_t n, const struct change_spec *spec);

#endif
