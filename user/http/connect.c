/* SPDX-License-Identifier: Apache-2.0 */
/* querier.v1.QuerierService: what is summed, over time and as flame graphs. */
#include "http/connect.h"

#include "http/fleet.h"
#include "http/levels.h"
#include "http/pyro_selector.h"

#include "query/series.h"
#include "util/gunzip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define QUESTION_MEMORY (4u << 20)
#define STEPS_MAX 5000
#define GROUP_MAX 16

int call_begin(struct call *c, struct request *r, const ProtobufCMessageDescriptor *d,
	       struct err *err)
{
	*c = (struct call){ .r = r };
	message_memory_init(&c->memory, QUESTION_MEMORY);
	return message_read(r, d, &c->memory, &c->msg, &c->json, err);
}

void call_end(struct call *c)
{
	message_free(c->msg, &c->memory);
}

/* ---- what is asked ---- */

int call_range(struct query_spec *s, int64_t start_ms, int64_t end_ms, struct err *err)
{
	if (start_ms < 0 || end_ms < 0 || start_ms > INT64_MAX / MS || end_ms > INT64_MAX / MS ||
	    (end_ms && start_ms >= end_ms))
		return err_set(err, -EINVAL,
			       "start and end: milliseconds since 1970, start before end");
	s->from_ns = start_ms ? start_ms * MS : INT64_MIN;
	s->to_ns = end_ms ? end_ms * MS : INT64_MAX;
	return 0;
}

/* *ret_where is what s->where points to, to be freed. */
static int make_spec(struct query_spec *s, const struct request *r, struct store *store,
		     const char *type, const char *selector, int64_t start_ms, int64_t end_ms,
		     char **ret_where, struct err *err)
{
	uint32_t event;
	char *v[] = { (char *)(uintptr_t)selector };
	struct pyro_names names = { 0 };
	*s = (struct query_spec){ .labels = QUERY_NO_LABELS };
	int rc = pyro_find_type(store, type, &event, err);
	rc = rc ? rc : call_range(s, start_ms, end_ms, err);
	rc = rc ? rc : pyro_names_read(&names, r, store, err);
	rc = rc ? rc : pyro_selector(&names, store_event(store, event), v, 1, ret_where, err);
	pyro_names_fini(&names);
	if (rc)
		return rc;
	s->where = *ret_where;
	pyro_of_type(store, event, s);
	return 0;
}

/* The store's keys behind the names of a question about an event; to be freed with free_keys. */
static int find_keys(const struct request *r, struct store *store, const char *type,
		     char *const *names, size_t n, char **ret, struct err *err)
{
	uint32_t event;
	struct pyro_names known = { 0 };
	int rc = pyro_find_type(store, type, &event, err);
	rc = rc ? rc : pyro_names_read(&known, r, store, err);
	for (size_t i = 0; !rc && i < n; i++) {
		ret[i] = strdup(pyro_names_key(&known, store_event(store, event), names[i]));
		rc = ret[i] ? 0 : err_set(err, -ENOMEM, "out of memory");
	}
	pyro_names_fini(&known);
	return rc;
}

static void free_keys(char **keys, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(keys[i]);
}

static uint64_t node_limit(int64_t asked)
{
	return asked <= 0 ? PYRO_NODES : asked > PYRO_NODES_MAX ? PYRO_NODES_MAX : (uint64_t)asked;
}

/* ---- over time ---- */

/* The labels of a group in an answer. */
struct pairs {
	Pyro__LabelPair *v, **ptrs;
	size_t n;
};

static int make_pairs(struct pairs *p, char *const *keys, size_t n_keys, const char *const *vals,
		      const bool *present)
{
	p->v = calloc(n_keys + 1, sizeof(*p->v));
	p->ptrs = calloc(n_keys + 1, sizeof(*p->ptrs));
	if (!p->v || !p->ptrs)
		return -ENOMEM;
	for (size_t i = 0; vals && i < n_keys; i++) {
		if (!present[i])
			continue;
		pyro__label_pair__init(&p->v[p->n]);
		p->v[p->n].name = keys[i];
		p->v[p->n].value = (char *)(uintptr_t)vals[i];
		p->ptrs[p->n] = &p->v[p->n];
		p->n++;
	}
	return 0;
}

