/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /debug/pprof/profile, for `go tool pprof`: the last seconds that were written, or a capture at a
 * rate that is asked for. A capture has a thread of its own.
 */
#include "http/fleet.h"
#include "http/pyroscope.h"
#include "http/server_int.h"

#include "export/export.h"
#include "query/selector.h"
#include "util/clock.h"
#include "util/own.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define SECONDS_DEFAULT 30
#define SECONDS_MAX 86400

bool http_is_capture(const struct request *r)
{
	return r->route->handle == http_pprof && request_param(r, "hz");
}

static int read_seconds(const struct request *r, uint64_t max, uint64_t *ret, struct err *err)
{
	*ret = SECONDS_DEFAULT;
	if (request_number(r, "seconds", max, ret) < 0 || !*ret)
		return err_set(err, -EINVAL, "seconds: 1 to %d", (int)max);
	return 0;
}

static int write_range(struct request *r, struct store *store, int64_t from_ns, int64_t to_ns,
		       struct err *err)
{
	const char *idle = request_param(r, "idle");
	struct query_spec spec = { .where = request_param(r, "where"),
				   .event = request_param(r, "event"),
				   .from_ns = from_ns,
				   .to_ns = to_ns,
				   .idle = idle && !strcmp(idle, "1") };
	struct query *q = NULL;
	for (uint32_t i = 0; spec.event && i < store_n_events(store); i++)
		if (!strcmp(store_event(store, i)->name, spec.event))
			pyro_of_type(store, i, &spec);
	int rc = fleet_ask(r, &store, &(struct fleet_need){ .spec = &spec, .what = FLEET_SETS },
			   err);
	rc = rc ? rc : query_open(&q, store, &spec, err);
	if (!rc) {
		struct export_source src = {
			.store = store, .query = q, .where = spec.where, .idle = spec.idle
		};
		r->type = "application/octet-stream";
		rc = pyro_write_pprof(r, &src, true, err);
	}
	query_close(q);
	return rc;
}

/* They were recorded already, nobody needs to wait for them. */
int http_pprof(struct request *r, struct store *store, struct err *err)
{
	uint64_t seconds;
	int64_t from, to;
	int rc = read_seconds(r, SECONDS_MAX, &seconds, err);
	rc = rc ? rc : pyro_extent(store, &from, &to, err);
	if (!rc && !to)
		rc = err_set(err, -EAGAIN, "nothing was recorded yet");
	return rc ? rc : write_range(r, store, to - (int64_t)seconds * 1000000000, to, err);
}

/* ---- captures ---- */

static int read_capture(const struct request *r, struct http_capture *ret, struct err *err)
{
	uint64_t seconds, hz = 0;
	struct selector *s = NULL;
	int rc = request_check_params(r, err);
	rc = rc ? rc : read_seconds(r, HTTP_CAPTURE_S_MAX, &seconds, err);
	if (!rc && (request_number(r, "hz", HTTP_CAPTURE_HZ_MAX, &hz) < 0 || !hz))
		rc = err_set(err, -EINVAL, "hz: 1 to %d", HTTP_CAPTURE_HZ_MAX);
	rc = rc ? rc : selector_parse(&s, request_param(r, "where"), NULL, err);
	selector_free(s);
	*ret = (struct http_capture){ (unsigned)hz, rc ? 0 : (unsigned)seconds };
	return rc;
}

static int answer_capture(struct http_server *s, struct request *r, struct err *err)
{
	const struct http_hooks *h = &s->cfg.hooks;
	struct http_capture asked;
	struct store *store = NULL;
	char dir[512];
	int rc = read_capture(r, &asked, err);
	rc = rc ? rc : h->capture(h->ctx, &asked, dir, err);
	if (rc)
		return rc;
	rc = store_open(&store, dir, err);
	if (!rc)
		store_set_scope(store, r->grant->where);
	rc = rc ? rc : write_range(r, store, INT64_MIN, INT64_MAX, err);
	store_close(store);
	h->capture_end(h->ctx);
	return rc;
}

static void *run(void *arg)
{
	struct http_server *s = arg;
	struct request *r = s->captured.r;
	struct err err = { 0 };
	prctl(PR_SET_NAME, "ascribe-capture");
	own_thread_be_nice();
	int rc = answer_capture(s, r, &err);
	if (rc) {
		unsigned status = rc == -EBUSY ? 429 : rc == -EINTR ? 503 : request_status(rc);
		request_fail(r, status, err.text[0] ? err.text : strerror(-rc));
		r->retry_after = status == 429 || status == 503 ? 10 : 0;
	} else {
		r->status = 200;
	}
	r->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID); /* of this thread alone */
	quota_charge(s->quota, r->asker, QUOTA_CPU, r->cpu_ns);
	pthread_mutex_lock(&s->lock);
	struct MHD_Connection *conn = s->captured.conn;
	s->capturing = false;
	pthread_mutex_unlock(&s->lock);
	MHD_resume_connection(conn);
	return NULL;
}

int capture_begin(struct http_server *s, struct MHD_Connection *conn, struct request *r)
{
	pthread_mutex_lock(&s->lock);
	int rc = s->no_captures ? -EAGAIN : s->capturing ? -EBUSY : 0;
	if (!rc && s->has_capturer)
		pthread_join(s->capturer, NULL); /* it has ended */
	if (!rc) {
		s->captured = (struct task){ .conn = conn, .r = r };
		MHD_suspend_connection(conn);
		rc = -pthread_create(&s->capturer, NULL, run, s);
		s->has_capturer = s->capturing = !rc;
		if (rc)
			MHD_resume_connection(conn);
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

void capture_finish(struct http_server *s)
{
	const struct http_hooks *h = &s->cfg.hooks;
	pthread_mutex_lock(&s->lock);
	s->no_captures = true;
	bool any = s->has_capturer;
	s->has_capturer = false;
	pthread_mutex_unlock(&s->lock);
	if (!any)
		return;
	h->capture_stop(h->ctx, true);
	pthread_join(s->capturer, NULL);
	h->capture_stop(h->ctx, false);
}
