/* SPDX-License-Identifier: Apache-2.0 */
/* The process that asks a PostgreSQL server. It kills a child that takes too long, in libpq or not. */
#include "sql/messages.h"

#include "sandbox/child_end.h"
#include "sandbox/confine.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIBPQ "libpq.so.5"

static const char sql[] =
	"select distinct on (queryid) queryid::text, left(query, 1000) from pg_stat_statements "
	"where queryid = any($1::bigint[]) order by queryid, calls desc";
_Static_assert(SQL_TEXT_MAX == 1000, "as in the query");

/* The part of libpq's interface that is used, as libpq-fe.h of version 15 declares it. */
struct libpq {
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

static int load(struct libpq *l, char *why)
{
	void *lib = dlopen(LIBPQ, RTLD_NOW | RTLD_LOCAL);
	const struct {
		const char *name;
		void *to;
	} names[] = {
		{ "PQconnectdb", &l->connect },	 { "PQstatus", &l->status },
		{ "PQerrorMessage", &l->error }, { "PQsetClientEncoding", &l->set_encoding },
		{ "PQexecParams", &l->query },	 { "PQresultStatus", &l->result },
		{ "PQntuples", &l->n_rows },	 { "PQgetvalue", &l->value },
	};
	for (size_t i = 0; lib && i < sizeof(names) / sizeof(names[0]); i++) {
		void *f = dlsym(lib, names[i].name);
		memcpy(names[i].to, &f, sizeof(f));
		if (!f)
			lib = NULL;
	}
	if (!lib)
		snprintf(why, SQL_ERROR_MAX, LIBPQ " cannot be loaded: install libpq5");
	return lib ? 0 : -ELIBACC;
}

/* libpq ends its messages with a line feed, and says several at a time. */
static int fail(const struct libpq *l, const void *conn, char *why)
{
	snprintf(why, SQL_ERROR_MAX, "%s", l->error(conn));
	why[strcspn(why, "\n")] = 0;
	return -EIO;
}

/* Write "{1,2}". */
static void write_ids(const struct sql_question *q, char *out, size_t cap)
{
	size_t at = 0;
	for (uint32_t i = 0; i < q->n; i++)
		at += (size_t)snprintf(out + at, cap - at, "%c%lld", i ? ',' : '{',
				       (long long)q->id[i]);
	snprintf(out + at, cap - at, "}");
}

static int ask(const char *conninfo, const struct sql_question *q, struct sql_answer *a,
	       size_t *ret_used)
{
	struct libpq l = { 0 };
	char ids[SQL_IDS_MAX * 22 + 3];
	const char *const values[] = { ids };
	int rc = load(&l, a->error);
	void *conn = rc ? NULL : l.connect(conninfo);
	if (!rc && (!conn || l.status(conn) != CONNECTION_OK || l.set_encoding(conn, "UTF8")))
		rc = fail(&l, conn, a->error);
	if (rc)
		return rc;
	write_ids(q, ids, sizeof(ids));
	void *res = l.query(conn, sql, 1, NULL, values, NULL, NULL, 0);
	if (l.result(res) != PGRES_TUPLES_OK)
		return fail(&l, conn, a->error);
	for (int i = 0; i < l.n_rows(res) && a->n < SQL_IDS_MAX; i++) {
		const char *text = l.value(res, i, 1);
		size_t len = strlen(text) + 1;
		if (len > sizeof(a->data) - *ret_used)
			break;
		a->id[a->n++] = strtoll(l.value(res, i, 0), NULL, 10);
		memcpy(a->data + *ret_used, text, len);
		*ret_used += len;
	}
	return 0;
}

static struct sql_answer answer;

static void send_answer(int fd, size_t used)
{
	(void)!send(fd, &answer, offsetof(struct sql_answer, data) + used, MSG_NOSIGNAL);
}

static _Noreturn void run_child(int fd, const char *conninfo, const struct sql_question *q)
{
	size_t used = 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, roles[ROLE_SQL_ASKER].name);
	if (confine_reach(ROLE_SQL_ASKER, NULL))
		_exit(1);
	(void)ask(conninfo, q, &answer, &used); /* the answer says why */
	send_answer(fd, used);
	_exit(0);
}

_Noreturn void sql_ask_run(int fd, const char *conninfo)
{
	struct sql_question q;
	int status;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Root without capabilities: its password file can be opened, and no more. */
	if (confine_rights(ROLE_SQL_KEEPER, fd))
		_exit(1);
	signal(SIGINT, SIG_IGN); /* of a terminal: the other end closes, then */
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	while (recv(fd, &q, sizeof(q), 0) == sizeof(q) && q.n <= SQL_IDS_MAX) {
		memset(&answer, 0, offsetof(struct sql_answer, data));
		pid_t pid = fork();
		if (!pid)
			run_child(fd, conninfo, &q);
		if (pid > 0 && !child_end(pid, fd, SQL_DEADLINE_S, &status) && WIFEXITED(status) &&
		    !WEXITSTATUS(status))
			continue;
		snprintf(answer.error, sizeof(answer.error),
			 pid < 0 ? "no process can be started" : "no answer within %d s",
			 SQL_DEADLINE_S);
		send_answer(fd, 0);
	}
	_exit(0);
}