static void free_pairs(struct pairs *p, size_t n)
{
	for (size_t i = 0; p && i < n; i++) {
		free(p[i].v);
		free(p[i].ptrs);
	}
	free(p);
}

static int answer_points(struct call *c, const struct query_series *s, char *const *keys,
			 size_t n_keys, struct err *err)
{
	int64_t scale = pyro_scale(query_info(s->whole)->event);
	size_t n = s->n_rows, steps = s->n_steps;
	Pyro__SelectSeriesResponse out = PYRO__SELECT_SERIES_RESPONSE__INIT;
	Pyro__Series *v = calloc(n + 1, sizeof(*v)), **ptrs = calloc(n + 1, sizeof(*ptrs));
	Pyro__Point *points = calloc(n * steps + 1, sizeof(*points)),
		    **point_ptrs = calloc(n * steps + 1, sizeof(*point_ptrs));
	struct pairs *pairs = calloc(n + 1, sizeof(*pairs));
	int rc = v && ptrs && points && point_ptrs && pairs ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < n; i++) {
		const struct query_series_row *row = &s->rows[i];
		if (row->other) /* whoever asks for the first N wants those */
			continue;
		rc = make_pairs(&pairs[i], keys, n_keys, row->values, row->present);
		pyro__series__init(&v[i]);
		v[i].labels = pairs[i].ptrs;
		v[i].n_labels = pairs[i].n;
		v[i].points = &point_ptrs[i * steps];
		for (size_t k = 0; k < steps; k++) {
			Pyro__Point *p = &points[i * steps + v[i].n_points];
			if (!s->windows[k])
				continue;
			pyro__point__init(p);
			p->value = (double)row->points[k] * (double)scale;
			p->timestamp = (s->from_ns + (int64_t)k * s->step_ns) / MS;
			v[i].points[v[i].n_points++] = p;
		}
		ptrs[out.n_series++] = &v[i];
	}
	out.series = ptrs;
	rc = rc ? err_set(err, rc, "out of memory") : message_write(c->r, &out.base, c->json, err);
	free_pairs(pairs, n);
	free(v);
	free(ptrs);
	free(points);
	free(point_ptrs);
	return rc;
}

int pyro_select_series(struct request *r, struct store *store, struct err *err)
{
	struct call c;
	struct query_series *s = NULL;
	struct query_series_spec spec = { .max_steps = STEPS_MAX };
	char *where = NULL, *keys[GROUP_MAX] = { NULL };
	int rc = call_begin(&c, r, &pyro__select_series_request__descriptor, err);
	if (rc)
		return rc;
	const Pyro__SelectSeriesRequest *m = (const Pyro__SelectSeriesRequest *)c.msg;
	rc = make_spec(&spec.range, r, store, m->profile_typeid, m->label_selector, m->start,
		       m->end, &where, err);
	if (!rc && m->n_group_by > GROUP_MAX)
		rc = err_set(err, -EINVAL, "group_by: at most %d", GROUP_MAX);
	rc = rc ? rc
		: find_keys(r, store, m->profile_typeid, m->group_by, m->n_group_by, keys, err);
	if (!rc && !(m->step > 0 && m->step < 1e9))
		rc = err_set(err, -EINVAL, "step: seconds, more than 0");
	if (!rc) {
		spec.step_ns = (int64_t)(m->step * 1e9);
		spec.keys = m->n_group_by ? (const char *const *)keys : NULL;
		spec.n_keys = m->n_group_by;
		spec.top = m->limit > 0 && m->limit < SERIES_MAX ? (size_t)m->limit : SERIES_MAX;
		struct fleet_need need = { .spec = &spec.range,
					   .what = FLEET_STEPS,
					   .keys = spec.keys,
					   .n_keys = spec.n_keys,
					   .step_ns = spec.step_ns };
		rc = fleet_ask(r, &store, &need, err);
	}
	rc = rc ? rc : query_series(&s, store, &spec, err);
	rc = rc ? rc : answer_points(&c, s, m->group_by, m->n_group_by, err);
	query_series_free(s);
	free_keys(keys, GROUP_MAX);
	free(where);
	call_end(&c);
	return rc;
}

