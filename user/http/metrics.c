/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the server says of itself. The number of series depends on the number of routes and askers
 * (quota.h) alone, never on what is stored or asked.
 */
#include "http/metric_rules.h"
#include "http/server_int.h"

#include "hist/metrics.h"
#include "hist/prometheus.h"
#include "hist/snapshot.h"
#include "http/clock.h"
#include "query/query.h"
#include "util/own.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static size_t stats_index(const struct request *r)
{
	for (size_t i = 0; i < n_routes; i++)
		if (r->route == &routes[i])
			return i;
	return r->asset ? n_routes : n_routes + 1;
}

static const char *stats_name(size_t i)
{
	return i < n_routes ? routes[i].name : i == n_routes ? "page" : "none";
}

void count_request(struct http_server *s, const struct request *r, uint64_t ns)
{
	struct route_stats *st = &s->stats[stats_index(r)];
	__atomic_fetch_add(&st->by_class[r->status / 100 % 6], 1, __ATOMIC_RELAXED);
	hist_record(st->ns, ns);
}

int metrics_family(struct buf *out, const char *name, const char *type, const char *help)
{
	return buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static int one(struct buf *out, const char *name, const char *type, const char *help, double v)
{
	int rc = metrics_family(out, name, type, help);
	return rc ? rc : buf_printf(out, "%s %.15g\n", name, v);
}

static int add_requests(struct http_server *s, struct buf *out)
{
	static const char *const refusals[] = {
#define X(name) #name,
		REFUSALS(X)
#undef X
	};
	int rc = metrics_family(out, "ascribe_http_requests_total", "counter",
				"Requests answered, by route and class of status.");
	for (size_t i = 0; !rc && i < n_routes + 2; i++)
		for (unsigned c = 2; !rc && c < 6; c++) {
			uint64_t n = __atomic_load_n(&s->stats[i].by_class[c], __ATOMIC_RELAXED);
			if (n)
				rc = buf_printf(
					out,
					"ascribe_http_requests_total{route=\"%s\",code=\"%uxx\"} %" PRIu64
					"\n",
					stats_name(i), c, n);
		}
	rc = rc ? rc
		: metrics_family(out, "ascribe_http_refused_total", "counter",
				 "Requests and connections refused before they were looked into.");
	for (size_t i = 0; !rc && i < N_REFUSALS; i++)
		rc = buf_printf(out, "ascribe_http_refused_total{reason=\"%s\"} %" PRIu64 "\n",
				refusals[i], __atomic_load_n(&s->refused[i], __ATOMIC_RELAXED));
	return rc;
}

static int add_durations(struct http_server *s, struct buf *out)
{
	static const uint64_t bounds[] = { 1000000,    2500000,	   5000000,    10000000,
					   25000000,   50000000,   100000000,  250000000,
					   500000000,  1000000000, 2500000000, 5000000000,
					   10000000000 };
	const struct hist_family f = {
		.name = "ascribe_http_request_seconds",
		.help = "Time from a request's head to its answer, waiting included.",
		.decimals = 9,
		.bounds = bounds,
		.n_bounds = sizeof(bounds) / sizeof(bounds[0])
	};
	int rc = hist_prometheus_head(&f, out, NULL);
	for (size_t i = 0; !rc && i < n_routes + 2; i++) {
		struct hist_snapshot snap;
		struct hist_label label = { "route", stats_name(i) };
		if (!__atomic_load_n(&s->stats[i].by_class[2], __ATOMIC_RELAXED))
			continue;
		hist_snapshot_init(&snap, 5);
		rc = hist_snapshot_add(&snap, s->stats[i].ns, NULL);
		rc = rc ? rc : hist_prometheus(&f, &snap, &label, 1, out, NULL);
		hist_snapshot_fini(&snap);
	}
	return rc;
}

static int add_process(struct http_server *s, struct buf *out)
{
	const double cpu = (double)own_cpu_ns() / 1e9;
	int rc;
	if (s->cfg.hooks.metrics) /* beside a recorder, whose process has the other lines */
		rc = one(out, "ascribe_server_cpu_seconds_total", "counter",
			 "User and system time of the process that serves.", cpu);
	else
		rc = one(out, "process_cpu_seconds_total", "counter",
			 "User and system time of this process.", cpu);
	if (!rc && !s->cfg.hooks.metrics)
		rc = one(out, "process_resident_memory_bytes", "gauge",
			 "Resident memory of this process.", (double)own_rss_bytes());
	return rc ? rc
		  : one(out, "ascribe_uptime_seconds", "gauge", "Since the server was opened.",
			(double)(http_now_ns() - s->started_ns) / 1e9);
}

static int add_store(struct http_server *s, struct buf *out)
{
	uint64_t opened, bytes, hits, misses, cached;
	snapshots_stats(s->snapshots, &opened, &bytes);
	cache_stats(s->cache, &hits, &misses, &cached);
	int rc = one(out, "ascribe_store_bytes", "gauge", "Bytes of the store's files.",
		     (double)bytes);
	rc = rc ? rc
		: one(out, "ascribe_store_opened_total", "counter",
		      "Times that the store was opened to be read.", (double)opened);
	rc = rc ? rc
		: metrics_family(out, "ascribe_http_cache_total", "counter",
				 "Questions looked up among earlier answers.");
	rc = rc ? rc
		: buf_printf(out,
			     "ascribe_http_cache_total{result=\"hit\"} %" PRIu64
			     "\nascribe_http_cache_total{result=\"miss\"} %" PRIu64 "\n",
			     hits, misses);
	rc = rc ? rc
		: one(out, "ascribe_queries_bounded_total", "counter",
		      "Queries whose smallest rows were summed as (other) to fit their memory.",
		      (double)query_bounded_total());
	return rc ? rc
		  : one(out, "ascribe_http_cache_bytes", "gauge", "Earlier answers that are kept.",
			(double)cached);
}

static int add_connections(struct http_server *s, struct buf *out)
{
	pthread_mutex_lock(&s->conns_lock);
	unsigned n = s->n_conns;
	pthread_mutex_unlock(&s->conns_lock);
	pthread_mutex_lock(&s->lock);
	unsigned waiting = s->waiting;
	pthread_mutex_unlock(&s->lock);
	int rc = one(out, "ascribe_http_connections", "gauge", "Open connections.", n);
	rc = rc ? rc
		: one(out, "ascribe_http_waiting", "gauge", "Questions that wait for a worker.",
		      waiting);
	rc = rc ? rc
		: one(out, "ascribe_http_sent_bytes_total", "counter", "Bytes of answers.",
		      (double)__atomic_load_n(&s->sent_bytes, __ATOMIC_RELAXED));
	return rc ? rc
		  : one(out, "ascribe_http_received_bytes_total", "counter",
			"Bytes of bodies received.",
			(double)__atomic_load_n(&s->received_bytes, __ATOMIC_RELAXED));
}

int http_metrics(struct request *r, struct store *store, struct err *err)
{
	struct http_server *s = r->server;
	(void)store;
	r->type = "text/plain; version=0.0.4; charset=utf-8";
	int rc = add_process(s, &r->out);
	rc = rc ? rc : add_store(s, &r->out);
	rc = rc ? rc : add_connections(s, &r->out);
	rc = rc ? rc : add_requests(s, &r->out);
	rc = rc ? rc : add_durations(s, &r->out);
	rc = rc ? rc : quota_metrics(s->quota, &r->out);
	if (!rc && s->cfg.hooks.audit)
		rc = one(&r->out, "ascribe_http_audit_lost_total", "counter",
			 "Requests that the audit log does not have.",
			 (double)__atomic_load_n(&s->audit.lost, __ATOMIC_RELAXED));
	rc = rc ? rc : metrics_prometheus(&r->out, err);
	if (!rc && s->cfg.hooks.metrics)
		rc = s->cfg.hooks.metrics(s->cfg.hooks.ctx, &r->out);
	return rc ? err_set(err, -ENOMEM, "out of memory") : 0;
}

int http_rules(struct request *r, struct store *store, struct err *err)
{
	struct metric_rules *rules = r->server->cfg.rules;
	bool openmetrics = r->takes_openmetrics;
	if (!rules)
		return err_set(err, -ENOENT, "there are no rules in `metrics:` of the daemon");
	r->type = openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
			      : "text/plain; version=0.0.4; charset=utf-8";
	int rc = metric_rules_write(rules, store, openmetrics, &r->out, err);
	return rc == -ENOMEM ? err_set(err, rc, "out of memory") : rc;
}

/* ---- whether it lives ---- */

int http_healthz(struct request *r, struct store *s, struct err *err)
{
	(void)s;
	(void)err;
	r->type = "text/plain; charset=utf-8";
	return buf_add(&r->out, "ok\n", 3);
}

int http_readyz(struct request *r, struct store *s, struct err *err)
{
	const struct http_hooks *h = &r->server->cfg.hooks;
	char why[HTTP_WHY_MAX] = "not ready";
	(void)s;
	if (h->ready && !h->ready(h->ctx, why))
		return err_set(err, -EAGAIN, "%s", why);
	r->type = "text/plain; charset=utf-8";
	return buf_add(&r->out, "ready\n", 6);
}
