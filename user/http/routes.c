/* SPDX-License-Identifier: Apache-2.0 */
/* Every path there is, but for those of the page (assets.h). */
#include "http/ingest.h"
#include "http/pyroscope.h"
#include "http/request.h"

#include <ctype.h>
#include <string.h>

#define RANGE "from", "to"
#define WHERE RANGE, "where", "idle"
#define SELECT WHERE, "event", "metric"
#define FLAME \
	SELECT, "names", "max_nodes", "root", "view", "function", "module", "against", \
		"against_from", "against_to", "split", "limit"
#define PARAMS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static const char *const none[] = { NULL };

#define ASK (ROUTE_GET | ROUTE_STORE | ROUTE_CACHE)
#define CALL (ROUTE_POST | ROUTE_STORE | ROUTE_CACHE)
#define QUERIER "/querier.v1.QuerierService/"
#define CALL_MAX 65536
#define INGEST_MAX (2u << 20)

const struct route routes[] = {
	{ "/healthz", "healthz", ROUTE_GET | ROUTE_OPEN, 0, http_healthz, none },
	{ "/readyz", "readyz", ROUTE_GET | ROUTE_OPEN, 0, http_readyz, none },
	{ "/metrics", "metrics", ROUTE_GET, 0, http_metrics, NULL },
	{ "/metrics/profiles", "metrics-profiles", ROUTE_GET | ROUTE_STORE, 0, http_rules, NULL },
	{ "/api/v1/labels", "labels", ASK | ROUTE_SCOPED, 0, api_labels,
	  PARAMS(SELECT, "limit", "names_only") },
	{ "/api/v1/values", "values", ASK | ROUTE_SCOPED, 0, api_values,
	  PARAMS(SELECT, "limit", "key") },
	{ "/api/v1/series", "series", ASK | ROUTE_SCOPED, 0, api_series,
	  PARAMS(SELECT, "by", "step", "limit", "exact") },
	{ "/api/v1/heatmap", "heatmap", ASK | ROUTE_SCOPED, 0, api_heatmap,
	  PARAMS(SELECT, "by", "step", "limit") },
	{ "/api/v1/flame", "flame", ASK | ROUTE_SCOPED, 0, api_flame, PARAMS(FLAME) },
	{ "/api/v1/table", "table", ASK | ROUTE_SCOPED, 0, api_table,
	  PARAMS(SELECT, "names", "by", "limit", "exact", "match", "sort") },
	{ "/api/v1/diff", "diff", ASK | ROUTE_SCOPED, 0, api_diff,
	  PARAMS(SELECT, "names", "by", "limit", "against", "against_from", "against_to",
		 "inclusive", "absolute", "changes", "match") },
	{ "/api/v1/findings", "findings", ASK | ROUTE_SCOPED, 0, api_findings,
	  PARAMS(RANGE, "where", "by", "limit") },
	{ "/api/v1/why", "why", ASK | ROUTE_SCOPED, 0, api_why, PARAMS(WHERE, "names", "before") },
	{ "/api/v1/blame", "blame", ASK | ROUTE_SCOPED, 0, api_blame,
	  PARAMS(WHERE, "by", "limit", "metric") },
	{ "/api/v1/locks", "locks", ASK | ROUTE_SCOPED, 0, api_locks,
	  PARAMS(WHERE, "by", "limit") },
	{ "/api/v1/freeze", "freeze", ROUTE_POST | ROUTE_SLOW | ROUTE_FREEZE, 0, api_freeze, none },
	{ "/api/v1/stat", "stat", ASK, 0, api_stat, PARAMS(RANGE) },
	{ "/api/v1/statements", "statements", ROUTE_GET, 0, api_statements, PARAMS("ids") },
	{ QUERIER "ProfileTypes", "ProfileTypes", CALL | ROUTE_SCOPED, CALL_MAX, pyro_profile_types,
	  none },
	{ QUERIER "LabelNames", "LabelNames", CALL | ROUTE_SCOPED, CALL_MAX, pyro_label_names,
	  none },
	{ QUERIER "LabelValues", "LabelValues", CALL | ROUTE_SCOPED, CALL_MAX, pyro_label_values,
	  none },
	{ QUERIER "Series", "Series", CALL | ROUTE_SCOPED, CALL_MAX, pyro_series, none },
	{ QUERIER "SelectSeries", "SelectSeries", CALL | ROUTE_SCOPED, CALL_MAX, pyro_select_series,
	  none },
	{ QUERIER "SelectMergeStacktraces", "SelectMergeStacktraces", CALL | ROUTE_SCOPED, CALL_MAX,
	  pyro_stacktraces, none },
	{ QUERIER "SelectMergeProfile", "SelectMergeProfile", CALL | ROUTE_SCOPED, CALL_MAX,
	  pyro_profile, none },
	{ QUERIER "Diff", "Diff", CALL | ROUTE_SCOPED, CALL_MAX, pyro_diff, none },
	{ QUERIER "GetProfileStats", "GetProfileStats", CALL | ROUTE_SCOPED, CALL_MAX, pyro_stats,
	  none },
	{ "/push.v1.PusherService/Push", "Push", ROUTE_POST | ROUTE_SLOW | ROUTE_INGEST, INGEST_MAX,
	  ingest_push, none },
	{ "/ingest", "ingest", ROUTE_POST | ROUTE_SLOW | ROUTE_INGEST, INGEST_MAX, ingest_pyroscope,
	  PARAMS("name", "from", "until", "format", "sampleRate", "spyName", "units",
		 "aggregationType") },
	{ "/v1development/profiles", "otlp", ROUTE_POST | ROUTE_SLOW | ROUTE_INGEST, INGEST_MAX,
	  ingest_otlp, none },
	{ "/pyroscope/render", "render", ASK | ROUTE_SCOPED, 0, pyro_render, NULL },
	{ "/pyroscope/render-diff", "render-diff", ASK | ROUTE_SCOPED, 0, pyro_render_diff, NULL },
	{ "/pyroscope/label-values", "label-values", ASK | ROUTE_SCOPED, 0, pyro_legacy_values,
	  NULL },
	{ "/debug/pprof/profile", "pprof", ASK | ROUTE_SCOPED, 0, http_pprof,
	  PARAMS("seconds", "hz", "where", "event", "idle", "debug") },
	{ "/export/flame.html", "export-flame", ASK | ROUTE_SCOPED, 0, export_page, PARAMS(FLAME) },
	{ "/export/profile.pb.gz", "export-pprof", ASK | ROUTE_SCOPED, 0, export_profile,
	  PARAMS(SELECT) },
	{ "/export/folded.txt", "export-folded", ASK | ROUTE_SCOPED, 0, export_stacks,
	  PARAMS(SELECT) },
	{ "/api/v1/histogram", "histogram", ROUTE_GET | ROUTE_STORE | ROUTE_SCOPED, 0,
	  api_histogram, PARAMS("route", "metric", WHERE, "by", "limit", "buckets") },
};

const size_t n_routes = sizeof(routes) / sizeof(routes[0]);

bool routes_is_procedure(const char *path)
{
	const char *method = strrchr(path, '/'), *version = strstr(path, ".v");
	size_t n = method ? (size_t)(method - path) : 0;
	return n > 8 && !memchr(path + 1, '/', n - 1) && !strncmp(method - 7, "Service", 7) &&
	       version && version < method && isdigit((unsigned char)version[2]);
}