/* ---- flame graphs ---- */

static int make_levels(const struct levels *l, Pyro__Level **ret, Pyro__Level ***ret_ptrs)
{
	Pyro__Level *v = calloc(l->n + 1, sizeof(*v)), **ptrs = calloc(l->n + 1, sizeof(*ptrs));
	for (size_t i = 0; v && ptrs && i < l->n; i++) {
		pyro__level__init(&v[i]);
		v[i].values = l->level[i].v;
		v[i].n_values = l->level[i].n;
		ptrs[i] = &v[i];
	}
	*ret = v;
	*ret_ptrs = ptrs;
	return v && ptrs ? 0 : -ENOMEM;
}

int pyro_stacktraces(struct request *r, struct store *store, struct err *err)
{
	struct call c;
	struct query_spec spec;
	struct query *q = NULL;
	struct levels l = { 0 };
	Pyro__FlameGraph graph = PYRO__FLAME_GRAPH__INIT;
	Pyro__FlameResponse out = PYRO__FLAME_RESPONSE__INIT;
	Pyro__Level *levels = NULL;
	char *where = NULL;
	int rc = call_begin(&c, r, &pyro__select_request__descriptor, err);
	if (rc)
		return rc;
	const Pyro__SelectRequest *m = (const Pyro__SelectRequest *)c.msg;
	rc = make_spec(&spec, r, store, m->profile_typeid, m->label_selector, m->start, m->end,
		       &where, err);
	if (!rc && m->format == 2)
		rc = err_set(err, -EOPNOTSUPP, "format: flame graphs alone");
	rc = rc ? rc
		: fleet_ask(r, &store, &(struct fleet_need){ .spec = &spec, .what = FLEET_STACKS },
			    err);
	rc = rc ? rc : query_open(&q, store, &spec, err);
	if (!rc) {
		struct export_source src = { .store = store, .query = q, .where = where };
		rc = levels_of_query(&l, &src, node_limit(m->max_nodes),
				     pyro_scale(query_info(q)->event), err);
	}
	if (!rc && make_levels(&l, &levels, &graph.levels))
		rc = err_set(err, -ENOMEM, "out of memory");
	graph.n_levels = l.n;
	graph.names = l.names;
	graph.n_names = l.n_names;
	graph.total = l.total[0];
	graph.max_self = l.max_self;
	out.flamegraph = &graph;
	rc = rc ? rc : message_write(r, &out.base, c.json, err);
	free(levels);
	free(graph.levels);
	levels_fini(&l);
	query_close(q);
	free(where);
	call_end(&c);
	return rc;
}

static int diff_levels(struct request *r, struct store *store,
		       const Pyro__SelectRequest *const m[2], struct levels *l, struct err *err)
{
	struct query_spec spec[2];
	struct query *q[2] = { NULL, NULL };
	char *where[2] = { NULL, NULL };
	int64_t scale[2];
	int rc = m[0] && m[1] ? 0 : err_set(err, -EINVAL, "left and right are needed");
	for (int i = 0; !rc && i < 2; i++) {
		rc = make_spec(&spec[i], r, store, m[i]->profile_typeid, m[i]->label_selector,
			       m[i]->start, m[i]->end, &where[i], err);
		spec[i].by_start = true;
		spec[i].parts = 3; /* and the difference */
	}
	rc = rc ? rc
		: fleet_ask(r, &store,
			    &(struct fleet_need){
				    .spec = &spec[0], .against = &spec[1], .what = FLEET_STACKS },
			    err);
	for (int i = 0; !rc && i < 2; i++) {
		rc = query_open(&q[i], store, &spec[i], err);
		scale[i] = rc ? 1 : pyro_scale(query_info(q[i])->event);
	}
	rc = rc ? rc : levels_of_diff(l, q[0], q[1], node_limit(m[0]->max_nodes), scale, err);
	for (int i = 0; i < 2; i++) {
		query_close(q[i]);
		free(where[i]);
	}
	return rc;
}

