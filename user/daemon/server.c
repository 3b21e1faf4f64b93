/* SPDX-License-Identifier: Apache-2.0 */
/* What the process that serves (serving.h) is told, and what it asks for. */
#include "daemon/log.h"
#include "daemon/running.h"
#include "daemon/shares.h"
#include "daemon/socket_store.h"
#include "http/listen.h"
#include "http/metric_rules.h"
#include "import/pack.h"
#include "proc/proc.h"
#include "util/clock.h"
#include "util/memory_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define TELL_NS 5000000000ull /* it hears from us at least so often */
#define END_MS 3000
#define REQUESTS 16		      /* that are taken at a time, */
#define PAUSE_NS 2000000ull	      /* and so long none after as many */
#define FREEZE_PAUSE_NS 1000000000ull /* between freezes that are asked for */

/* ---- life ---- */

/* On any Unix socket, or else on any address of TCP? */
static bool listens_on(const struct daemon *d, bool unix_socket)
{
	for (size_t i = 0; i < d->s.http.n_listen; i++)
		if ((strncmp(d->s.http.listen[i], "unix:", 5) == 0) == unix_socket)
			return true;
	return false;
}

static int keep_token(struct daemon *d, struct err *err)
{
	char path[512];
	if (!d->s.own_token || !listens_on(d, false))
		return 0;
	int rc = daemon_settings_keep_token(&d->s, path, err);
	if (!rc)
		log_line(LOG_LINE_INFO, "requests to TCP addresses need the token in %s", path);
	return rc;
}

/* The process that serves makes no memory that memory-max would not see. */
static int make_memory(struct daemon *d, struct err *err)
{
	int rc = 0;
	if (d->memory_fd < 0)
		rc = memory_file_make("ascribe-profile", PROFILE_PACKED_MAX, &d->memory_fd);
	if (!rc && d->s.n_rules && d->rules_fd < 0)
		rc = memory_file_make("ascribe-rules", METRIC_RULES_KEPT_MAX, &d->rules_fd);
	return rc ? err_sys(err, rc, "memory for profiles and for the counters of metrics") : 0;
}

/* A disk that is full must not keep anybody from looking at what is there. */
static void open_audit_log(struct daemon *d)
{
	struct err err = { 0 };
	if (audit_log_open(&d->audit, d->s.o.store, d->s.o.audit_max, &err))
		log_line(LOG_LINE_WARNING, "requests are not logged: %s", err.text);
}

static uint64_t question_bytes(const struct daemon *d)
{
	struct shares share;
	shares_of(d->s.o.memory_max, d->saving.governor.memory.step, &share);
	return share.question;
}

static int begin(struct daemon *d, struct err *err)
{
	int rc = keep_token(d, err);
	rc = rc ? rc : make_memory(d, err);
	open_audit_log(d);
	rc = rc ? rc : http_sockets_open(&d->sockets, &d->s.http, err);
	if (rc)
		return rc;
	d->s.http.question_bytes = question_bytes(d);
	const struct serving_setup setup = { .store = d->s.o.store,
					     .http = &d->s.http,
					     .sockets = d->sockets,
					     .fd = { [WEB_STORE] = -1,
						     [WEB_TOKEN] = d->s.token,
						     [WEB_CAPTURE_TOKEN] = d->s.capture_token,
						     [WEB_TOKENS] = d->s.tokens,
						     [WEB_CERT] = d->s.cert,
						     [WEB_KEY] = d->s.key,
						     [WEB_CLIENT_CA] = d->s.client_ca,
						     [WEB_SQL] = d->sql.fd,
						     [WEB_AUDIT] = d->audit.fd,
						     [WEB_RULES] = d->rules_fd,
						     [WEB_MEMORY] = d->memory_fd },
					     .rules = d->s.o.metrics.v,
					     .n_rules = d->s.n_rules,
					     .audit_bytes = audit_log_bytes(&d->audit),
					     .rules_from_ns = d->rules_from_ns };
	return serving_begin(&d->serving, &setup, err);
}

static void close_sockets(struct daemon *d)
{
	http_sockets_close(d->sockets);
	d->sockets = NULL;
	if (d->sockets_kept)
		socket_store_keep(NULL);
	d->sockets_kept = false;
}

