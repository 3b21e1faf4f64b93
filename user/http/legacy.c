/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pyroscope's first API: /pyroscope/render, render-diff, label-values; questions as parameters,
 * "flamebearer" JSON.
 */
#include "http/connect.h"
#include "http/fleet.h"
#include "http/levels.h"
#include "http/pyro_selector.h"

#include "export/json.h"
#include "query/series.h"
#include "util/times.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMELINE_STEPS 200

struct side {
	struct query_spec spec;
	char *where;
	int64_t scale;
};

/* now-1h, RFC 3339, seconds, milliseconds. */
static int take_time(const struct request *r, const char *name, int64_t missing, int64_t *ret,
		     struct err *err)
{
	const char *text = request_param(r, name);
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	*ret = missing;
	if (!text || !*text)
		return 0;
	size_t n = strlen(text);
	if (n >= 12 && n <= 15 && strspn(text, "0123456789") == n) {
		*ret = strtoll(text, NULL, 10) * 1000000;
		return 0;
	}
	if (times_parse(text, now.tv_sec * 1000000000ll + now.tv_nsec, ret))
		return err_set(err, -EINVAL, "%s: '%.60s' is not a time", name, text);
	return 0;
}

/* "TYPE{selector}": the type may be left out, or be the name of an event. */
static int take_query(const struct request *r, struct store *s, const char *name, struct side *to,
		      struct err *err)
{
	const char *text = request_param(r, name);
	char type[PYRO_ID_MAX] = "";
	uint32_t event = UINT32_MAX;
	if (!text)
		return err_set(err, -EINVAL, "%s is missing: TYPE{selector}", name);
	size_t n = strcspn(text, "{");
	if (n >= sizeof(type))
		return err_set(err, -EINVAL, "%s: a type of so many bytes", name);
	memcpy(type, text, n);
	char *v[] = { (char *)(uintptr_t)(text + n) };
	for (uint32_t i = 0; n && i < store_n_events(s) && event == UINT32_MAX; i++)
		if (!strcmp(store_event(s, i)->name, type))
			event = i;
	int rc = n && event == UINT32_MAX ? pyro_find_type(s, type, &event, err) : 0;
	struct pyro_names names = { 0 };
	rc = rc ? rc : pyro_names_read(&names, r, s, err);
	rc = rc ? rc
		: pyro_selector(&names, event == UINT32_MAX ? NULL : store_event(s, event), v, 1,
				&to->where, err);
	pyro_names_fini(&names);
	to->spec.where = to->where;
	if (event != UINT32_MAX)
		pyro_of_type(s, event, &to->spec);
	return rc;
}

static int take_side(const struct request *r, struct store *s, const char *const names[3],
		     struct side *to, struct err *err)
{
	int rc = take_query(r, s, names[0], to, err);
	rc = rc ? rc : take_time(r, names[1], INT64_MIN, &to->spec.from_ns, err);
	rc = rc ? rc : take_time(r, names[2], INT64_MAX, &to->spec.to_ns, err);
	if (!rc && to->spec.from_ns >= to->spec.to_ns)
		rc = err_set(err, -EINVAL, "%s must be before %s", names[1], names[2]);
	to->spec.labels = QUERY_NO_LABELS;
	return rc;
}

static int take_nodes(const struct request *r, uint64_t *ret, struct err *err)
{
	const char *format = request_param(r, "format");
	*ret = PYRO_NODES;
	if (format && *format && strcmp(format, "json"))
		return err_set(err, -EINVAL,
			       "format: json alone; pprof is at /debug/pprof/profile");
	if (request_number(r, "maxNodes", PYRO_NODES_MAX, ret) < 0)
		return err_set(err, -EINVAL, "maxNodes: 0 to %d", PYRO_NODES_MAX);
	*ret = *ret ? *ret : PYRO_NODES;
	return 0;
}

/* ---- answers ---- */

static json_t *names_json(const struct levels *l)
{
	json_t *v = json_array();
	for (size_t i = 0; v && i < l->n_names; i++)
		json_array_append_new(v, json_text(l->names[i], strlen(l->names[i])));
	return v;
}

static json_t *levels_json(const struct levels *l)
{
	json_t *v = json_array();
	for (size_t i = 0; v && i < l->n; i++) {
		json_t *one = json_array();
		for (size_t k = 0; one && k < l->level[i].n; k++)
			json_array_append_new(one, json_integer(l->level[i].v[k]));
		json_array_append_new(v, one);
	}
	return v;
}

static json_t *graph_json(const struct levels *l, const struct store_event *e, bool two)
{
	json_t *graph = json_pack(
		"{s:o,s:o,s:I,s:I}", "names", names_json(l), "levels", levels_json(l), "numTicks",
		(json_int_t)(l->total[0] + l->total[1]), "maxSelf", (json_int_t)l->max_self);
	bool time = e && e->ns_per_sample;
	json_t *meta = json_pack("{s:s,s:I,s:s,s:s}", "format", two ? "double" : "single",
				 "sampleRate", (json_int_t)(time ? 1000000000 : 100), "spyName",
				 "ascribe", "units", "samples");
	json_t *o =
		json_pack("{s:i,s:o,s:o}", "version", 1, "flamebearer", graph, "metadata", meta);
	if (two && o) {
		json_put(o, "leftTicks", json_integer(l->total[0]));
		json_put(o, "rightTicks", json_integer(l->total[1]));
	}
	return o;
}

