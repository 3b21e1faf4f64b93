/* SPDX-License-Identifier: Apache-2.0 */
#include "push/pusher.h"

#include "client/web.h"
#include "sandbox/anew.h"
#include "sandbox/confine.h"
#include "sandbox/kept.h"
#include "util/clock.h"

#include <errno.h>
#include <libgen.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIVED_NS 60000000000ull /* a pusher that lived so long is started again at once */
#define STORE_MS 1000		/* between looks for a store that is not there yet */
#define PATH_BYTES 1024
#define DNS_PORT 53
#define TOLD_MAX 16    /* that are taken at a time: one that was taken over tells without end */
#define KILLED_MS 1000 /* that the end of one that was killed is waited for */

struct pusher {
	char name[PUSH_NAME_MAX];
	int fd;
	pid_t pid;
	struct push_stats last;	  /* of the process that runs */
	struct push_stats before; /* of those that ended */
	struct push_stats sum;
};

/* ---- the process that pushes ---- */

static bool is_over(int fd, int wait_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	return poll(&p, 1, wait_ms) > 0;
}

/* What the daemon does not take at once it gets with the next one: these are sums. */
static void tell(void *ctx, const struct push_stats *st)
{
	const int fd = *(const int *)ctx;
	if (send(fd, st, sizeof(*st), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN &&
	    errno != EINTR && errno != ENOBUFS)
		_exit(0); /* the daemon has ended */
}

static const char *directory_of(const char *file, char to[PATH_BYTES])
{
	snprintf(to, PATH_BYTES, "%s", file ? file : "");
	return file ? dirname(to) : NULL;
}

/* Its privileges are given up before; the directory of its cursor is there. */
static int confine(const struct push_config *c)
{
	const char *files[] = { c->token, c->authority, c->certificate, c->key };
	char own[PATH_BYTES], text[4][PATH_BYTES];
	const char *write = own;
	struct role_path paths[6] = { { c->store, role_path_read } };
	const uint16_t ports[] = { DNS_PORT, web_port(c->url) };
	struct confine_given given = {
		.paths = paths, .n_paths = 1, .ports = ports, .n_ports = ports[1] ? 2 : 0
	};
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (files[i])
			paths[given.n_paths++] =
				(struct role_path){ directory_of(files[i], text[i]),
						    role_path_read };
	if (c->cursor)
		write = directory_of(c->cursor, own);
	else if (snprintf(own, sizeof(own), "%s/push", c->store) >= (int)sizeof(own))
		return -ENAMETOOLONG;
	if (!c->cursor && mkdir(own, 0700) && errno != EEXIST)
		return -errno;
	paths[given.n_paths++] = (struct role_path){ write, role_path_file };
	return confine_reach(ROLE_PUSHER, &given);
}

static _Noreturn void run(const struct push_config *config, int fd)
{
	struct push_config c = *config;
	struct push_stats st = { .began_ns = clock_ns(CLOCK_MONOTONIC) };
	struct err err = { 0 };
	char header[PATH_BYTES];
	prctl(PR_SET_NAME, roles[ROLE_PUSHER].name);
	prctl(PR_SET_DUMPABLE, 0); /* it has a token */
	c.stop_fd = fd;
	c.report = tell;
	c.ctx = &fd;
	/* A directory becomes a store with its header, and may hold nothing else before. */
	int n = snprintf(header, sizeof(header), "%s/HEADER", c.store);
	while (n < (int)sizeof(header) && access(header, F_OK)) /* else push_run says so */
		if (is_over(fd, STORE_MS))
			_exit(0);
	int rc = confine(&c);
	rc = rc ? err_sys(&err, rc, "confining the process that pushes from %s", c.store)
		: push_run(&c, &st, &err);
	if (!rc)
		_exit(0);
	st.failing = true;
	snprintf(st.text, sizeof(st.text), "%s", err.text);
	tell(&fd, &st);
	_exit(1);
}

/* ---- the process that keeps it going ---- */

int pusher_take_text(char **ret)
{
	char *text = malloc(PUSHER_TEXT_MAX + 1);
	if (!text)
		return -ENOMEM;
	ssize_t n = recv(ANEW_FD, text, PUSHER_TEXT_MAX, 0);
	if (n <= 0) {
		free(text);
		return n ? -errno : -EPIPE;
	}
	text[n] = 0;
	*ret = text;
	return 0;
}

_Noreturn void pusher_keep(const struct push_config *c)
{
	confine_signals();
	setpriority(PRIO_PROCESS, 0, 0); /* the recorder has a higher one */
	/* Root without capabilities: its files can be opened, and no more. */
	if (confine_rights(ROLE_PUSH_KEEPER, ANEW_FD) || prctl(PR_SET_PDEATHSIG, SIGKILL))
		_exit(1);
	for (unsigned n = 0; !is_over(ANEW_FD, 0);) {
		uint64_t began = clock_ns(CLOCK_MONOTONIC);
		pid_t self = getpid(), pid = fork();
		if (!pid) {
			if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != self)
				_exit(1);
			run(c, ANEW_FD);
		}
		while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		n = clock_ns(CLOCK_MONOTONIC) - began > LIVED_NS ? 0 : n + 1;
		is_over(ANEW_FD, (int)web_backoff_ms(n));
	}
	_exit(0);
}

