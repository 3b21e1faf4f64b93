/* SPDX-License-Identifier: Apache-2.0 */
/* Summing the rows of a query's blocks: by stack, by label set, or by both. */
#ifndef ASCRIBE_QUERY_SUM_H
#define ASCRIBE_QUERY_SUM_H

#include "query/cover.h"
#include "query/reasons.h"
#include "query/runs.h"

struct sum {
	uint64_t samples, value;
};

/* Sums by a dense id: of stacks or of label sets. */
struct id_sums {
	struct sum *v; /* [n] */
	size_t n;
};

/* Whether a stack is that of an idle CPU, by stack. */
struct idle_stacks {
	uint8_t *v; /* [n] */
	size_t n;
};

/* What a query asks for, as it was worked out before any row is read. */
struct choice {
	struct query_spec spec; /* the range in whole windows */
	struct selector *selector;
	struct measures measures;
	struct wait_choice waits;
	struct plan plan;
};

struct summing {
	struct query *q;
	struct choice *of;
	bool once;		      /* no rows are left out: idle samples are counted on the way */
	struct id_sums sums;	      /* by stack with QUERY_NO_LABELS, by set with QUERY_KEYS */
	struct runs runs;	      /* else */
	struct store_folding folding; /* QUERY_NO_LABELS: of what is read without labels */
	struct idle_stacks idle;
	unsigned unchecked; /* rows since the memory was looked at */
	struct err *err;
};

/* Sum up all blocks of the plan. The sums must be freed whatever the result. */
int summing_read(struct summing *m, struct query *q, struct choice *of, struct err *err);
void summing_fini(struct summing *m);

bool sum_is_idle(const struct store *s, uint32_t stack);

/* Make the sums q's rows (finish.c). -ENOMEM. */
int summing_finish(struct summing *m);

#endif
