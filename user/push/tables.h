/* SPDX-License-Identifier: Apache-2.0 */
/* Whether ClickHouse has ascribe's tables, and making them: deploy/clickhouse/one-node.sql. */
#ifndef ASCRIBE_PUSH_TABLES_H
#define ASCRIBE_PUSH_TABLES_H

#include "util/buf.h"
#include "util/err.h"

#include <stdbool.h>

/* Answer a statement; *ret is borrowed until the next one. 0, or -errno and err. */
typedef int tables_ask(void *ctx, const char *sql, size_t len, const struct buf **ret,
		       struct err *err);

/*
 * 0: they are there, of the schema of this program or a newer one, which takes its rows, too.
 * create: where they are missing or older, make them. -ENOENT: they are missing or older; -EEXIST:
 * a table of one of their names is not ascribe's. Else as ask.
 */
int tables_check(tables_ask *ask, void *ctx, bool create, struct err *err);

/* What of the tables matters to who inserts. */
struct tables_state {
	unsigned long days; /* that they keep whole windows, by the TTL of ascribe_samples; 0:
			       without end */
	bool forgetful;	    /* not replicated: they may know a token, and have lost its rows */
};

int tables_look(tables_ask *ask, void *ctx, struct tables_state *ret, struct err *err);

#endif