/* Somebody holds an address: the others are served, and this one is tried again. */
static void mend_sockets(struct daemon *d)
{
	const uint64_t now = proc_now_ns();
	const size_t before = d->sockets ? http_sockets_open_n(d->sockets) : 0;
	struct err err = { 0 };
	if (!d->sockets || before == d->sockets->n || now < d->mend_ns || !d->serving.wanted)
		return;
	d->mend_ns = now + TELL_NS;
	(void)!http_sockets_mend(d->sockets, NULL);
	if (http_sockets_open_n(d->sockets) == before)
		return;
	if (daemon_start_server(d, &err))
		log_line(LOG_LINE_ERROR, "http: %s", err.text);
}

/* Give the sockets to systemd. A full queue of its messages is tried again at the next tick. */
static void keep_sockets(struct daemon *d)
{
	if (!d->sockets || !d->sockets->changed)
		return;
	d->sockets_kept = socket_store_keep(d->sockets);
	d->sockets->changed = !d->sockets_kept;
}

int daemon_start_server(struct daemon *d, struct err *err)
{
	int rc = d->s.http.n_listen ? begin(d, err) : 0;
	if (rc || !d->s.http.n_listen) {
		serving_rest(&d->serving);
		close_sockets(d);
	}
	return rc;
}

void daemon_end_server(struct daemon *d)
{
	serving_end(&d->serving, END_MS);
	capture_fini(&d->capture);
	if (d->sockets_kept)
		http_sockets_leave(d->sockets);
	else
		http_sockets_close(d->sockets);
	d->sockets = NULL;
	audit_log_close(&d->audit);
	if (d->rules_fd >= 0)
		close(d->rules_fd);
	if (d->memory_fd >= 0)
		close(d->memory_fd);
	d->rules_fd = d->memory_fd = -1;
}

void daemon_limit_server(struct daemon *d)
{
	d->s.http.question_bytes = question_bytes(d);
	serving_limit(&d->serving, d->s.http.question_bytes);
}

void daemon_renew_rules(struct daemon *d, const struct daemon_settings *old)
{
	if (daemon_same_list(&old->o.metrics, &d->s.o.metrics))
		return;
	if (d->rules_fd >= 0)
		close(d->rules_fd);
	d->rules_fd = -1;
	d->rules_from_ns = (int64_t)clock_ns(CLOCK_REALTIME);
}

int daemon_server_fd(const struct daemon *d)
{
	return proc_now_ns() < d->paused_until_ns ? -1 : d->serving.fd;
}

/* ---- what it asks for ---- */

static void log_addresses(const struct daemon *d)
{
	for (size_t i = 0; i < d->sockets->n; i++) {
		const struct http_socket *s = &d->sockets->v[i];
		if (s->fd < 0)
			continue;
		log_line(LOG_LINE_INFO, "serving %s on %s%s", d->s.o.store,
			 s->at.unix_path[0] ? ""
			 : d->s.cert >= 0   ? "https://"
					    : "http://",
			 s->name);
	}
}

static void take_profile(struct daemon *d, const struct web_profile *p)
{
	struct err err = { 0 };
	int rc = ingest_take(&d->ingest, d->memory_fd, p->len, p->until_ns,
			     d->collector ? d->writer : NULL, d->s.filter, &d->redactor, &err);
	serving_done(&d->serving, p->id, rc, err.text);
	d->published.changed = true;
}

static void begin_capture(struct daemon *d, const struct web_capture *c)
{
	struct err err = { 0 };
	const struct http_capture asked = { c->hz, c->seconds };
	const struct saving_limits limits = daemon_saving_limits(d);
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	const struct capture_budget budget = { saving_room(&d->saving, &limits), d->saving.needs,
					       limits.cpu * (double)(cpus > 0 ? cpus : 1) };
	int rc = d->s.captures || listens_on(d, true)
			 ? capture_start(&d->capture, c->id, &asked, &budget, &err)
			 : err_set(&err, -EPERM, "nobody may have captures made");
	if (rc)
		serving_done(&d->serving, c->id, rc, err.text);
}

