/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that asks a PostgreSQL server: a child for each question, which it kills when that
 * takes too long, in libpq or not.
 */
#include "sql/messages.h"

#include "sandbox/child_end.h"
#include "sandbox/confine.h"
#include "sql/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char sql[] =
	"select distinct on (queryid) queryid::text, left(query, 1000) from pg_stat_statements "
	"where queryid = any($1::bigint[]) order by queryid, calls desc";
_Static_assert(SQL_TEXT_MAX == 1000, "as in the query");

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
	int rc = libpq_load(&l, a->error);
	if (!rc && sql_reach_confine(&l, conninfo))
		_exit(1);
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
	(void)ask(conninfo, q, &answer, &used); /* the answer says why */
	send_answer(fd, used);
	_exit(0);
}

/*
 * Wait for a question. Whoever serves asks, and may have been taken over: what is none is passed
 * over. False: nobody is there any more.
 */
static bool next_question(int fd, struct sql_question *ret)
{
	for (;;) {
		const ssize_t n = recv(fd, ret, sizeof(*ret), 0);
		struct pollfd p = { .fd = fd };
		if (n == sizeof(*ret) && ret->n <= SQL_IDS_MAX)
			return true;
		if (n < 0 && errno != EINTR)
			return false;
		if (n == 0 && poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR))
			return false; /* else it was an empty packet */
	}
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
	while (next_question(fd, &q)) {
		memset(&answer, 0, offsetof(struct sql_answer, data));
		answer.number = q.number;
		pid_t pid = fork();
		if (!pid)
			run_child(fd, conninfo, &q);
		const bool answered = pid > 0 &&
				      !child_end(pid, fd, SQL_DEADLINE_S, NULL, NULL, &status) &&
				      WIFEXITED(status) && !WEXITSTATUS(status);
		fcntl(fd, F_SETFL, O_RDWR); /* one that was taken over may have had it not block */
		if (answered)
			continue;
		snprintf(answer.error, sizeof(answer.error),
			 pid < 0 ? "no process can be started" : "no answer within %d s",
			 SQL_DEADLINE_S);
		send_answer(fd, 0);
	}
	_exit(0);
}
