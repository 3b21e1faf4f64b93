/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serving.h"

#include "client/web.h"
#include "daemon/web_start.h"
#include "sandbox/kept.h"
#include "util/clock.h"
#include "util/memory_file.h"
#include "util/own.h"
#include "util/packet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS 1000000ull
#ifndef HUNG_NS		     /* the tests have a build with less patience */
#define HUNG_NS (30000 * MS) /* without an answer to a state */
#endif
#define END_NS (5000 * MS)    /* for requests to end */
#define LIVED_NS (60000 * MS) /* one that lived so long is started again at once */
#define REAP_NS (10 * MS)
#define KILLED_MS 1000 /* that the end of one that was killed is waited for */

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

void serving_init(struct serving *s)
{
	*s = (struct serving){ .fd = -1 };
}

/* ---- the first packet ---- */

static int add_texts(struct buf *out, const char *const *texts, size_t n)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++)
		rc = buf_add(out, texts[i], strlen(texts[i]) + 1);
	return rc;
}

static int write_config(const struct serving_setup *setup, struct buf *out, struct err *err)
{
	const struct http_config *h = setup->http;
	struct web_config c = { .what = WEB_CONFIG,
				.n_hosts = (uint32_t)h->n_hosts,
				.n_rules = (uint32_t)setup->n_rules,
				.anonymous = h->anonymous,
				.plain = h->plain,
				.token_tcp_only = h->token_tcp_only,
				.workers = h->workers,
				.connections = h->connections,
				.question_bytes = h->question_bytes,
				.rules_from_ns = setup->rules_from_ns };
	memcpy(c.quota, h->quota, sizeof(c.quota));
	c.audit_bytes = setup->audit_bytes;
	for (unsigned i = 0; i < WEB_LISTEN; i++)
		c.has |= i == WEB_STORE || setup->fd[i] >= 0 ? 1u << i : 0;
	out->len = 0;
	int rc = buf_add(out, &c, sizeof(c));
	rc = rc ? rc : add_texts(out, h->hosts, h->n_hosts);
	rc = rc ? rc : add_texts(out, (const char *const *)setup->rules, setup->n_rules);
	if (rc)
		return err_sys(err, rc, "serving");
	return out->len > sizeof(c) + WEB_TEXTS_MAX
		       ? err_set(err, -E2BIG,
				 "hosts and metrics together have more than %u KiB of text",
				 WEB_TEXTS_MAX >> 10)
		       : 0;
}

/* ---- the process ---- */

/* Those that listen: somebody may hold the address of another one. How many. */
static size_t add_sockets(const struct serving *s, int *fd)
{
	struct web_config c;
	memcpy(&c, s->config.data, sizeof(c));
	c.n_listen = 0;
	for (size_t i = 0; i < s->setup.sockets->n; i++) {
		const struct http_socket *from = &s->setup.sockets->v[i];
		if (from->fd < 0)
			continue;
		fd[c.n_listen] = from->fd;
		snprintf(c.listen[c.n_listen].text, sizeof(c.listen[0].text), "%s", from->text);
		snprintf(c.listen[c.n_listen].name, sizeof(c.listen[0].name), "%s", from->name);
		c.listen[c.n_listen++].is_unix = from->at.unix_path[0] != 0;
	}
	memcpy(s->config.data, &c, sizeof(c));
	return c.n_listen;
}

