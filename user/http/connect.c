/* SPDX-License-Identifier: Apache-2.0 */
/*
 * querier.v1.QuerierService over connect: unary calls, unframed, as Grafana's data source makes
 * them.
 */
#include "http/levels.h"
#include "http/message.h"
#include "http/pyroscope.h"
#include "http/pyroscope.pb-c.h"

#include "query/series.h"
#include "util/array.h"
#include "util/gunzip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define QUESTION_MEMORY (4u << 20)
#define MS 1000000ll
#define STEPS_MAX 5000
#define SERIES_MAX 1000

struct call {
	struct request *r;
	struct message_memory memory;
	ProtobufCMessage *msg;
	bool json;
};

static int call_begin(struct call *c, struct request *r, const ProtobufCMessageDescriptor *d,
		      struct err *err)
{
	*c = (struct call){ .r = r };
	message_memory_init(&c->memory, QUESTION_MEMORY);
	return message_read(r, d, &c->memory, &c->msg, &c->json, err);
}

static void call_end(struct call *c)
{
	message_free(c->msg, &c->memory);
}

/* ---- what is asked ---- */

static int make_range(struct query_spec *s, int64_t start_ms, int64_t end_ms, struct err *err)
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
static int make_spec(struct query_spec *s, struct store *store, const char *type,
		     const char *selector, int64_t start_ms, int64_t end_ms, char **ret_where,
		     struct err *err)
{
	uint32_t event;
	char *v[] = { (char *)(uintptr_t)selector };
	*s = (struct query_spec){ .labels = QUERY_NO_LABELS };
	int rc = pyro_find_type(store, type, &event, err);
	rc = rc ? rc : make_range(s, start_ms, end_ms, err);
	if (!rc && pyro_selector(v, selector[0] ? 1 : 0, ret_where))
		rc = err_set(err, -ENOMEM, "out of memory");
	if (rc)
		return rc;
	s->where = *ret_where;
	pyro_of_type(store, event, s);
	return 0;
}

static uint64_t node_limit(int64_t asked)
{
	return asked <= 0 ? PYRO_NODES : asked > PYRO_NODES_MAX ? PYRO_NODES_MAX : (uint64_t)asked;
}

/* ---- lists of names ---- */

struct strings {
	char **v;
	size_t n, cap;
};

static int add_string(void *ctx, const char *text, size_t len)
{
	struct strings *s = ctx;
	if (memchr(text, 0, len)) /* no name of theirs has one */
		return 0;
	if (ARRAY_RESERVE(s->v, s->cap, s->n + 1))
		return -ENOMEM;
	s->v[s->n] = strndup(text, len);
	if (!s->v[s->n])
		return -ENOMEM;
	s->n++;
	return 0;
}

static int add_name(void *ctx, const char *name)
{
	return add_string(ctx, name, strlen(name));
}

static void strings_fini(struct strings *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i]);
	free(s->v);
}

static int answer_names(struct call *c, struct strings *s, int rc, struct err *err)
{
	Pyro__NamesResponse out = PYRO__NAMES_RESPONSE__INIT;
	out.names = s->v;
	out.n_names = s->n;
	rc = rc ? rc : message_write(c->r, &out.base, c->json, err);
	strings_fini(s);
	call_end(c);
	return rc == -ENOMEM ? err_set(err, rc, "out of memory") : rc;
}

int pyro_names(struct request *r, struct store *store, struct err *err)
{
	struct call c;
	struct strings s = { 0 };
	int rc = call_begin(&c, r, &pyro__label_names_request__descriptor, err);
	rc = rc ? rc : pyro_label_names(store, add_name, &s, err);
	return answer_names(&c, &s, rc, err);
}

static int values(struct store *store, const Pyro__LabelValuesRequest *q, struct strings *s,
		  struct err *err)
{
	struct query_spec spec = { 0 };
	char id[PYRO_ID_MAX], *where = NULL;
	int rc = 0;
	if (!strcmp(q->name, "__profile_type__")) {
		for (uint32_t i = 0; !rc && i < store_n_events(store); i++) {
			bool again = !query_is_profile(store_event(store, i));
			pyro_type_id(store, i, id);
			for (size_t k = 0; k < s->n && !again; k++) /* two rates of one event */
				again = !strcmp(s->v[k], id);
			rc = again ? 0 : add_name(s, id);
		}
		return rc;
	}
	if (!q->name[0] || strlen(q->name) > 255)
		return err_set(err, -EINVAL, "name: of which label? 1 to 255 bytes");
	rc = make_range(&spec, q->start, q->end, err);
	rc = rc ? rc : pyro_selector(q->matchers, q->n_matchers, &where);
	spec.where = where;
	rc = rc ? rc : pyro_label_values(store, &spec, q->name, add_string, s, err);
	free(where);
	return rc;
}

