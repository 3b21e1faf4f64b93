/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/histogram: lengths of waits, and the process's own histograms (docs/http.md). */
#include "hist/metrics.h"
#include "hist/snapshot.h"
#include "http/asked.h"
#include "http/server_int.h"

#include <errno.h>
#include <string.h>

static json_t *hist_json(const char *name, const char *unit, const struct hist_snapshot *h)
{
	json_t *o = json_object();
	int rc = json_put(o, "name", json_string(name));
	rc = rc ? rc : json_put(o, "unit", json_string(unit));
	rc = rc ? rc : json_put(o, "count", json_count(h->total));
	rc = rc ? rc : json_put(o, "error", json_real(hist_snapshot_moments(h).error));
	rc = rc ? rc : json_put(o, "mean", json_real(hist_snapshot_moments(h).mean));
	rc = rc ? rc : json_put(o, "quantiles", answer_quantile_values(h));
	rc = rc ? rc : json_put(o, "buckets", answer_buckets(h));
	return json_done(o, rc);
}

/* One of the process's own (hist/metrics.def). */
static int answer_metric(struct request *r, const char *name, struct err *err)
{
	struct hist_snapshot h;
	for (int i = 0; i < N_METRICS; i++) {
		if (strcmp(metric_name((enum metric)i), name))
			continue;
		hist_snapshot_init(&h, 6);
		int rc = metric_snapshot((enum metric)i, &h, err);
		rc = rc ? rc
			: request_json(r,
				       hist_json(name,
						 strstr(name, "_seconds") ? "nanoseconds" : "count",
						 &h),
				       err);
		hist_snapshot_fini(&h);
		return rc;
	}
	return err_set(err, -EINVAL, "metric: '%.60s' is no histogram of /metrics", name);
}

/* Of waits, or of the values of hits, from the store. */
static int answer_lengths_of(struct request *r, struct store *s, struct err *err)
{
	struct asked a;
	struct query *q = NULL;
	struct query_lengths *l = NULL;
	int rc = asked_parse(&a, r, err);
	if (!rc && query_of_threads(a.spec.where, a.keys, a.n_keys))
		rc = err_set(
			err, -EINVAL,
			"lengths of waits and values of hits are kept by the labels of the work, not by tgid, tid or thread");
	rc = rc ? rc : query_open(&q, s, &a.spec, err);
	rc = rc ? rc : query_lengths(&l, s, &a.spec, err);
	if (!rc) {
		struct answer answer = asked_answer(&a, s, &a.spec);
		rc = answer_choose_buckets(&answer, q, request_param(r, "buckets"), err);
		rc = rc ? rc : request_json(r, answer_lengths(&answer, q, l), err);
	}
	query_lengths_free(l);
	query_close(q);
	asked_fini(&a);
	return rc;
}

/* Waits or values, one of the process's own histograms, or the server's times so far. */
int api_histogram(struct request *r, struct store *s, struct err *err)
{
	const char *route = request_param(r, "route"), *metric = request_param(r, "metric");
	struct hist_snapshot h;
	if (metric &&
	    (!strcmp(metric, "off") || !strcmp(metric, "runq") || !strcmp(metric, "value")))
		return answer_lengths_of(r, s, err);
	if (r->grant->where)
		return err_set(err, -EACCES,
			       "metric: off or runq, for a token that reads by a selector");
	if (metric)
		return answer_metric(r, metric, err);
	for (size_t i = 0; i < n_routes; i++) {
		if (!route || strcmp(routes[i].name, route))
			continue;
		hist_snapshot_init(&h, 5);
		int rc = hist_snapshot_add(&h, r->server->stats[i].ns, err);
		rc = rc ? rc : request_json(r, hist_json(route, "nanoseconds", &h), err);
		hist_snapshot_fini(&h);
		return rc;
	}
	return err_set(
		err, -EINVAL,
		"route: the times of which route? flame, table, series, ... (the names in /metrics)");
}
