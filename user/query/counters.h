/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the blocks of a range count beside their rows: query_info's fired, stored, lost, covered_ns,
 * ...
 */
#ifndef ASCRIBE_QUERY_COUNTERS_H
#define ASCRIBE_QUERY_COUNTERS_H

#include "query/query_int.h"

/* -ENOMEM. */
int counters_init(struct query *q);
int counters_add(struct query *q, const struct store_block *b, struct err *err);

#endif
