/* SPDX-License-Identifier: Apache-2.0 */
#include "http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 1024 /* connections wait here while the process that serves is started again */
#define SOCKET_MODE 0660

static int bad(const char *text, struct err *err)
{
	return err_set(
		err, -EINVAL,
		"'%.200s' is no address: unix:/path, 127.0.0.1:PORT, [::1]:PORT or localhost:PORT",
		text);
}

static int parse_unix(struct listen_at *at, const char *text, struct err *err)
{
	const char *path = text + strlen("unix:");
	if (path[0] != '/' || strlen(path) >= sizeof(at->unix_path))
		return err_set(
			err, -EINVAL,
			"'%.200s': the path of a Unix socket begins with / and has at most %zu "
			"bytes",
			text, sizeof(at->unix_path) - 1);
	struct sockaddr_un *un = (struct sockaddr_un *)&at->addr;
	strcpy(at->unix_path, path);
	un->sun_family = AF_UNIX;
	strcpy(un->sun_path, path);
	at->len = sizeof(*un);
	at->is_local = true;
	return 0;
}

int listen_parse(struct listen_at *ret, const char *text, struct err *err)
{
	char host[64], *end;
	struct listen_at at = { 0 };
	struct sockaddr_in *v4 = (struct sockaddr_in *)&at.addr;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&at.addr;
	if (!strncmp(text, "unix:", 5)) {
		int rc = parse_unix(&at, text, err);
		if (!rc)
			*ret = at;
		return rc;
	}
	const char *colon = strrchr(text, ':');
	if (!colon || colon == text || (size_t)(colon - text) >= sizeof(host) || colon[1] < '0' ||
	    colon[1] > '9')
		return bad(text, err);
	unsigned long port = strtoul(colon + 1, &end, 10);
	if (*end || port > 65535)
		return bad(text, err);
	memcpy(host, text, (size_t)(colon - text));
	host[colon - text] = 0;
	size_t n = strlen(host);
	if (host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = 0;
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
		at.len = sizeof(*v6);
		if (inet_pton(AF_INET6, host + 1, &v6->sin6_addr) != 1)
			return bad(text, err);
		at.is_local = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
	} else {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		at.len = sizeof(*v4);
		if (inet_pton(AF_INET, strcmp(host, "localhost") ? host : "127.0.0.1",
			      &v4->sin_addr) != 1)
			return bad(text, err);
		at.is_local = ntohl(v4->sin_addr.s_addr) >> 24 == 127;
	}
	*ret = at;
	return 0;
}

/* Left by somebody who ended without removing it? A recorder may connect to nobody. */
int listen_stale_op(const struct keeper_question *q, struct keeper_answer *ret, struct err *err)
{
	struct listen_at at = { 0 };
	if (q->len == sizeof(at))
		memcpy(&at, q->bytes, sizeof(at));
	if (at.addr.ss_family != AF_UNIX || at.len > sizeof(at.addr))
		return err_set(err, -EBADMSG, "an address that cannot be");
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const bool stale = fd >= 0 && connect(fd, (const struct sockaddr *)&at.addr, at.len) &&
			   errno == ECONNREFUSED;
	if (fd >= 0)
		close(fd);
	ret->bytes[0] = stale;
	ret->len = 1;
	return 0;
}

static bool is_stale(const struct listen_at *at)
{
	const struct keeper_question q = { .bytes = at, .len = sizeof(*at) };
	struct keeper_answer a;
	struct stat st;
	return !lstat(at->unix_path, &st) && S_ISSOCK(st.st_mode) &&
	       !keeper_ask(listen_stale_op, &q, KEEPER_WAIT_MS, &a, NULL) && a.len == 1 &&
	       a.bytes[0];
}

/*
 * Ports below 1024 take a capability, and a recorder may have no network. Without SO_REUSEPORT:
 * with that, a recorder that was taken over would share the ports of others of its user, and take
 * their connections.
 */
int listen_op(const struct keeper_question *q, struct keeper_answer *ret, struct err *err)
{
	struct listen_at at;
	int on = 1;
	if (q->len == sizeof(at))
		memcpy(&at, q->bytes, sizeof(at));
	if (q->len != sizeof(at) ||
	    (at.addr.ss_family != AF_INET && at.addr.ss_family != AF_INET6) ||
	    at.len > sizeof(at.addr))
		return err_set(err, -EBADMSG, "an address that cannot be");
	const int fd = socket(at.addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc = fd < 0 ? -errno : 0;
	if (!rc) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		rc = bind(fd, (const struct sockaddr *)&at.addr, at.len) ? -errno : 0;
	}
	if (rc) {
		if (fd >= 0)
			close(fd);
		return err_sys(err, rc, "cannot listen");
	}
	ret->fds[ret->n_fds++] = fd;
	return 0;
}