/* ---- the daemon's end ---- */

int pusher_op(const struct keeper_question *q, struct keeper_answer *ret, struct err *err)
{
	extern char **environ;
	char *const argv[] = { (char *)"ascribe", (char *)"push", (char *)"--keeper",
			       keeper_arguments()[0], NULL };
	pid_t pid;
	int rc = q->n_fds == 1 ? anew_spawn(argv, environ, q->fds, 1, &pid) : -EBADMSG;
	if (rc)
		return err_sys(err, rc, "push: starting the process");
	return kept_started(ret, pid, err);
}

int pusher_start(struct pusher **ret, const struct push_config *c, const char *text,
		 struct err *err)
{
	struct pusher *p = calloc(1, sizeof(*p));
	int fd[2] = { -1, -1 };
	if (!p)
		return err_sys(err, -ENOMEM, "push");
	int rc = push_name(c, p->name, err);
	if (!rc && strlen(text) > PUSHER_TEXT_MAX)
		rc = err_set(err, -E2BIG, "push: %s: a section of more than %u bytes", p->name,
			     PUSHER_TEXT_MAX);
	if (!rc && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd))
		rc = err_sys(err, -errno, "push: socketpair");
	p->fd = fd[0];
	p->pid = -1;
	if (!rc && send(p->fd, text, strlen(text), MSG_NOSIGNAL) < 0)
		rc = err_sys(err, -errno, "push: send");
	const struct keeper_question q = { .fds = &fd[1], .n_fds = 1 };
	rc = rc ? rc : kept_start(pusher_op, &q, &p->pid, err);
	if (fd[1] >= 0)
		close(fd[1]);
	if (rc)
		pusher_free(p, 0);
	else
		*ret = p;
	return rc;
}

void pusher_stop(struct pusher *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

void pusher_free(struct pusher *p, unsigned wait_ms)
{
	if (!p)
		return;
	pusher_stop(p);
	if (p->pid > 0 && !kept_await(p->pid, wait_ms)) {
		kept_kill(p->pid);
		kept_await(p->pid, KILLED_MS);
	}
	free(p);
}

const char *pusher_name(const struct pusher *p)
{
	return p->name;
}

static void add(struct push_stats *to, const struct push_stats *from)
{
	to->windows += from->windows;
	to->coarse += from->coarse;
	to->too_old += from->too_old;
	to->cut += from->cut;
	to->messages += from->messages;
	to->rows += from->rows;
	to->bytes += from->bytes;
	to->refused += from->refused;
	to->rejected += from->rejected;
	to->failures += from->failures;
}

/* It may come from a process that was taken over: make each member a value of its type. */
static void make_sound(struct push_stats *st)
{
	uint8_t failing;
	memcpy(&failing, &st->failing, sizeof(failing));
	st->failing = failing != 0;
	st->oldest_ns = st->oldest_ns > 0 ? st->oldest_ns : 0;
	st->text[sizeof(st->text) - 1] = 0;
}

const struct push_stats *pusher_look(struct pusher *p)
{
	struct push_stats st;
	for (unsigned i = 0; i < TOLD_MAX; i++) {
		if (recv(p->fd, &st, sizeof(st), MSG_DONTWAIT) != sizeof(st))
			break;
		make_sound(&st);
		if (st.began_ns != p->last.began_ns)
			add(&p->before, &p->last);
		p->last = st;
	}
	p->sum = p->last;
	add(&p->sum, &p->before);
	return &p->sum;
}