int pyro_values(struct request *r, struct store *store, struct err *err)
{
	struct call c;
	struct strings s = { 0 };
	int rc = call_begin(&c, r, &pyro__label_values_request__descriptor, err);
	rc = rc ? rc : values(store, (const Pyro__LabelValuesRequest *)c.msg, &s, err);
	return answer_names(&c, &s, rc, err);
}

/* ---- types ---- */

int pyro_profile_types(struct request *r, struct store *store, struct err *err)
{
	struct call c;
	Pyro__ProfileTypesResponse out = PYRO__PROFILE_TYPES_RESPONSE__INIT;
	uint32_t n = store_n_events(store);
	Pyro__ProfileType *t = calloc(n + 1, sizeof(*t)), **ptrs = calloc(n + 1, sizeof(*ptrs));
	char(*ids)[PYRO_ID_MAX] = calloc(n + 1, sizeof(*ids)),
	(*parts)[PYRO_ID_MAX] = calloc(n + 1, sizeof(*parts));
	int rc = call_begin(&c, r, &pyro__profile_types_request__descriptor, err);
	if (!rc && (!t || !ptrs || !ids || !parts))
		rc = err_set(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; !rc && i < n; i++) {
		bool again = !query_is_profile(store_event(store, i));
		pyro_type_id(store, i, ids[i]);
		for (uint32_t k = 0; k < i && !again; k++) /* two rates of one event */
			again = !strcmp(ids[i], ids[k]);
		if (again)
			continue;
		strcpy(parts[i], ids[i]);
		char *rest = parts[i];
		pyro__profile_type__init(&t[i]);
		t[i].id = ids[i];
		t[i].name = strsep(&rest, ":");
		t[i].sample_type = strsep(&rest, ":");
		t[i].sample_unit = strsep(&rest, ":");
		t[i].period_type = strsep(&rest, ":");
		t[i].period_unit = rest;
		ptrs[out.n_profile_types++] = &t[i];
	}
	out.profile_types = ptrs;
	rc = rc ? rc : message_write(r, &out.base, c.json, err);
	free(t);
	free(ptrs);
	free(ids);
	free(parts);
	call_end(&c);
	return rc;
}

/* ---- labels of groups ---- */

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

static int answer_series(struct call *c, const struct query_table *t, char *const *keys,
			 size_t n_keys, struct err *err)
{
	size_t n = t->n_rows < SERIES_MAX ? t->n_rows : SERIES_MAX;
	Pyro__SeriesResponse out = PYRO__SERIES_RESPONSE__INIT;
	Pyro__LabelSet *sets = calloc(n + 1, sizeof(*sets)), **ptrs = calloc(n + 1, sizeof(*ptrs));
	struct pairs *pairs = calloc(n + 1, sizeof(*pairs));
	int rc = sets && ptrs && pairs ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < n; i++) {
		rc = make_pairs(&pairs[i], keys, n_keys, t->rows[i].values, t->rows[i].present);
		pyro__label_set__init(&sets[i]);
		sets[i].labels = pairs[i].ptrs;
		sets[i].n_labels = pairs[i].n;
		ptrs[i] = &sets[i];
	}
	out.labels_set = ptrs;
	out.n_labels_set = n;
	rc = rc ? err_set(err, rc, "out of memory") : message_write(c->r, &out.base, c->json, err);
	free_pairs(pairs, n);
	free(sets);
	free(ptrs);
	return rc;
}

int pyro_series(struct request *r, struct store *store, struct err *err)
{
	static char comm[] = "comm";
	static char *by_default[] = { comm };
	struct call c;
	struct query *q = NULL;
	struct query_table *t = NULL;
	char *where = NULL;
	struct query_spec spec = { .labels = QUERY_KEYS };
	int rc = call_begin(&c, r, &pyro__series_request__descriptor, err);
	if (rc)
		return rc;
	const Pyro__SeriesRequest *m = (const Pyro__SeriesRequest *)c.msg;
	char **keys = m->n_label_names ? m->label_names : by_default;
	size_t n_keys = m->n_label_names ? m->n_label_names : 1;
	if (n_keys > 16)
		rc = err_set(err, -EINVAL, "label_names: at most 16");
	rc = rc ? rc : make_range(&spec, m->start, m->end, err);
	rc = rc ? rc : pyro_selector(m->matchers, m->n_matchers, &where);
	spec.where = where;
	spec.keys = (const char *const *)keys;
	spec.n_keys = n_keys;
	rc = rc ? rc : query_open(&q, store, &spec, err);
	rc = rc ? rc : query_table(q, spec.keys, n_keys, &t, err);
	rc = rc ? rc : answer_series(&c, t, keys, n_keys, err);
	query_table_free(t);
	query_close(q);
	free(where);
	call_end(&c);
	return rc;
}

