/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that make answers share. */
#ifndef ASCRIBE_EXPORT_ANSWER_INT_H
#define ASCRIBE_EXPORT_ANSWER_INT_H

#include "export/answer.h"

/* Seconds that so many samples of the query's event stand for. */
double answer_seconds(const struct query *q, uint64_t samples);

/* Set what the query read, and the sum of what it found. -ENOMEM. */
int answer_add_read(json_t *o, const struct query_info *info);
int answer_add_sum(json_t *o, const struct query_info *info);

#endif
