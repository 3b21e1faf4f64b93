/* SPDX-License-Identifier: Apache-2.0 */
#include "push/tables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__asm__(".section .rodata\n"
	".global clickhouse_sql\n"
	"clickhouse_sql:\n"
	".incbin \"" CLICKHOUSE_SQL "\"\n"
	".byte 0\n"
	".previous\n");

extern const char clickhouse_sql[];

#define SECTION "\n-- schema "
#define VERSION_MAX 1000000

/* Views have no rows of their own, and no comment in older versions. */
#define FIND \
	"SELECT countIf(name = 'ascribe_schema'), " \
	"minIf(name, comment != 'ascribe' AND engine NOT LIKE '%View') FROM system.tables " \
	"WHERE database = currentDatabase() AND name LIKE 'ascribe\\_%' FORMAT TabSeparated"
#define VERSION "SELECT max(version) FROM ascribe_schema FORMAT TabSeparated"

/* Where the table is Distributed, the one behind it says so. */
#define LOOK \
	"SELECT max(toUInt32OrZero(extract(create_table_query, " \
	"'TTL toDate\\\\(time\\\\) \\\\+ toIntervalDay\\\\((\\\\d+)\\\\)'))), " \
	"if(countIf(engine = 'MergeTree') = count(), 'forgetful', '') FROM system.tables WHERE " \
	"database = currentDatabase() AND name IN ('ascribe_samples', 'ascribe_samples_local') " \
	"FORMAT TabSeparated"

/* The number that an answer begins with; what is none is 0. */
static unsigned long number(const struct buf *b)
{
	char digits[16] = "";
	memcpy(digits, b->data, b->len < sizeof(digits) ? b->len : sizeof(digits) - 1);
	unsigned long n = strtoul(digits, NULL, 10);
	return n < VERSION_MAX ? n : VERSION_MAX;
}

/* What stands behind the first tab, without what a terminal would obey. */
static void copy_name(char *to, size_t cap, const struct buf *b)
{
	const uint8_t *tab = b->len ? memchr(b->data, '\t', b->len) : NULL;
	size_t n = 0;
	for (const uint8_t *c = tab ? tab + 1 : NULL; c && c < b->data + b->len && *c != '\n'; c++)
		if (n < cap - 1)
			to[n++] = *c > ' ' && *c <= '~' ? (char)*c : '?';
	to[n] = 0;
}

static int find_version(tables_ask *ask, void *ctx, unsigned long *ret, struct err *err)
{
	const struct buf *b;
	char foreign[100];
	int rc = ask(ctx, FIND, strlen(FIND), &b, err);
	if (rc)
		return rc;
	copy_name(foreign, sizeof(foreign), b);
	if (foreign[0])
		return err_set(err, -EEXIST,
			       "clickhouse: the table %s that is there is not ascribe's: name "
			       "another database in the URL (?database=NAME), or rename the table",
			       foreign);
	*ret = 0;
	if (!number(b))
		return 0;
	rc = ask(ctx, VERSION, strlen(VERSION), &b, err);
	*ret = rc ? 0 : number(b);
	return rc;
}

/* Run the statements from `at` to the next section. Comments go with them. */
static int run_section(tables_ask *ask, void *ctx, const char *at, struct err *err)
{
	const char *end = strstr(at, SECTION);
	int rc = 0;
	end = end ? end : at + strlen(at);
	for (const char *stop; !rc && (stop = strstr(at, ";\n")) && stop < end; at = stop + 2) {
		const struct buf *b;
		rc = ask(ctx, at, (size_t)(stop - at), &b, err);
	}
	return rc;
}

int tables_check(tables_ask *ask, void *ctx, bool create, struct err *err)
{
	unsigned long version, newest = 0;
	int rc = find_version(ask, ctx, &version, err);
	for (const char *s = clickhouse_sql; !rc && (s = strstr(s, SECTION)); s++) {
		unsigned long n = strtoul(s + strlen(SECTION), NULL, 10);
		newest = n;
		if (n > version && create)
			rc = run_section(ask, ctx, strchr(s + 1, '\n'), err);
	}
	if (!rc && create && version < newest)
		rc = find_version(ask, ctx, &version, err);
	if (rc || version >= newest)
		return rc;
	if (!version)
		return err_set(err, -ENOENT,
			       "clickhouse: the database has no tables of ascribe: add "
			       "--create-tables (create-tables: true), or run a file of "
			       "deploy/clickhouse there");
	return err_set(err, -ENOENT,
		       "clickhouse: the tables are of schema %lu, this version writes %lu: add "
		       "--create-tables (create-tables: true), or run a file of deploy/clickhouse "
		       "there",
		       version, newest);
}

int tables_look(tables_ask *ask, void *ctx, struct tables_state *ret, struct err *err)
{
	const struct buf *b;
	int rc = ask(ctx, LOOK, strlen(LOOK), &b, err);
	*ret = (struct tables_state){ 0 };
	if (rc)
		return rc;
	char kind[16];
	copy_name(kind, sizeof(kind), b);
	ret->days = number(b);
	ret->forgetful = !strcmp(kind, "forgetful");
	return 0;
}
