/* SPDX-License-Identifier: Apache-2.0 */
#include "sql/libpq.h"

#include "sql/messages.h"
#include "util/library.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LIBPQ "libpq.so.5"

int libpq_load(struct libpq *l, char *why)
{
	void *lib = library_open(LIBPQ);
	const struct {
		const char *name;
		void *to;
	} names[] = {
		{ "PQconnectdb", &l->connect },	  { "PQstatus", &l->status },
		{ "PQerrorMessage", &l->error },  { "PQsetClientEncoding", &l->set_encoding },
		{ "PQexecParams", &l->query },	  { "PQresultStatus", &l->result },
		{ "PQntuples", &l->n_rows },	  { "PQgetvalue", &l->value },
		{ "PQconninfoParse", &l->parse }, { "PQconndefaults", &l->defaults },
	};
	for (size_t i = 0; lib && i < sizeof(names) / sizeof(names[0]); i++) {
		void *f = library_symbol(lib, names[i].name);
		memcpy(names[i].to, &f, sizeof(f));
		if (!f)
			lib = NULL;
	}
	if (!lib)
		snprintf(why, SQL_ERROR_MAX, "%s", library_missing(LIBPQ, "libpq5"));
	return lib ? 0 : -ELIBACC;
}
