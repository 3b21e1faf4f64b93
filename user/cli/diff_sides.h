/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of `ascribe diff` share: both selections, and what was found. */
#ifndef ASCRIBE_CLI_DIFF_SIDES_H
#define ASCRIBE_CLI_DIFF_SIDES_H

#include "cli/gate.h"
#include "cli/reading.h"
#include "query/diff.h"

/* The options. */
struct diff {
	struct filter filter; /* A */
	struct opt_list by, against_stores, fail_on;
	const char *against, *format;
	int64_t against_from_ns, against_to_ns;
	bool absolute, inclusive, changes_only, full_names;
};

/* Both sides open. */
struct sides {
	const struct diff *opts;
	struct filter filter[2];
	struct reading r[2];
	const struct query_diff *d;
	uint64_t shared;
	struct gate gate;
};

/* Are the sums of a metric compared, rather than samples? */
bool diff_is_amounts(const struct sides *s);
/* CPUs in use, or events per second. */
double diff_amount(const struct sides *s, int side, const struct query_diff_row *r);

/* The first n rows, for people. -ENOMEM. */
int diff_print_text(struct sides *s, size_t n);

#endif
