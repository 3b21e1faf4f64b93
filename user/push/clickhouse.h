/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of ascribe's tables in ClickHouse (deploy/clickhouse), in RowBinary.
 *
 *   rows of an event --> ascribe_stacks, ascribe_sets, ascribe_series: those not sent this day
 *                    '-> ascribe_samples, with a token: the server drops it when it comes again
 *   end of a window  --> ascribe_windows, with a token
 *
 * What rows refer to goes out before them: a break leaves no row without its stack.
 */
#ifndef ASCRIBE_PUSH_CLICKHOUSE_H
#define ASCRIBE_PUSH_CLICKHOUSE_H

#include "push/message.h"

struct clickhouse;

int clickhouse_new(struct clickhouse **ret, struct err *err);
void clickhouse_free(struct clickhouse *c);

/* push_format.encode: the rows of a part. */
int clickhouse_encode(struct push_message *m, struct err *err);
/* push_format.end_window: the window itself. */
int clickhouse_end_window(struct push_message *m, struct err *err);
/* A message was not taken: what it had is to be sent again. */
void clickhouse_forget(struct clickhouse *c);

/* The second that the rows of a window have: the greater half of it begins there. */
uint32_t clickhouse_time(const struct store_block *b);

#endif
