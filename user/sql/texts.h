/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SQL behind query ids, from pg_stat_statements of a PostgreSQL server. A process of its own
 * asks; each question has another one, which loads libpq and ends after SQL_DEADLINE_S whatever it
 * hangs in. Callers never wait for it: what is not there yet is there when they look again.
 */
#ifndef ASCRIBE_SQL_TEXTS_H
#define ASCRIBE_SQL_TEXTS_H

#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SQL_TEXT_MAX 1000 /* characters of a statement */
#define SQL_IDS_MAX 64	  /* of one question */
#define SQL_KEPT_MAX 1024 /* statements, those that were looked up last */
#define SQL_DEADLINE_S 1
#define SQL_ERROR_MAX 200

/* The process that asks, and our end of its socket. */
struct sql_asker {
	int fd;
	pid_t pid; /* 0: another process's child */
};

#define SQL_ASKER_NONE { -1, 0 }

/*
 * Fork the process. conninfo is a connection string of libpq, which is not looked at before the
 * first question. Call it before there are threads.
 */
int sql_asker_start(struct sql_asker *ret, const char *conninfo, struct err *err);
void sql_asker_stop(struct sql_asker *a);

struct sql_texts;

/* Texts of the process whose socket this is, which is borrowed. -ENOMEM. */
int sql_texts_new(struct sql_texts **ret, int fd);
void sql_texts_free(struct sql_texts *t);

/* The end of a look-up: why texts are missing. */
enum sql_state {
	SQL_DONE = 0, /* the server knows no other */
	SQL_PENDING,  /* a question is on its way: look again */
	SQL_FAILED,   /* the last question failed: ret_error */
};

/*
 * Look up statements; text[i] is a copy to be freed, or NULL. At most SQL_IDS_MAX. Any thread.
 * What failed or is unknown is asked for again after some seconds.
 */
enum sql_state sql_texts_look(struct sql_texts *t, const int64_t *ids, size_t n, char **text,
			      char ret_error[static SQL_ERROR_MAX]);

/* Wait until the question on its way is answered, at most twice the deadline. */
void sql_texts_wait(struct sql_texts *t);

#endif