/* Samples in steps, for the line above the graph. */
static int add_timeline(json_t *o, struct request *r, struct store *s, const struct side *side,
			const struct query_info *info, struct err *err)
{
	struct query_series *series = NULL;
	struct query_series_spec spec = {
		.range = side->spec, .step_ns = (info->to_ns - info->from_ns) / TIMELINE_STEPS + 1
	};
	struct fleet_need need = { .spec = &spec.range,
				   .what = FLEET_STEPS,
				   .step_ns = spec.step_ns };
	int rc = fleet_ask(r, &s, &need, err);
	rc = rc ? rc : query_series(&series, s, &spec, err);
	json_t *v = json_array();
	for (size_t i = 0; !rc && v && i < series->n_steps; i++)
		json_array_append_new(v, json_count(series->n_rows ? series->rows[0].points[i] *
									     (uint64_t)side->scale
								   : 0));
	if (!rc)
		rc = json_put(o, "timeline",
			      json_pack("{s:I,s:o,s:I}", "startTime",
					(json_int_t)(series->from_ns / 1000000000), "samples",
					json_incref(v), "durationDelta",
					(json_int_t)(series->step_ns / 1000000000)));
	json_decref(v);
	query_series_free(series);
	return rc == -ENOMEM ? err_set(err, rc, "out of memory") : rc;
}

int pyro_render(struct request *r, struct store *s, struct err *err)
{
	static const char *const names[3] = { "query", "from", "until" };
	struct side side = { 0 };
	struct store *whole = s; /* of the whole range, without steps */
	struct query *q = NULL;
	struct levels l = { 0 };
	json_t *o = NULL;
	uint64_t nodes;
	int rc = take_side(r, s, names, &side, err);
	rc = rc ? rc : take_nodes(r, &nodes, err);
	rc = rc ? rc
		: fleet_ask(r, &whole,
			    &(struct fleet_need){ .spec = &side.spec, .what = FLEET_STACKS }, err);
	rc = rc ? rc : query_open(&q, whole, &side.spec, err);
	if (!rc) {
		struct export_source src = { .store = whole, .query = q, .where = side.where };
		side.scale = pyro_scale(query_info(q)->event);
		rc = levels_of_query(&l, &src, nodes, side.scale, err);
	}
	if (!rc && !(o = graph_json(&l, query_info(q)->event, false)))
		rc = err_set(err, -ENOMEM, "out of memory");
	if (!rc && query_info(q)->blocks)
		rc = add_timeline(o, r, s, &side, query_info(q), err);
	if (rc)
		json_decref(o);
	else
		rc = request_json(r, o, err);
	levels_fini(&l);
	query_close(q);
	free(side.where);
	return rc;
}

int pyro_render_diff(struct request *r, struct store *s, struct err *err)
{
	static const char *const names[2][3] = { { "leftQuery", "leftFrom", "leftUntil" },
						 { "rightQuery", "rightFrom", "rightUntil" } };
	struct side side[2] = { 0 };
	struct query *q[2] = { NULL, NULL };
	struct levels l = { 0 };
	uint64_t nodes;
	int rc = take_nodes(r, &nodes, err);
	for (int i = 0; !rc && i < 2; i++) {
		rc = take_side(r, s, names[i], &side[i], err);
		side[i].spec.by_start = true;
		side[i].spec.parts = 3;
	}
	struct fleet_need need = { .spec = &side[0].spec,
				   .against = &side[1].spec,
				   .what = FLEET_STACKS };
	rc = rc ? rc : fleet_ask(r, &s, &need, err);
	for (int i = 0; !rc && i < 2; i++)
		rc = query_open(&q[i], s, &side[i].spec, err);
	if (!rc) {
		int64_t scale[2] = { pyro_scale(query_info(q[0])->event),
				     pyro_scale(query_info(q[1])->event) };
		rc = levels_of_diff(&l, q[0], q[1], nodes, scale, err);
	}
	rc = rc ? rc : request_json(r, graph_json(&l, query_info(q[0])->event, true), err);
	levels_fini(&l);
	for (int i = 0; i < 2; i++) {
		query_close(q[i]);
		free(side[i].where);
	}
	return rc;
}

int pyro_legacy_values(struct request *r, struct store *s, struct err *err)
{
	const char *label = request_param(r, "label");
	struct query_spec spec = { 0 };
	if (!label || !*label || strlen(label) > 255)
		return err_set(err, -EINVAL, "label: of which label? 1 to 255 bytes");
	int rc = take_time(r, "from", INT64_MIN, &spec.from_ns, err);
	rc = rc ? rc : take_time(r, "until", INT64_MAX, &spec.to_ns, err);
	struct pyro_list values = { 0 };
	rc = rc ? rc : pyro_list_values(r, s, &spec, label, NULL, 0, &values, err);
	json_t *v = rc ? NULL : json_array();
	for (size_t i = 0; v && i < values.n; i++)
		json_array_append_new(v, json_text(values.v[i], strlen(values.v[i])));
	pyro_list_fini(&values);
	return rc ? rc : request_json(r, v, err);
}
