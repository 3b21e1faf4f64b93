/* SPDX-License-Identifier: Apache-2.0 */
/* The SQL behind the query ids of a table, below it. */
#include "cli/report.h"

#include "cli/cmd.h"
#include "opt/term.h"
#include "opt/text.h"
#include "sql/texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMN 22 /* of an id */

static size_t collect_ids(const struct query_table *t, size_t column, size_t limit, int64_t *ids)
{
	size_t n = 0;
	for (size_t i = 0; i < t->n_rows && i < limit && n < SQL_IDS_MAX; i++) {
		const char *text = t->rows[i].other ? "" : t->rows[i].values[column];
		char *end;
		long long id = strtoll(text, &end, 10);
		if (*text && !*end)
			ids[n++] = id;
	}
	return n;
}

/* Print a statement in one line: its line feeds and runs of blanks are one blank each. */
static void print_statement(int64_t id, char *sql, bool full)
{
	char *to = sql;
	for (const char *p = sql; *p; p++)
		if (!strchr(" \t\r\n", *p))
			*to++ = *p;
		else if (to > sql && to[-1] != ' ')
			*to++ = ' ';
	*to = 0;
	printf("%*lld  ", COLUMN - 2, (long long)id);
	text_put(stdout, sql, full ? 0 : term_room(COLUMN));
	putchar('\n');
}

void report_sql(struct sql_texts *sql, const struct report *opts, const struct query_table *t,
		size_t limit)
{
	int64_t ids[SQL_IDS_MAX];
	char *text[SQL_IDS_MAX] = { NULL }, error[SQL_ERROR_MAX];
	size_t column = 0, n;
	while (column < opts->by.n && strcmp(opts->by.v[column], "query_id"))
		column++;
	n = column < opts->by.n ? collect_ids(t, column, limit, ids) : 0;
	if (!sql || !n)
		return;
	enum sql_state state = sql_texts_look(sql, ids, n, text, error);
	if (state == SQL_PENDING) {
		sql_texts_wait(sql);
		for (size_t i = 0; i < n; i++)
			free(text[i]);
		state = sql_texts_look(sql, ids, n, text, error);
	}
	bool any = false;
	for (size_t i = 0; i < n; i++) {
		bool twice = false; /* with another label beside it */
		for (size_t k = 0; k < i; k++)
			twice |= ids[k] == ids[i];
		if (!text[i] || twice)
			continue;
		if (!any)
			printf("\n%*s  STATEMENT\n", COLUMN - 2, "query_id");
		any = true;
		print_statement(ids[i], text[i], opts->full_names);
	}
	if (state != SQL_DONE)
		cmd_say("--postgres: %s", state == SQL_FAILED ? error : "no answer in time");
	else if (!any)
		cmd_say("--postgres: pg_stat_statements has none of these query ids");
	for (size_t i = 0; i < n; i++)
		free(text[i]);
}
