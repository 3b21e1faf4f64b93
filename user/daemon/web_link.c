/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/web_link.h"

#include "daemon/capture.h"
#include "import/pack.h"
#include "util/clock.h"
#include "util/packet.h"
#include "util/write_at.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000ull
#define WEB_ORDER_MAX (sizeof(union web_to_server) + WEB_METRICS_MAX)
#define PROFILE_NS (5 * NS)  /* until the recorder begins to store a profile */
#define STORING_NS (10 * NS) /* and until it has */
#define FREEZE_NS (10 * NS)  /* until something is frozen */

int web_link_init(struct web_link *l, int fd)
{
	pthread_condattr_t monotonic;
	*l = (struct web_link){ .fd = fd, .audit_fd = -1, .profile_fd = -1 };
	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	int rc = pthread_cond_init(&l->news, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return -rc;
}

int web_link_send(struct web_link *l, const void *packet, size_t len)
{
	return packet_send(l->fd, packet, len, NULL, 0, NULL, 0);
}

static struct timespec time_of(uint64_t ns)
{
	return (struct timespec){ (time_t)(ns / NS), (long)(ns % NS) };
}

/* ---- profiles ---- */

/* Wait until this request is answered. With the lock. False: it was not. */
static bool wait_for(struct web_link *l, const struct web_waiting *w, uint64_t until_ns)
{
	const struct timespec until = time_of(until_ns);
	int rc = 0;
	while (!w->done && !l->ended && !rc)
		rc = pthread_cond_timedwait(&l->news, &l->lock, &until);
	return w->done;
}

/* Wait for the turn of this one: there is memory for one at a time. With the lock. */
static int take_turn(struct web_link *l, uint64_t until_ns)
{
	const struct timespec until = time_of(until_ns);
	int rc = 0;
	while (l->profile.id && !l->ended && !rc)
		rc = pthread_cond_timedwait(&l->news, &l->lock, &until);
	if (rc || l->ended)
		return -EAGAIN;
	l->profile = (struct web_waiting){ .id = ++l->last_id };
	return 0;
}

/* Have the recorder store the bytes in its memory. With the lock, and the turn. */
static int store_profile(struct web_link *l, size_t len, uint64_t until_ns, struct err *err)
{
	const struct web_profile m = {
		.what = WEB_PROFILE, .len = (uint32_t)len, .id = l->profile.id, .until_ns = until_ns
	};
	if (web_link_send(l, &m, sizeof(m)) || !wait_for(l, &l->profile, until_ns + STORING_NS))
		return err_set(err, -EAGAIN, "nothing is written now");
	const struct web_done *d = &l->profile.answer;
	return d->rc ? err_set(err, d->rc, "%s", d->text) : 0;
}

static int send_profile(struct web_link *l, const struct buf *bytes, struct err *err)
{
	const uint64_t until_ns = clock_ns(CLOCK_MONOTONIC) + PROFILE_NS;
	pthread_mutex_lock(&l->lock);
	int rc = take_turn(l, until_ns);
	if (rc) {
		pthread_mutex_unlock(&l->lock);
		return err_set(err, rc, "other profiles are being stored");
	}
	pthread_mutex_unlock(&l->lock);
	rc = write_at(l->profile_fd, bytes->data, bytes->len, 0);
	if (rc)
		err_sys(err, -EAGAIN, "a profile in memory");
	pthread_mutex_lock(&l->lock);
	rc = rc ? -EAGAIN : store_profile(l, bytes->len, until_ns, err);
	l->profile.id = 0;
	pthread_cond_broadcast(&l->news); /* the next one's turn */
	pthread_mutex_unlock(&l->lock);
	return rc;
}

static int ingest(void *ctx, const struct profile *p, struct err *err)
{
	struct buf bytes = BUF_INIT;
	int rc = profile_pack(p, &bytes);
	rc = rc == -E2BIG
		     ? err_set(err, rc, "a profile of more than %u MiB", PROFILE_PACKED_MAX >> 20)
	     : rc ? err_sys(err, -EAGAIN, "a profile in memory")
		  : send_profile(ctx, &bytes, err);
	buf_fini(&bytes);
	return rc;
}

/* ---- captures ---- */

static int request_capture(struct web_link *l, const struct http_capture *asked, struct err *err)
{
	l->capture = (struct web_waiting){ .id = ++l->last_id };
	l->capturing = true;
	const struct web_capture m = {
		.what = WEB_CAPTURE, .hz = asked->hz, .seconds = asked->seconds, .id = l->last_id
	};
	if (web_link_send(l, &m, sizeof(m)))
		return err_set(err, -EAGAIN, "no capture can begin now");
	/* The recorder has its own limit of time, and answers when it is over. */
	while (!l->capture.done && !l->ended && !l->no_captures)
		pthread_cond_wait(&l->news, &l->lock);
	if (!l->capture.done)
		return err_set(err, -EINTR, "the capture was ended with the server");
	return l->capture.answer.rc
		       ? err_set(err, l->capture.answer.rc, "%s", l->capture.answer.text)
		       : 0;
}

static int capture(void *ctx, const struct http_capture *asked, char ret[static 512],
		   struct err *err)
{
	struct web_link *l = ctx;
	pthread_mutex_lock(&l->lock);
	int rc;
	if (l->capturing) {
		rc = err_set(err, -EBUSY, "another capture is running");
	} else {
		rc = request_capture(l, asked, err);
		l->capturing = !rc;
		l->capture.id = 0;
	}
	pthread_mutex_unlock(&l->lock);
	snprintf(ret, 512, CAPTURE_DIR); /* our working directory is the store */
	return rc;
}

static void capture_read(void *ctx)
{
	struct web_link *l = ctx;
	const struct web_plain m = { .what = WEB_CAPTURE_END };
	pthread_mutex_lock(&l->lock);
	l->capturing = false;
	(void)web_link_send(l, &m, sizeof(m));
	pthread_mutex_unlock(&l->lock);
}

static void capture_stop(void *ctx, bool stop)
{
	struct web_link *l = ctx;
	pthread_mutex_lock(&l->lock);
	l->no_captures = stop;
	pthread_cond_broadcast(&l->news);
	pthread_mutex_unlock(&l->lock);
}

/* ---- freezes ---- */

static int freeze(void *ctx, char ret[static 64], struct err *err)
{
	struct web_link *l = ctx;
	pthread_mutex_lock(&l->lock);
	int rc = l->freeze.id ? err_set(err, -EAGAIN, "another one is being made") : 0;
	if (!rc) {
		l->freeze = (struct web_waiting){ .id = ++l->last_id };
		const struct web_freeze m = { .what = WEB_FREEZE, .id = l->last_id };
		if (web_link_send(l, &m, sizeof(m)) ||
		    !wait_for(l, &l->freeze, clock_ns(CLOCK_MONOTONIC) + FREEZE_NS))
			rc = err_set(err, -EAGAIN, "the recorder does not answer");
		else if (l->freeze.answer.rc)
			rc = err_set(err, l->freeze.answer.rc, "%s", l->freeze.answer.text);
		else
			snprintf(ret, 64, "%.63s", l->freeze.answer.text);
		l->freeze.id = 0;
	}
	pthread_mutex_unlock(&l->lock);
	return rc;
}

/* ---- what the recorder told ---- */

static int metrics(void *ctx, struct buf *out)
{
	struct web_link *l = ctx;
	pthread_mutex_lock(&l->lock);
	int rc = buf_add(out, l->metrics.data, l->metrics.len);
	pthread_mutex_unlock(&l->lock);
	return rc;
}

static bool ready(void *ctx, char ret_why[static HTTP_WHY_MAX])
{
	struct web_link *l = ctx;
	pthread_mutex_lock(&l->lock);
	const bool late = clock_ns(CLOCK_BOOTTIME) > l->state.ready_until_ns;
	snprintf(ret_why, HTTP_WHY_MAX, "%s",
		 l->state.why[0] ? l->state.why
				 : "no window was written for three windows' time: see the log");
	const bool is = !l->state.why[0] && !late;
	pthread_mutex_unlock(&l->lock);
	return is;
}

/* ---- the log of requests ---- */

static bool audit(void *ctx, const char *line)
{
	struct web_link *l = ctx;
	const size_t len = strlen(line);
	const struct iovec v[2] = { { (char *)(uintptr_t)line, len }, { (char *)"\n", 1 } };
	pthread_mutex_lock(&l->lock);
	const bool kept = l->audit_bytes + len < l->audit_max &&
			  writev(l->audit_fd, v, 2) == (ssize_t)len + 1;
	l->audit_bytes += kept ? len + 1 : 0;
	pthread_mutex_unlock(&l->lock);
	return kept;
}

void web_link_audit(struct web_link *l, int fd, uint64_t max)
{
	struct stat st;
	pthread_mutex_lock(&l->lock);
	if (l->audit_fd >= 0)
		close(l->audit_fd);
	l->audit_fd = fd;
	l->audit_max = max;
	l->audit_bytes = fstat(fd, &st) ? max : (uint64_t)st.st_size;
	pthread_mutex_unlock(&l->lock);
}

struct http_hooks web_link_hooks(struct web_link *l)
{
	return (struct http_hooks){ l,
				    metrics,
				    ready,
				    ingest,
				    capture,
				    capture_read,
				    capture_stop,
				    freeze,
				    l->audit_fd < 0 ? NULL : audit };
}

/* ---- orders ---- */

static void take_state(struct web_link *l, const struct web_state *state, const void *text)
{
	const struct web_plain alive = { .what = WEB_ALIVE };
	l->metrics.len = 0;
	(void)buf_add(&l->metrics, text, state->metrics_len);
	l->state = *state;
	l->state.why[sizeof(l->state.why) - 1] = 0;
	(void)web_link_send(l, &alive, sizeof(alive));
}

static void take_done(struct web_link *l, const struct web_done *d)
{
	struct web_waiting *w = d->id == l->profile.id	 ? &l->profile
				: d->id == l->capture.id ? &l->capture
				: d->id == l->freeze.id	 ? &l->freeze
							 : NULL;
	if (!w || !d->id)
		return; /* whoever asked has given up */
	w->answer = *d;
	w->answer.text[WEB_TEXT_MAX - 1] = 0;
	w->done = true;
	pthread_cond_broadcast(&l->news);
}

/* fd: that came with it, or -1. */
static void take_order(struct web_link *l, struct http_server *server, const union web_to_server *o,
		       size_t len, int fd)
{
	if (o->what == WEB_NEW_AUDIT && fd >= 0) {
		web_link_audit(l, fd, l->audit_max);
		return;
	}
	if (fd >= 0)
		close(fd);
	if (o->what == WEB_LIMIT && len >= sizeof(o->limit)) {
		http_limit(server, (size_t)o->limit.question_bytes);
		return;
	}
	pthread_mutex_lock(&l->lock);
	if (o->what == WEB_STATE && len == sizeof(o->state) + o->state.metrics_len)
		take_state(l, &o->state, (const uint8_t *)o + sizeof(o->state));
	else if (o->what == WEB_DONE && len >= sizeof(o->done))
		take_done(l, &o->done);
	pthread_mutex_unlock(&l->lock);
}

/* Wait for an order, and carry it out. False: the recorder wants no more. */
static bool next_order(struct web_link *l, struct http_server *server, union web_to_server *room)
{
	size_t len = 0, n = 0;
	int fd = -1;
	int rc = packet_recv(l->fd, room, WEB_ORDER_MAX, &len, &fd, 1, &n, 0);
	if (!rc && len >= sizeof(room->what))
		take_order(l, server, room, len, n ? fd : -1);
	return !rc && len;
}

int web_link_begin(struct web_link *l)
{
	union web_to_server *room = malloc(WEB_ORDER_MAX);
	bool goes_on = room != NULL;
	while (goes_on && !l->state.what)
		goes_on = next_order(l, NULL, room);
	free(room);
	return goes_on ? 0 : room ? -EPIPE : -ENOMEM;
}

void web_link_run(struct web_link *l, struct http_server *server)
{
	union web_to_server *room = malloc(WEB_ORDER_MAX);
	while (room && next_order(l, server, room))
		;
	free(room);
	pthread_mutex_lock(&l->lock);
	l->ended = true;
	pthread_cond_broadcast(&l->news);
	pthread_mutex_unlock(&l->lock);
}
