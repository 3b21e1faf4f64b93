/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds more memory at the end of a range than at its beginning: live bytes by the values of a
 * label, and the stacks that allocated what is new.
 */
#ifndef ASCRIBE_QUERY_GROWTH_H
#define ASCRIBE_QUERY_GROWTH_H

#include "query/query.h"

#define GROWTH_STACKS 3 /* of a value */

struct growth_stack {
	uint32_t stack;
	int64_t bytes; /* more than at the beginning */
};

struct growth_row {
	char *value;	      /* NULL: without the label */
	uint64_t first, last; /* live bytes, averages of the two ends */
	double bytes_per_s;   /* between them */
	/*
	 * The chance that a value grows so much by the sampling alone, times the number of values.
	 * Below GROWTH_CHANCE it grows.
	 */
	double chance;
	bool grows;
	struct growth_stack stacks[GROWTH_STACKS]; /* that grew most; 0 bytes: none */
};

#define GROWTH_CHANCE 0.05

struct growth {
	int64_t from_ns, to_ns;	 /* used: whole windows */
	double end_s;		 /* length of each end */
	uint64_t first, last;	 /* of all values */
	struct growth_row *rows; /* by growth, descending */
	size_t n_rows;
	struct query *ends[2];
};

/*
 * spec: where, range, names. -ENODATA: the range has less than two windows. Else as query_open.
 * Close it whatever the result.
 */
int growth_open(struct growth *ret, struct store *s, const struct query_spec *spec, const char *key,
		struct err *err);
void growth_close(struct growth *g);

#endif
