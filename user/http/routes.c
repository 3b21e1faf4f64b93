/* SPDX-License-Identifier: Apache-2.0 */
/* Every path there is, but for those of the page (assets.h). */
#include "http/request.h"

#define RANGE "from", "to"
#define SELECT RANGE, "where", "event", "idle"
#define PARAMS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static const char *const none[] = { NULL };

#define ASK (ROUTE_GET | ROUTE_STORE | ROUTE_CACHE)

const struct route routes[] = {
	{ "/healthz", "healthz", ROUTE_GET | ROUTE_OPEN, 0, http_healthz, none },
	{ "/readyz", "readyz", ROUTE_GET, 0, http_readyz, none },
	{ "/metrics", "metrics", ROUTE_GET, 0, http_metrics, NULL },
	{ "/api/v1/labels", "labels", ASK, 0, api_labels, PARAMS(SELECT, "limit", "names_only") },
	{ "/api/v1/values", "values", ASK, 0, api_values, PARAMS(SELECT, "limit", "key") },
	{ "/api/v1/series", "series", ASK, 0, api_series, PARAMS(SELECT, "by", "step", "limit") },
	{ "/api/v1/flame", "flame", ASK, 0, api_flame, PARAMS(SELECT, "names", "max_nodes", "root") },
	{ "/api/v1/table", "table", ASK, 0, api_table, PARAMS(SELECT, "names", "by", "limit", "exact") },
	{ "/api/v1/diff", "diff", ASK, 0, api_diff,
	  PARAMS(SELECT, "names", "by", "limit", "against", "against_from", "against_to", "inclusive", "absolute", "changes") },
	{ "/api/v1/stat", "stat", ASK, 0, api_stat, PARAMS(RANGE) },
	{ "/api/v1/histogram", "histogram", ROUTE_GET, 0, api_histogram, PARAMS("route") },
};

const size_t n_routes = sizeof(routes) / sizeof(routes[0]);