/* ---- over time ---- */

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
	char *where = NULL;
	int rc = call_begin(&c, r, &pyro__select_series_request__descriptor, err);
	if (rc)
		return rc;
	const Pyro__SelectSeriesRequest *m = (const Pyro__SelectSeriesRequest *)c.msg;
	rc = make_spec(&spec.range, store, m->profile_typeid, m->label_selector, m->start, m->end,
		       &where, err);
	if (!rc && m->n_group_by > 16)
		rc = err_set(err, -EINVAL, "group_by: at most 16");
	if (!rc && !(m->step > 0 && m->step < 1e9))
		rc = err_set(err, -EINVAL, "step: seconds, more than 0");
	if (!rc) {
		spec.step_ns = (int64_t)(m->step * 1e9);
		spec.keys = m->n_group_by ? (const char *const *)m->group_by : NULL;
		spec.n_keys = m->n_group_by;
		spec.top = m->limit > 0 && m->limit < SERIES_MAX ? (size_t)m->limit : SERIES_MAX;
		rc = query_series(&s, store, &spec, err);
	}
	rc = rc ? rc : answer_points(&c, s, m->group_by, m->n_group_by, err);
	query_series_free(s);
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
	rc = make_spec(&spec, store, m->profile_typeid, m->label_selector, m->start, m->end, &where,
		       err);
	if (!rc && m->format == 2)
		rc = err_set(err, -EOPNOTSUPP, "format: flame graphs alone");
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

static int diff_levels(struct store *store, const Pyro__SelectRequest *const m[2], struct levels *l,
		       struct err *err)
{
	struct query_spec spec[2];
	struct query *q[2] = { NULL, NULL };
	char *where[2] = { NULL, NULL };
	int64_t scale[2];
	int rc = m[0] && m[1] ? 0 : err_set(err, -EINVAL, "left and right are needed");
	for (int i = 0; !rc && i < 2; i++) {
		rc = make_spec(&spec[i], store, m[i]->profile_typeid, m[i]->label_selector,
			       m[i]->start, m[i]->end, &where[i], err);
		spec[i].by_start = true;
		spec[i].parts = 3; /* and the difference */
		rc = rc ? rc : query_open(&q[i], store, &spec[i], err);
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
	rc = diff_levels(store, sides, &l, err);
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

static int write_pprof(struct request *r, const struct export_source *src, bool gzipped,
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
		: make_spec(&spec, store, m->profile_typeid, m->label_selector, m->start, m->end,
			    &where, err);
	rc = rc ? rc : query_open(&q, store, &spec, err);
	if (!rc) {
		struct export_source src = { .store = store, .query = q, .where = where };
		r->type = "application/proto";
		rc = write_pprof(r, &src, false, err);
	}
	query_close(q);
	free(where);
	call_end(&c);
	return rc;
}

static int extent(struct store *store, int64_t *ret_from, int64_t *ret_to, struct err *err)
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
	rc = rc ? rc : extent(store, &from, &to, err);
	out.data_ingested = to > 0;
	out.oldest_profile_time = from / MS;
	out.newest_profile_time = to / MS;
	rc = rc ? rc : message_write(r, &out.base, c.json, err);
	call_end(&c);
	return rc;
}

/*
 * The last so many seconds that were written: they were recorded already, nobody needs to wait for
 * them.
 */
int http_pprof(struct request *r, struct store *store, struct err *err)
{
	const char *text = request_param(r, "seconds"), *idle = request_param(r, "idle");
	struct query_spec spec = { .where = request_param(r, "where"),
				   .event = request_param(r, "event"),
				   .idle = idle && !strcmp(idle, "1") };
	struct query *q = NULL;
	char *end = NULL;
	int64_t from, to;
	unsigned long seconds = text ? strtoul(text, &end, 10) : 30;
	if (text && (end == text || *end || text[0] == '-' || !seconds || seconds > 86400))
		return err_set(err, -EINVAL, "seconds: 1 to 86400");
	for (uint32_t i = 0; spec.event && i < store_n_events(store); i++)
		if (!strcmp(store_event(store, i)->name, spec.event))
			pyro_of_type(store, i, &spec);
	int rc = extent(store, &from, &to, err);
	if (!rc && !to)
		rc = err_set(err, -EAGAIN, "nothing was recorded yet");
	spec.from_ns = to - (int64_t)seconds * 1000000000;
	spec.to_ns = to;
	rc = rc ? rc : query_open(&q, store, &spec, err);
	if (!rc) {
		struct export_source src = {
			.store = store, .query = q, .where = spec.where, .idle = spec.idle
		};
		r->type = "application/octet-stream";
		rc = write_pprof(r, &src, true, err);
	}
	query_close(q);
	return rc;
}
