/* SPDX-License-Identifier: Apache-2.0 */
/* libpq, which is loaded when a question is asked: a host without it needs none. */
#ifndef ASCRIBE_SQL_LIBPQ_H
#define ASCRIBE_SQL_LIBPQ_H

/* The part of libpq's interface that is used, as libpq-fe.h of version 15 declares it. */
struct libpq_option {
	char *keyword, *variable, *compiled, *value, *label, *shown;
	int shown_size;
};

struct libpq {
	struct libpq_option *(*parse)(const char *conninfo, char **ret_why);
	struct libpq_option *(*defaults)(void);
	void *(*connect)(const char *conninfo);
	int (*status)(const void *conn);
	char *(*error)(const void *conn);
	int (*set_encoding)(void *conn, const char *encoding);
	void *(*query)(void *conn, const char *sql, int n, const unsigned *types,
		       const char *const *values, const int *lengths, const int *formats,
		       int result_format);
	int (*result)(const void *res);
	int (*n_rows)(const void *res);
	char *(*value)(const void *res, int row, int column);
};

enum { CONNECTION_OK = 0, PGRES_TUPLES_OK = 2 };

/* -ELIBACC: there is none; why, of SQL_ERROR_MAX bytes, says so. */
int libpq_load(struct libpq *l, char *why);

#endif
