/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that asks a PostgreSQL server: a child for each question, which it kills when that
 * takes too long, in libpq or not.
 */
#include "sql/messages.h"

#include "sandbox/child_end.h"
#include "sandbox/confine.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pwd.h>
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

static int load(struct libpq *l, char *why)
{
	void *lib = dlopen(LIBPQ, RTLD_NOW | RTLD_LOCAL);
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
		void *f = dlsym(lib, names[i].name);
		memcpy(names[i].to, &f, sizeof(f));
		if (!f)
			lib = NULL;
	}
	if (!lib)
		snprintf(why, SQL_ERROR_MAX, LIBPQ " cannot be loaded: install libpq5");
	return lib ? 0 : -ELIBACC;
}

/* ---- what it may reach ---- */

#define DNS_PORT 53
#define SERVER_PORTS 8
#define SERVER_FILES 16
#define FILE_BYTES 512

/* The server, as libpq understands what was configured. */
struct server {
	const struct libpq_option *given, *defaults;
	uint16_t ports[1 + SERVER_PORTS];
	struct role_path files[SERVER_FILES];
	char homes[6][FILE_BYTES];
	struct confine_given reach;
};

static const char *value_of(const struct libpq_option *o, const char *keyword)
{
	for (; o && o->keyword; o++)
		if (!strcmp(o->keyword, keyword))
			return o->value && *o->value ? o->value : NULL;
	return NULL;
}

static const char *setting(const struct server *s, const char *keyword)
{
	const char *v = value_of(s->given, keyword);
	return v ? v : value_of(s->defaults, keyword);
}

/* Hosts are a list; an empty one is the default directory of sockets. */
static bool has_unix_socket(const char *hosts)
{
	for (const char *at = hosts; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (!*at || *at == ',' || *at == '/' || *at == '@')
			return true;
	return !hosts;
}

/* None: any, where there are more than have room, or one that is no number. */
static void take_ports(struct server *s)
{
	const char *at = setting(s, "port");
	size_t n = 0;
	s->ports[n++] = DNS_PORT;
	while (at && n < 1 + SERVER_PORTS) {
		char *end;
		const unsigned long port = strtoul(at, &end, 10);
		if (end == at || port > UINT16_MAX || (*end && *end != ','))
			return;
		s->ports[n++] = (uint16_t)port;
		at = *end ? end + 1 : NULL;
	}
	if (at)
		return;
	s->reach.ports = s->ports;
	s->reach.n_ports = n;
}

static void add_file(struct server *s, const char *path)
{
	if (path && s->reach.n_paths < SERVER_FILES)
		s->files[s->reach.n_paths++] = (struct role_path){ path, role_path_read };
}

/* Versions of libpq differ in where they look for the home directory. */
static void take_files(struct server *s)
{
	static const char *const at_home[] = { ".pgpass", ".postgresql", ".pg_service.conf" };
	static const char *const named[] = { "passfile",    "sslcert", "sslkey",
					     "sslrootcert", "sslcrl",  "sslcrldir" };
	const struct passwd *user = getpwuid(geteuid());
	const char *homes[] = { getenv("HOME"), user ? user->pw_dir : NULL };
	size_t n = 0;
	for (size_t i = 0; i < 2; i++)
		for (size_t k = 0; homes[i] && k < 3; k++, n++) {
			snprintf(s->homes[n], FILE_BYTES, "%s/%s", homes[i], at_home[k]);
			add_file(s, s->homes[n]);
		}
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
		add_file(s, setting(s, named[i]));
	add_file(s, getenv("PGSERVICEFILE"));
	add_file(s, getenv("PGSYSCONFDIR"));
	s->reach.paths = s->files;
}

/* Before anything comes from the server. */
static int confine(const struct libpq *l, const char *conninfo)
{
	static struct server s;
	s.given = l->parse(conninfo, NULL);
	s.defaults = l->defaults();
	/* What a service names is not known here. */
	const bool service = !s.given || value_of(s.given, "service");
	s.reach.unix_sockets =
		service || (!setting(&s, "hostaddr") && has_unix_socket(setting(&s, "host")));
	if (!service)
		take_ports(&s);
	take_files(&s);
	return confine_reach(ROLE_SQL_ASKER, &s.reach);
}

/* ---- questions ---- */

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
	if (!rc && confine(&l, conninfo))
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
