/* SPDX-License-Identifier: Apache-2.0 */
#include "pods/watcher.h"

#include "pods/parser.h"
#include "sandbox/confine.h"
#include "sandbox/names_files.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define DNS_PORT 53
#define LIVED_NS 60000000000ull /* a watcher that lived so long is started again at once */

/* ---- the watcher ---- */

static void send_record(void *ctx, const struct pod_record *r)
{
	const struct watcher *w = ctx;
	while (send(w->out, r, sizeof(*r), MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			_exit(0); /* the recorder has ended */
}

void watcher_say(struct watcher *w, bool ok, const char *fmt, ...)
{
	static struct pod_record r;
	va_list ap;
	r = (struct pod_record){ .what = POD_STATE, .ok = ok };
	va_start(ap, fmt);
	vsnprintf(r.text, sizeof(r.text), fmt, ap);
	va_end(ap);
	send_record(w, &r);
}

void watcher_mark(struct watcher *w, enum pod_what what)
{
	static struct pod_record r;
	r.what = (uint8_t)what;
	send_record(w, &r);
}

int watcher_parse(struct watcher *w, enum pods_format f, const uint8_t *bytes, size_t len,
		  struct pods_page *ret)
{
	int rc = parser_parse(w->parser, f, bytes, len, send_record, w, ret);
	if (rc == -ETIMEDOUT || rc == -ECHILD) {
		watcher_say(w, false, "the process that parses what sources answer %s",
			    rc == -ECHILD ? "has died" : "took too long");
		_exit(1);
	}
	return rc;
}

bool watcher_sleep(struct watcher *w, unsigned ms, bool early)
{
	const uint64_t until = clock_ns(CLOCK_MONOTONIC) + ms * 1000000ull;
	bool missed = false;
	char byte;
	if (names_files_changed())
		_exit(0); /* the next one may read them */
	for (;;) {
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		if (now >= until || (missed && early))
			return missed;
		struct pollfd p = { .fd = w->out, .events = POLLIN };
		if (poll(&p, 1, (int)((until - now) / 1000000 + 1)) <= 0)
			continue;
		ssize_t n = recv(w->out, &byte, 1, MSG_DONTWAIT);
		if (!n || (n < 0 && errno != EAGAIN && errno != EINTR))
			_exit(0); /* the recorder has ended */
		missed = true;
	}
}

typedef int (*source_run)(struct watcher *, struct err *);

static const source_run by_source[] = {
	[PODS_KUBERNETES] = source_kubernetes,
	[PODS_KUBELET] = source_kubelet,
	[PODS_CRI] = source_cri,
	[PODS_ENGINE] = source_engine,
};

/*
 * Ask one source after the other. The kubelet is asked only where it is named: its certificate is
 * its own, so whoever has its port would get the token.
 */
static void ask_all(struct watcher *w, struct err *err)
{
	static const enum pods_source in_turn[] = { PODS_KUBERNETES, PODS_CRI, PODS_ENGINE };
	struct err e = { 0 };
	if (w->cfg->source != PODS_AUTO) {
		by_source[w->cfg->source](w, err);
		return;
	}
	for (size_t i = 0; i < sizeof(in_turn) / sizeof(in_turn[0]); i++) {
		int rc = by_source[in_turn[i]](w, &e);
		if (rc && (rc != -ENOENT || !err->code))
			*err = e;
	}
}

/* Sockets of this host take no port. 0: any may be connected to. */
static size_t find_ports(const struct pods_config *cfg, uint16_t ret[2])
{
	char url[SOURCE_URL_BYTES] = "";
	if (cfg->source == PODS_KUBELET)
		source_kubelet_url(cfg, url);
	else if (cfg->source == PODS_AUTO || cfg->source == PODS_KUBERNETES)
		source_kubernetes_url(cfg, url);
	ret[0] = DNS_PORT;
	ret[1] = url[0] ? web_port(url) : DNS_PORT;
	return ret[1] ? 2 : 0;
}

static _Noreturn void watch(const struct pods_config *cfg, int out, int parser)
{
	uint16_t ports[2];
	const struct role_path credentials = { cfg->credentials ? cfg->credentials
								: PODS_CREDENTIALS,
					       role_path_read };
	const struct confine_given given = { .paths = &credentials,
					     .n_paths = 1,
					     .ports = ports,
					     .n_ports = find_ports(cfg, ports),
					     .unix_sockets = cfg->source != PODS_KUBERNETES &&
							     cfg->source != PODS_KUBELET };
	struct watcher w = { .cfg = cfg, .out = out, .parser = parser };
	struct err err = { 0 };
	prctl(PR_SET_NAME, roles[ROLE_POD_WATCHER].name);
	prctl(PR_SET_DUMPABLE, 0); /* it has a token */
	int rc = confine_reach(ROLE_POD_WATCHER, &given);
	if (rc)
		err_sys(&err, rc, "names of pods: confining the process that asks");
	rc = rc ? rc : web_new(&w.web, &err);
	if (rc) {
		watcher_say(&w, false, "%s", err.text);
		watcher_sleep(&w, 600000, false);
		_exit(1);
	}
	for (unsigned n = 0;; n++) {
		err = (struct err){ 0 };
		ask_all(&w, &err);
		watcher_say(&w, false, "%s", err.text);
		watcher_sleep(&w, web_backoff_ms(n), false);
	}
}

/* ---- the process that keeps it going ---- */

static pid_t fork_with(pid_t parent)
{
	pid_t pid = fork();
	if (!pid && (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent))
		_exit(0);
	return pid;
}

/* Until the first of both has ended; the other one is killed. */
static void run_both(const struct pods_config *cfg, int fd)
{
	int pair[2];
	pid_t self = getpid(), parser, watcher = -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return;
	parser = fork_with(self);
	if (!parser)
		parser_run(pair[1], &cfg->wanted, cfg->node ? cfg->node : "");
	close(pair[1]);
	if (parser > 0)
		watcher = fork_with(self);
	if (!watcher)
		watch(cfg, fd, pair[0]);
	close(pair[0]);
	if (watcher > 0)
		while (wait(NULL) < 0 && errno == EINTR)
			;
	if (watcher > 0)
		kill(watcher, SIGKILL);
	if (parser > 0)
		kill(parser, SIGKILL);
	while (wait(NULL) > 0 || errno == EINTR)
		;
}

static bool is_wanted(int fd)
{
	struct pollfd p = { .fd = fd };
	return poll(&p, 1, 0) == 0;
}

int watcher_start(const struct pods_config *cfg, int fd)
{
	pid_t parent = getpid(), pid = fork();
	if (pid)
		return pid < 0 ? -errno : pid;
	confine_signals();
	/* Root without capabilities: its sockets and files can be opened, and no more. */
	if (confine_rights(ROLE_POD_KEEPER, fd) || prctl(PR_SET_PDEATHSIG, SIGKILL) ||
	    getppid() != parent)
		_exit(1);
	for (unsigned n = 0; is_wanted(fd);) {
		uint64_t began = clock_ns(CLOCK_MONOTONIC);
		fcntl(fd, F_SETFL, O_RDWR); /* one that was taken over may have had it not block */
		run_both(cfg, fd);
		n = clock_ns(CLOCK_MONOTONIC) - began > LIVED_NS ? 0 : n + 1;
		struct pollfd p = { .fd = fd };
		poll(&p, 1, (int)web_backoff_ms(n));
	}
	_exit(0);
}
