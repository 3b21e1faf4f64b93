/* SPDX-License-Identifier: Apache-2.0 */
/* A query by one wide key, from what blocks keep of it. */
#ifndef ASCRIBE_QUERY_VALUES_H
#define ASCRIBE_QUERY_VALUES_H

#include "query/query_int.h"

/*
 * Whether a range has blocks above the windows, which keep values of this wide key. Reads no block.
 */
bool values_kept(struct store *s, const char *key, int64_t from_ns, int64_t to_ns);
/* Whether the query may be answered like this. */
bool values_serve(struct store *s, const struct query_spec *spec);
/*
 * Blocks above the windows keep the most frequent values of a wide key. Where those are all that
 * there are, nothing else needs to be read. *ret is NULL where they are not, or where samples of
 * idle CPUs may be among them.
 */
int values_open(struct query **ret, struct store *s, const struct query_spec *spec,
		struct err *err);

#endif
