/* SPDX-License-Identifier: Apache-2.0 */
/* What the process that asks a PostgreSQL server may reach: that server, and the files for it. */
#ifndef ASCRIBE_SQL_REACH_H
#define ASCRIBE_SQL_REACH_H

#include "sql/libpq.h"

/* Give up all else, before anything comes from the server. conninfo: as libpq takes it. */
int sql_reach_confine(const struct libpq *l, const char *conninfo);

#endif
