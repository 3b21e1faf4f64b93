/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The open connections, and which of them must end: those that are late, and, where an address has
 * too many, the one that has kept the server waiting longest. So a client that opens connections
 * without end closes its own, and whoever sends a request at once is served.
 */
#include "http/server_int.h"

#include "http/clock.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <sys/socket.h>

/*
 * Shut a connection down; its thread sees the end of it and closes it. With the lock: a descriptor
 * is closed only after its connection left the list, so none is hit that belongs to another.
 */
static void end_conn(struct http_server *s, struct conn *c, enum refusal why)
{
	c->ended = true;
	count_refused(s, why);
	shutdown(c->fd, SHUT_RDWR);
}

/* When what the connection is at began; UINT64_MAX: a worker has its question. */
static uint64_t conn_since(const struct http_server *s, const struct conn *c)
{
	uint64_t deadline = __atomic_load_n(&c->deadline_ns, __ATOMIC_RELAXED);
	bool answering = __atomic_load_n(&c->answering, __ATOMIC_RELAXED);
	if (deadline == UINT64_MAX)
		return UINT64_MAX;
	return deadline - (answering ? s->cfg.response_s : s->cfg.request_s) * HTTP_NS;
}

/* End one connection if this address has as many as it may. Those between two requests go first. */
static void make_room(struct http_server *s, const struct address *a)
{
	struct conn *victim = NULL;
	uint64_t since = UINT64_MAX;
	bool idle = false;
	unsigned n = 0;
	for (struct conn *c = s->conns; c; c = c->next) {
		if (c->ended || c->address != a)
			continue;
		n++;
		bool is_idle = __atomic_load_n(&c->idle, __ATOMIC_RELAXED);
		uint64_t t = conn_since(s, c);
		if (is_idle < idle || (is_idle == idle && t >= since))
			continue;
		victim = c;
		since = t;
		idle = is_idle;
	}
	if (n >= s->cfg.connections && victim)
		end_conn(s, victim, REFUSED_crowd);
}

struct conn *conn_of(struct MHD_Connection *c)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	return info ? info->socket_context : NULL;
}

struct conn *conns_open(struct address *a, int fd)
{
	struct http_server *s = a->server;
	struct conn *conn = calloc(1, sizeof(*conn));
	if (!conn)
		return NULL;
	conn->address = a;
	conn->fd = fd;
	conn->peer = a->guard.unix_socket ? peer_of(fd) : (struct peer){ .uid = -1 };
	conn->deadline_ns = http_now_ns() + s->cfg.request_s * HTTP_NS;
	pthread_mutex_lock(&s->conns_lock);
	if (s->n_conns >= s->cfg.connections)
		make_room(s, a);
	conn->next = s->conns;
	conn->at = &s->conns;
	if (conn->next)
		conn->next->at = &conn->next;
	s->conns = conn;
	s->n_conns++;
	pthread_cond_signal(&s->keeper_wake);
	pthread_mutex_unlock(&s->conns_lock);
	return conn;
}

void conns_close(struct http_server *s, struct conn *conn)
{
	if (!conn)
		return;
	pthread_mutex_lock(&s->conns_lock);
	*conn->at = conn->next;
	if (conn->next)
		conn->next->at = conn->at;
	s->n_conns--;
	pthread_mutex_unlock(&s->conns_lock);
	free(conn);
}

void conns_end_late(struct http_server *s, uint64_t now)
{
	for (struct conn *c = s->conns; c; c = c->next) {
		if (c->ended || __atomic_load_n(&c->deadline_ns, __ATOMIC_RELAXED) > now)
			continue;
		if (__atomic_load_n(&c->idle, __ATOMIC_RELAXED)) {
			c->ended = true;
			shutdown(c->fd, SHUT_RDWR);
		} else {
			bool answering = __atomic_load_n(&c->answering, __ATOMIC_RELAXED);
			end_conn(s, c, answering ? REFUSED_slow_response : REFUSED_slow_request);
		}
	}
}

bool conns_busy(struct http_server *s)
{
	pthread_mutex_lock(&s->conns_lock);
	const struct conn *c = s->conns;
	while (c && (c->ended || __atomic_load_n(&c->idle, __ATOMIC_RELAXED)))
		c = c->next;
	pthread_mutex_unlock(&s->conns_lock);
	return c;
}