static int send_config(struct serving *s, struct err *err)
{
	int fd[WEB_DESCRIPTORS];
	size_t n = 0;
	const int store = open(s->setup.store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (store < 0)
		return err_sys(err, -errno, "cannot open %s", s->setup.store);
	fd[n++] = store;
	for (unsigned i = WEB_STORE + 1; i < WEB_LISTEN; i++)
		if (s->setup.fd[i] >= 0)
			fd[n++] = s->setup.fd[i];
	n += add_sockets(s, fd + n);
	int rc = packet_send(s->fd, s->config.data, s->config.len, NULL, 0, fd, n);
	close(store);
	return rc ? err_sys(err, rc, "configuring the process that serves") : 0;
}

/* What is left of it is killed and reaped by serving_look. */
static void disconnect(struct serving *s)
{
	const uint64_t now = now_ns();
	if (s->fd >= 0)
		close(s->fd);
	if (s->pid)
		kept_kill(s->pid);
	s->fd = -1;
	s->failures = s->ending || now - s->began_ns > LIVED_NS ? 0 : s->failures + 1;
	s->next_ns = s->failures ? now + web_backoff_ms(s->failures - 1) * MS : now;
	s->up = s->ending = false;
}

static int start(struct serving *s, struct err *err)
{
	s->began_ns = now_ns();
	s->asked_ns = 0;
	s->limit_unsent = s->audit_unsent = s->told = false;
	s->starts++;
	const int lacking = http_sockets_mend(s->setup.sockets, err);
	int rc = http_sockets_open_n(s->setup.sockets) ? 0 : lacking;
	rc = rc ? rc : web_start(&s->fd, &s->pid, err);
	own_leave_out(OWN_SERVER, s->pid);
	rc = rc ? rc : send_config(s, err);
	if (rc)
		disconnect(s);
	return rc ? rc : lacking;
}

int serving_begin(struct serving *s, const struct serving_setup *setup, struct err *err)
{
	struct buf config = BUF_INIT;
	int rc = write_config(setup, &config, err);
	if (rc) {
		buf_fini(&config);
		return rc;
	}
	serving_rest(s);
	buf_fini(&s->config);
	s->config = config;
	s->setup = *setup;
	s->wanted = true;
	s->failures = 0;
	s->next_ns = 0;
	return 0;
}

void serving_rest(struct serving *s)
{
	s->wanted = s->up = false;
	if (s->fd < 0 || s->ending)
		return;
	shutdown(s->fd, SHUT_WR);
	s->ending = true;
	s->ends_ns = now_ns() + END_NS;
}

/* True: there is none any more. */
static bool reap(struct serving *s)
{
	if (s->pid && s->fd < 0 && kept_has_ended(s->pid, NULL)) {
		s->pid = 0;
		own_leave_out(OWN_SERVER, 0);
	}
	return !s->pid;
}

int serving_look(struct serving *s, uint64_t *ret_ns, struct err *err)
{
	const uint64_t now = now_ns();
	const bool hung = s->fd >= 0 && !s->ending &&
			  ((!s->up && now - s->began_ns > HUNG_NS) ||
			   (s->asked_ns && now - s->asked_ns > HUNG_NS));
	int rc = hung ? err_set(err, -ETIMEDOUT,
				"the process that serves did not answer and was killed; another "
				"one is started")
		      : 0;
	*ret_ns = UINT64_MAX;
	if (hung || (s->ending && now > s->ends_ns))
		disconnect(s);
	if (s->fd < 0 && reap(s) && s->wanted && now >= s->next_ns) {
		int started = start(s, err);
		rc = started ? started : rc;
	}
	if (s->limit_unsent)
		serving_limit(s, s->setup.http->question_bytes);
	if (s->audit_unsent)
		serving_audit(s, s->setup.fd[WEB_AUDIT]);
	if (s->fd >= 0)
		*ret_ns = s->ending ? REAP_NS : HUNG_NS;
	else if (s->pid)
		*ret_ns = REAP_NS;
	else if (s->wanted)
		*ret_ns = s->next_ns > now ? s->next_ns - now : 0;
	return rc;
}

void serving_end(struct serving *s, unsigned wait_ms)
{
	union web_to_recorder r;
	serving_rest(s);
	for (unsigned ms = 0; s->fd >= 0 && ms < wait_ms; ms++)
		if (serving_take(s, &r) == -EAGAIN)
			usleep(1000);
	if (s->fd >= 0)
		disconnect(s);
	if (s->pid)
		kept_await(s->pid, KILLED_MS);
	s->pid = 0;
	buf_fini(&s->config);
}

/* ---- messages ---- */

static bool is_whole(const union web_to_recorder *r, size_t len)
{
	switch (r->what) {
	case WEB_UP:
	case WEB_ALIVE:
	case WEB_CAPTURE_END:
		return len == sizeof(r->plain);
	case WEB_HERE:
		return len == sizeof(r->here);
	case WEB_FAILED:
		return len == sizeof(r->failed);
	case WEB_PROFILE:
		return len == sizeof(r->profile);
	case WEB_CAPTURE:
		return len == sizeof(r->capture);
	case WEB_FREEZE:
		return len == sizeof(r->freeze);
	default:
		return false;
	}
}

int serving_take(struct serving *s, union web_to_recorder *ret)
{
	size_t len = 0, n = 0;
	if (s->fd < 0)
		return -EAGAIN;
	int rc = packet_recv(s->fd, ret, sizeof(*ret), &len, NULL, 0, &n, MSG_DONTWAIT);
	if (rc == -EAGAIN)
		return rc;
	if (rc || len < sizeof(ret->what) || !is_whole(ret, len)) {
		disconnect(s);
		return -EPIPE;
	}
	if (ret->what == WEB_HERE) {
		s->pid = s->pid || ret->here.pid <= 0 ? s->pid : ret->here.pid;
	} else if (ret->what == WEB_UP) {
		s->up = !s->ending;
	} else if (ret->what == WEB_ALIVE) {
		s->asked_ns = 0;
	} else if (ret->what == WEB_FAILED) {
		ret->failed.text[WEB_TEXT_MAX - 1] = 0;
	}
	return 0;
}

bool serving_may_tell(const struct serving *s)
{
	return s->fd >= 0 && !s->ending && !s->asked_ns;
}

void serving_tell(struct serving *s, const struct web_state *state, const struct buf *metrics)
{
	if (!packet_send(s->fd, state, sizeof(*state), metrics->data, metrics->len, NULL, 0)) {
		s->asked_ns = now_ns();
		s->told = true;
	}
}

void serving_done(struct serving *s, uint64_t id, int rc, const char *text)
{
	struct web_done d = { .what = WEB_DONE, .rc = rc, .id = id };
	snprintf(d.text, sizeof(d.text), "%s", text);
	if (s->fd >= 0) /* without room for it, whoever waits gives up in the end */
		(void)!packet_send(s->fd, &d, sizeof(d), NULL, 0, NULL, 0);
}

void serving_limit(struct serving *s, uint64_t question_bytes)
{
	const struct web_limit l = { .what = WEB_LIMIT, .question_bytes = question_bytes };
	struct web_config c;
	if (s->config.len >= sizeof(c)) { /* of the next process, too */
		memcpy(&c, s->config.data, sizeof(c));
		c.question_bytes = question_bytes;
		memcpy(s->config.data, &c, sizeof(c));
	}
	s->limit_unsent = s->up && packet_send(s->fd, &l, sizeof(l), NULL, 0, NULL, 0) == -EAGAIN;
}

void serving_audit(struct serving *s, int fd)
{
	const struct web_plain m = { .what = WEB_NEW_AUDIT };
	s->setup.fd[WEB_AUDIT] = fd; /* of the next process, too */
	s->audit_unsent = s->fd >= 0 && !s->ending &&
			  packet_send(s->fd, &m, sizeof(m), NULL, 0, &fd, 1) == -EAGAIN;
}

uint64_t serving_memory(const struct serving *s)
{
	return (s->pid ? own_child_bytes(s->pid) : 0) + memory_file_bytes(s->setup.fd[WEB_RULES]) +
	       memory_file_bytes(s->setup.fd[WEB_MEMORY]);
}
