/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the makers of tables share: by function, by keys (table.c), by one wide key (top.c);
 * split.c.
 */
#ifndef ASCRIBE_QUERY_TABLE_INT_H
#define ASCRIBE_QUERY_TABLE_INT_H

#include "query/query_int.h"
#include "util/buf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What backs a table: query_table must stay the first member. */
struct table {
	struct query_table table;
	size_t cap;
	char **texts; /* everything that rows point to, but for the store's strings */
	size_t n_texts, texts_cap;
	struct store_row other; /* of the sets that were cut: samples and value */
};

int table_add_row(struct table *t, const struct query_table_row *row);
struct value {
	const char *text; /* with a NUL behind it */
	size_t len;
	bool present;
	char number[24];
};

/* Fill in values, present and text of a row, as copies that live as long as the table. */
int table_row_of_values(struct table *t, const struct value *values, size_t n,
			struct query_table_row *row);
/* Rows of several tables are matched by their values: are these a row's? */
bool table_row_has_values(const struct query_table_row *row, const char *const *values,
			  const bool *present, size_t n);
/* Append bytes that differ where the values do. */
int table_row_add_values(struct buf *to, const struct query_table_row *row, size_t n);
#define TABLE_NO_GROUP UINT32_MAX
/*
 * Add a row for each group of values, in any order. groups: NULL, or [q->n_rows], which gets the
 * row of the table that each row of the query is in; TABLE_NO_GROUP: the budget cut its labels.
 */
int table_by_keys(struct query *q, const char *const *keys, size_t n_keys, struct table *t,
		  uint32_t *groups);
void table_sort(struct table *t, size_t n_keys);
void table_set_intervals(const struct query *q, struct query_table *t);

#endif
