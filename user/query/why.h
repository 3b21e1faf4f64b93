/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One side of a comparison of times: how long a selection ran, waited for a CPU and was blocked,
 * and the lengths of its waits.
 */
#ifndef ASCRIBE_QUERY_WHY_H
#define ASCRIBE_QUERY_WHY_H

#include "query/lengths.h"

enum why_part { WHY_CPU, WHY_RUNQ, WHY_OFF, WHY_PARTS };

struct why_side {
	bool there;			/* windows were read */
	bool waits;			/* the store has waits (record --wall) */
	int64_t from_ns, to_ns;		/* used */
	double covered_s;
	bool bounded;			/* the budget cut something (query_info) */
	double seconds[WHY_PARTS];
	double idle_s;			/* of idle waits, which are not in seconds[WHY_OFF] unless asked for */
	uint64_t cpu_samples;		/* what seconds[WHY_CPU] comes from */
	struct query *part[WHY_PARTS];	/* NULL: nothing of the kind in the store */
	struct query_lengths *lengths[WHY_PARTS]; /* of runq and off; NULL: not to be had for this selector */
};

/*
 * spec: where, rest, idle and the range. lengths: also those, which the caller has seen to be kept
 * by what the selector asks for. The side must be closed whatever the result.
 */
int why_side_open(struct why_side *ret, struct store *s, const struct query_spec *spec, bool lengths, struct err *err);
void why_side_close(struct why_side *s);

/* All of its time, and a part's share of it. */
double why_wall(const struct why_side *s);
double why_share(const struct why_side *s, enum why_part part);

/* The histogram of a part, NULL: none. */
const struct hist_snapshot *why_lengths(const struct why_side *s, enum why_part part);

#endif