int pyro_diff(struct request *r, struct store *store, struct err *err)
{
	struct call c;
	struct levels l = { 0 };
	Pyro__FlameGraphDiff graph = PYRO__FLAME_GRAPH_DIFF__INIT;
	Pyro__DiffResponse out = PYRO__DIFF_RESPONSE__INIT;
	Pyro__Level *levels = NULL;
	int rc = call_begin(&c, r, &pyro__diff_request__descriptor, err);
	if (rc)
		return rc;
	const Pyro__DiffRequest *m = (const Pyro__DiffRequest *)c.msg;
	const Pyro__SelectRequest *const sides[2] = { m->left, m->right };
	rc = diff_levels(r, store, sides, &l, err);
	if (!rc && make_levels(&l, &levels, &graph.levels))
		rc = err_set(err, -ENOMEM, "out of memory");
	graph.n_levels = l.n;
	graph.names = l.names;
	graph.n_names = l.n_names;
	graph.total = l.total[0] + l.total[1];
	graph.max_self = l.max_self;
	graph.leftticks = l.total[0];
	graph.rightticks = l.total[1];
	out.flamegraph = &graph;
	rc = rc ? rc : message_write(r, &out.base, c.json, err);
	free(levels);
	free(graph.levels);
	levels_fini(&l);
	call_end(&c);
	return rc;
}

/* ---- pprof, and what there is at all ---- */

int pyro_write_pprof(struct request *r, const struct export_source *src, bool gzipped,
		     struct err *err)
{
	char *data = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&data, &len);
	int rc = f ? export_pprof(src, EXPORT_BY_EVENT, f, err)
		   : err_set(err, -ENOMEM, "out of memory");
	if (f && fclose(f) && !rc)
		rc = err_set(err, -ENOMEM, "out of memory");
	if (!rc && (gzipped ? buf_add(&r->out, data, len)
			    : gunzip((const uint8_t *)data, len, SIZE_MAX, &r->out, err)))
		rc = err_set(err, -ENOMEM, "out of memory");
	free(data);
	return rc;
}

int pyro_profile(struct request *r, struct store *store, struct err *err)
{
	struct call c;
	struct query_spec spec;
	struct query *q = NULL;
	char *where = NULL;
	int rc = call_begin(&c, r, &pyro__select_profile_request__descriptor, err);
	if (rc)
		return rc;
	const Pyro__SelectProfileRequest *m = (const Pyro__SelectProfileRequest *)c.msg;
	if (c.json)
		rc = err_set(err, -EOPNOTSUPP, "a profile is answered as application/proto alone");
	rc = rc ? rc
		: make_spec(&spec, r, store, m->profile_typeid, m->label_selector, m->start, m->end,
			    &where, err);
	rc = rc ? rc
		: fleet_ask(r, &store, &(struct fleet_need){ .spec = &spec, .what = FLEET_STACKS },
			    err);
	rc = rc ? rc : query_open(&q, store, &spec, err);
	if (!rc) {
		struct export_source src = { .store = store, .query = q, .where = where };
		r->type = "application/proto";
		rc = pyro_write_pprof(r, &src, false, err);
	}
	query_close(q);
	free(where);
	call_end(&c);
	return rc;
}

int pyro_extent(struct store *store, int64_t *ret_from, int64_t *ret_to, struct err *err)
{
	struct store_cover all;
	int rc = store_cover(store, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &all, err);
	if (rc)
		return rc;
	*ret_from = all.n ? all.from_ns : 0;
	*ret_to = all.n ? all.to_ns : 0;
	store_cover_free(&all);
	return 0;
}

int pyro_stats(struct request *r, struct store *store, struct err *err)
{
	struct call c;
	Pyro__StatsResponse out = PYRO__STATS_RESPONSE__INIT;
	int64_t from = 0, to = 0;
	int rc = call_begin(&c, r, &pyro__stats_request__descriptor, err);
	rc = rc ? rc : pyro_extent(store, &from, &to, err);
	out.data_ingested = to > 0;
	out.oldest_profile_time = from / MS;
	out.newest_profile_time = to / MS;
	rc = rc ? rc : message_write(r, &out.base, c.json, err);
	call_end(&c);
	return rc;
}
