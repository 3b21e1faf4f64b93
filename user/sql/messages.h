/* SPDX-License-Identifier: Apache-2.0 */
/* What texts.c and the process that asks send each other: one packet each. */
#ifndef ASCRIBE_SQL_MESSAGES_H
#define ASCRIBE_SQL_MESSAGES_H

#include "sql/texts.h"

struct sql_question {
	uint64_t number; /* random: no process of an earlier question can have answered it */
	uint32_t n;
	int64_t id[SQL_IDS_MAX];
};

struct sql_answer {
	uint64_t number;	   /* of the question */
	char error[SQL_ERROR_MAX]; /* "": none */
	uint32_t n;		   /* statements, in data one behind the other with a NUL each */
	int64_t id[SQL_IDS_MAX];
	char data[SQL_IDS_MAX * (4 * SQL_TEXT_MAX + 1)]; /* UTF-8 */
};

/* Ask until the other end of fd is closed. */
_Noreturn void sql_ask_run(int fd, const char *conninfo);

#endif