static int bind_tcp(const struct listen_at *at, int *ret_fd)
{
	const struct keeper_question q = { .bytes = at, .len = sizeof(*at) };
	struct keeper_answer a;
	int rc = keeper_ask(listen_op, &q, KEEPER_WAIT_MS, &a, NULL);
	if (!rc)
		*ret_fd = a.fds[0];
	return rc;
}

static int bind_unix(const struct listen_at *at, unsigned mode, int *ret_fd)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (is_stale(at))
		unlink(at->unix_path);
	/* It never has another mode: nobody comes before, and a recorder changes none. */
	mode_t old = umask(~mode & 0777);
	int rc = bind(fd, (const struct sockaddr *)&at->addr, at->len) ? -errno : 0;
	umask(old);
	if (rc)
		close(fd);
	else
		*ret_fd = fd;
	return rc;
}

static void write_name(const struct listen_at *at, char *name, size_t cap)
{
	char host[64] = "";
	if (at->unix_path[0]) {
		snprintf(name, cap, "unix:%s", at->unix_path);
	} else if (at->addr.ss_family == AF_INET6) {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&at->addr;
		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
		snprintf(name, cap, "[%s]:%u", host, ntohs(v6->sin6_port));
	} else {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)&at->addr;
		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
		snprintf(name, cap, "%s:%u", host, ntohs(v4->sin_port));
	}
}