/* Each cuts the open window short, of which names are lacking then. */
static void freeze(struct daemon *d, const struct web_freeze *f)
{
	const uint64_t now = proc_now_ns();
	struct err err = { 0 };
	struct freeze_made made = { 0 };
	int rc = 0;
	if (!d->s.captures && !listens_on(d, true))
		rc = err_set(&err, -EPERM, "nobody may have anything frozen");
	else if (d->asked_freeze_ns && now - d->asked_freeze_ns < FREEZE_PAUSE_NS)
		rc = err_set(&err, -EAGAIN, "one freeze a second: ask again");
	else
		d->asked_freeze_ns = now;
	rc = rc ? rc : daemon_freeze(d, "asked for", &made, &err);
	serving_done(&d->serving, f->id, rc, rc ? err.text : made.name);
}

static void look_at_capture(struct daemon *d)
{
	struct err err = { 0 };
	uint64_t id;
	int rc = capture_look(&d->capture, &id, &err);
	if (rc != -EAGAIN)
		serving_done(&d->serving, id, rc, err.text);
}

/* It failed with settings that never worked: who starts the daemon must know. */
static int take_failure(struct daemon *d, const char *text, struct err *err)
{
	log_line(LOG_LINE_ERROR, "http: %s", text);
	return d->served ? 0 : err_set(err, -EIO, "the server could not begin");
}

static int take_request(struct daemon *d, const union web_to_recorder *r, struct err *err)
{
	switch (r->what) {
	case WEB_UP:
		d->served |= d->serving.up;
		if (d->serving.up) /* not if it ends already */
			log_addresses(d);
		return 0;
	case WEB_FAILED:
		return d->serving.ending ? 0 : take_failure(d, r->failed.text, err);
	case WEB_PROFILE:
		take_profile(d, &r->profile);
		return 0;
	case WEB_CAPTURE:
		begin_capture(d, &r->capture);
		return 0;
	case WEB_FREEZE:
		freeze(d, &r->freeze);
		return 0;
	case WEB_CAPTURE_END:
		capture_end(&d->capture);
		return 0;
	default:
		return 0;
	}
}

static void tell(struct daemon *d)
{
	const uint64_t now = proc_now_ns();
	struct buf metrics = BUF_INIT;
	struct web_state state;
	published_starts(&d->published, d->serving.starts);
	if (!serving_may_tell(&d->serving) ||
	    (!d->published.changed && d->serving.told && now - d->told_ns < TELL_NS))
		return;
	if (!published_state(&d->published, &d->ingest, &state, &metrics))
		serving_tell(&d->serving, &state, &metrics);
	d->told_ns = now;
	buf_fini(&metrics);
}

/*
 * Take what there is. A process that was taken over may ask without end: the recorder has other
 * work.
 */
static int take_requests(struct daemon *d, struct err *err)
{
	union web_to_recorder r;
	int rc = 0;
	if (proc_now_ns() < d->paused_until_ns)
		return 0;
	for (unsigned i = 0; !rc; i++) {
		const bool up = d->serving.up;
		if (i == REQUESTS) {
			d->paused_until_ns = proc_now_ns() + PAUSE_NS;
			break;
		}
		int got = serving_take(&d->serving, &r);
		if (got == -EAGAIN)
			break;
		if (!got) {
			rc = take_request(d, &r, err);
			continue;
		}
		capture_end(&d->capture); /* nobody is there any more who wants it */
		if (up)
			log_line(LOG_LINE_WARNING,
				 "the process that serves has ended; another one is started");
	}
	return rc;
}

int daemon_serve(struct daemon *d, uint64_t *io_until_ns, struct err *err)
{
	uint64_t wait_ns;
	struct err why = { 0 };
	int rc = take_requests(d, err);
	if (serving_look(&d->serving, &wait_ns, &why)) {
		capture_end(&d->capture);
		log_line(LOG_LINE_WARNING, "http: %s", why.text);
	}
	mend_sockets(d);
	keep_sockets(d);
	look_at_capture(d);
	if (audit_log_look(&d->audit, d->s.o.store))
		serving_audit(&d->serving, d->audit.fd);
	tell(d);
	const uint64_t capture_ns = capture_wait_ns(&d->capture),
		       audit_ns = audit_log_wait_ns(&d->audit), now = proc_now_ns();
	wait_ns = capture_ns < wait_ns ? capture_ns : wait_ns;
	wait_ns = audit_ns < wait_ns ? audit_ns : wait_ns;
	wait_ns = now < d->paused_until_ns && PAUSE_NS < wait_ns ? PAUSE_NS : wait_ns;
	if (now < *io_until_ns && wait_ns < *io_until_ns - now)
		*io_until_ns = now + wait_ns;
	return rc;
}