int listen_open(struct listen_at *at, unsigned mode, int *ret_fd, char *name, size_t cap,
		struct err *err)
{
	int fd = -1, rc = at->unix_path[0] ? bind_unix(at, mode, &fd) : bind_tcp(at, &fd);
	socklen_t len = at->len;
	if (!rc && listen(fd, BACKLOG))
		rc = -errno;
	if (!rc && !at->unix_path[0] && getsockname(fd, (struct sockaddr *)&at->addr, &len))
		rc = -errno;
	write_name(at, name, cap);
	if (rc) {
		err_sys(err, rc, "cannot listen on %s", name);
		if (fd >= 0)
			close(fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

/* ---- the sockets of a server ---- */

static int open_socket(struct http_socket *s, const char *text, unsigned mode, struct err *err)
{
	*s = (struct http_socket){ .fd = -1 };
	int rc = listen_parse(&s->at, text, err);
	s->text = rc ? NULL : strdup(text);
	if (!rc && !s->text)
		rc = err_set(err, -ENOMEM, "out of memory");
	return rc ? rc : listen_open(&s->at, mode, &s->fd, s->name, sizeof(s->name), err);
}

static void close_socket(struct http_socket *s)
{
	if (s->fd >= 0) {
		close(s->fd);
		if (s->at.unix_path[0] && !s->adopted)
			unlink(s->at.unix_path);
	}
	free(s->text);
}

static bool same_address(const struct listen_at *a, const struct listen_at *b)
{
	return a->len == b->len && !memcmp(&a->addr, &b->addr, a->len);
}

/*
 * By its text, in which a port that was chosen is 0; or by its address. Not one of `taken`, which
 * has ADDRESSES_MAX places.
 */
static struct http_socket *find_socket(struct http_sockets *s, const char *text,
				       struct http_socket *const *taken)
{
	struct listen_at at;
	const bool parsed = !listen_parse(&at, text, NULL);
	for (size_t i = 0; s && i < s->n; i++) {
		struct http_socket *k = &s->v[i];
		bool free = true;
		for (size_t t = 0; t < ADDRESSES_MAX; t++)
			free &= taken[t] != k;
		if (free && (!strcmp(k->text, text) || (parsed && same_address(&k->at, &at))))
			return k;
	}
	return NULL;
}

/* False: somebody removed the socket, or it has had another mode, and is removed here. */
static bool has_mode(const struct http_socket *s, unsigned mode)
{
	struct stat st;
	if (lstat(s->at.unix_path, &st) || !S_ISSOCK(st.st_mode))
		return false;
	const bool same = (st.st_mode & 0777) == mode;
	if (!same)
		unlink(s->at.unix_path);
	return same;
}

/* Whoever has the descriptor can end that, for everybody, with shutdown(2). */
static bool still_listens(const struct http_socket *s)
{
	struct pollfd p = { .fd = s->fd, .events = POLLRDHUP };
	return s->fd >= 0 && poll(&p, 1, 0) >= 0 && !(p.revents & (POLLHUP | POLLRDHUP));
}

int http_sockets_mend(struct http_sockets *s, struct err *err)
{
	int failed = 0;
	for (size_t i = 0; i < s->n; i++) {
		struct http_socket *k = &s->v[i];
		if (still_listens(k))
			continue;
		s->changed |= k->fd >= 0;
		if (k->fd >= 0)
			close(k->fd);
		k->fd = -1;
		int rc = listen_open(&k->at, s->mode, &k->fd, k->name, sizeof(k->name),
				     failed ? NULL : err);
		s->changed |= !rc;
		failed = failed ? failed : rc;
	}
	return failed;
}

size_t http_sockets_open_n(const struct http_sockets *s)
{
	size_t n = 0;
	for (size_t i = 0; i < s->n; i++)
		n += s->v[i].fd >= 0;
	return n;
}

int http_sockets_open(struct http_sockets **io, const struct http_config *cfg, struct err *err)
{
	unsigned mode = cfg->socket_mode ? cfg->socket_mode : SOCKET_MODE;
	struct http_sockets *old = *io, *s = calloc(1, sizeof(*s));
	struct http_socket *kept[ADDRESSES_MAX] = { 0 };
	int rc = s ? 0 : err_set(err, -ENOMEM, "out of memory");
	for (; !rc && s->n < cfg->n_listen; s->n += !rc) {
		struct http_socket *now = &s->v[s->n],
				   *was = find_socket(old, cfg->listen[s->n], kept);
		if (was && was->at.unix_path[0] && !has_mode(was, mode)) {
			/* Nobody can connect to that one any more */
			was->at.unix_path[0] = 0;
			was = NULL;
		}
		if (was) {
			*now = *was;
			now->adopted = false;
			kept[s->n] = was;
		} else {
			rc = open_socket(now, cfg->listen[s->n], mode, err);
			if (rc)
				close_socket(now);
		}
	}
	if (rc) {
		for (size_t i = 0; s && i < s->n; i++)
			if (!kept[i])
				close_socket(&s->v[i]);
		free(s);
		return rc;
	}
	s->mode = mode;
	s->changed = true;
	for (size_t i = 0; i < s->n; i++)
		if (kept[i])
			*kept[i] = (struct http_socket){ .fd = -1 };
	http_sockets_close(old);
	*io = s;
	return 0;
}

/* Take its address from the kernel: a descriptor that listens is all that is known of it. */
static bool adopt(struct http_socket *ret, int fd)
{
	struct http_socket s = { .fd = fd, .adopted = true, .at.len = sizeof(s.at.addr) };
	const struct sockaddr_un *un = (const struct sockaddr_un *)&s.at.addr;
	int listens = 0, type = 0;
	socklen_t size = sizeof(int);
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) || !listens ||
	    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) || type != SOCK_STREAM ||
	    getsockname(fd, (struct sockaddr *)&s.at.addr, &s.at.len) || !still_listens(&s) ||
	    fcntl(fd, F_SETFD, FD_CLOEXEC) || fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) ||
	    listen(fd, BACKLOG))
		return false;
	if (s.at.addr.ss_family == AF_UNIX)
		snprintf(s.at.unix_path, sizeof(s.at.unix_path), "%.107s", un->sun_path);
	write_name(&s.at, s.name, sizeof(s.name));
	s.text = listen_parse(&s.at, s.name, NULL) ? NULL : strdup(s.name);
	if (s.text)
		*ret = s;
	return s.text;
}

void http_sockets_adopt(struct http_sockets **ret, const int *fds, size_t n)
{
	struct http_sockets *s = calloc(1, sizeof(*s));
	for (size_t i = 0; i < n; i++) {
		if (s && s->n < ADDRESSES_MAX && adopt(&s->v[s->n], fds[i]))
			s->n++;
		else
			close(fds[i]);
	}
	if (s && !s->n) {
		free(s);
		s = NULL;
	}
	*ret = s;
}

void http_sockets_leave(struct http_sockets *s)
{
	for (size_t i = 0; s && i < s->n; i++)
		s->v[i].adopted = true;
	http_sockets_close(s);
}

void http_sockets_close(struct http_sockets *s)
{
	for (size_t i = 0; s && i < s->n; i++)
		close_socket(&s->v[i]);
	free(s);
}
