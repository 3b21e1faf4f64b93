/* SPDX-License-Identifier: Apache-2.0 */
#include "http/metric_rules_int.h"

#include "util/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

static bool is_name(const char *s)
{
	bool good = *s && !isdigit((unsigned char)*s);
	for (; good && *s; s++)
		good = isalnum((unsigned char)*s) || *s == '_';
	return good;
}

void metric_rule_label(const char *key, char out[VALUE_MAX])
{
	size_t n = 0;
	for (; *key && n + 1 < VALUE_MAX; key++, n++)
		out[n] = isalnum((unsigned char)*key) && (n || !isdigit((unsigned char)*key)) ? *key
											      : '_';
	out[n] = 0;
}

/* Prometheus gives the lines of a histogram and of a summary a label of their own. */
static int check_lengths(const struct metric_rule *r, struct err *err)
{
	const char *own = r->type == RULE_HISTOGRAM ? "le" : "quantile";
	char name[VALUE_MAX];
	if (r->metric != QUERY_OFF && r->metric != QUERY_RUNQ)
		return err_set(
			err, -EINVAL,
			"type: histograms and summaries are of waits: choose metric off-cpu or "
			"runq, or leave type out");
	if (r->top > RULE_LENGTHS_TOP_MAX)
		return err_set(err, -EINVAL, "top: at most %d with histograms and summaries",
			       RULE_LENGTHS_TOP_MAX);
	if (query_of_threads(r->where, r->keys, r->n_keys))
		return err_set(err, -EINVAL,
			       "by, where: lengths of waits are not kept by tgid, tid or thread: "
			       "choose labels of the work");
	for (size_t i = 0; i < r->n_keys; i++) {
		metric_rule_label(r->keys[i], name);
		if (!strcmp(name, own) || query_is_wait_key(r->keys[i]))
			return err_set(err, -EINVAL, "by: not %s with type: %s", r->keys[i],
				       r->type == RULE_HISTOGRAM ? "histogram" : "summary");
	}
	return 0;
}

int metric_rule_check(const struct metric_rule *r, struct err *err)
{
	char a[VALUE_MAX], b[VALUE_MAX];
	if (!is_name(r->name))
		return err_set(err, -EINVAL, "name: '%s' has other than letters, digits and _",
			       r->name);
	if (!r->n_keys || r->n_keys > RULE_KEYS_MAX)
		return err_set(err, -EINVAL, "by: 1 to %d labels", RULE_KEYS_MAX);
	for (size_t i = 0; i < r->n_keys; i++)
		for (size_t k = 0; k < i; k++) {
			metric_rule_label(r->keys[i], a);
			metric_rule_label(r->keys[k], b);
			if (!strcmp(a, b))
				return err_set(err, -EINVAL, "by: two labels would be called %s",
					       a);
		}
	return r->type == RULE_COUNTER ? 0 : check_lengths(r, err);
}

int metric_rules_new(struct metric_rules **ret, const struct metric_rule *v, size_t n,
		     int64_t from_ns, struct err *err)
{
	struct metric_rules *r = calloc(1, sizeof(*r));
	int rc = r && (r->v = calloc(n + 1, sizeof(*r->v))) ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < n; i++) {
		struct rule_state *s = &r->v[r->n++];
		s->r = v[i];
		s->next_ns = from_ns;
		s->series = calloc(v[i].top, sizeof(*s->series));
		s->other = v[i].type == RULE_COUNTER ? NULL : rule_lengths_new();
		rc = s->series && (s->other || v[i].type == RULE_COUNTER) ? 0 : -ENOMEM;
		for (size_t k = 0; !rc && k < i; k++)
			if (!strcmp(v[k].name, v[i].name))
				rc = err_set(err, -EINVAL, "two rules are called %s", v[i].name);
	}
	if (rc) {
		metric_rules_free(r);
		return rc == -ENOMEM ? err_set(err, rc, "out of memory") : rc;
	}
	pthread_mutex_init(&r->lock, NULL);
	r->kept_fd = -1;
	*ret = r;
	return 0;
}

void metric_rules_free(struct metric_rules *r)
{
	for (size_t i = 0; r && i < r->n; i++) {
		for (unsigned k = 0; k < r->v[i].n; k++) {
			free(r->v[i].series[k].values);
			rule_lengths_free(r->v[i].series[k].lengths);
		}
		free(r->v[i].series);
		rule_lengths_free(r->v[i].other);
	}
	if (r)
		free(r->v);
	free(r);
}

/* ---- counting ---- */

int rule_write_values(struct buf *to, const char *const *values, size_t n_keys)
{
	int rc = 0;
	to->len = 0;
	for (size_t i = 0; !rc && i < n_keys; i++) {
		rc = utf8_repair(to, values[i], strnlen(values[i], VALUE_MAX));
		rc = rc ? rc : buf_add_u8(to, 0);
	}
	return rc;
}

static bool is_other(const struct buf *values, size_t n_keys)
{
	const char *at = (const char *)values->data;
	for (size_t i = 0; i < n_keys; i++, at += sizeof(OTHER))
		if ((size_t)(at - (const char *)values->data) + sizeof(OTHER) > values->len ||
		    strcmp(at, OTHER) != 0)
			return false;
	return true;
}

static struct series *find_series(const struct rule_state *s, const struct buf *values)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->series[i].len == values->len &&
		    !memcmp(s->series[i].values, values->data, values->len))
			return &s->series[i];
	return NULL;
}

static int new_series(struct rule_state *s, const struct buf *values, struct series **ret)
{
	struct series *to = &s->series[s->n];
	const bool counter = s->r.type == RULE_COUNTER;
	*to = (struct series){ .values = malloc(values->len),
			       .len = values->len,
			       .lengths = counter ? NULL : rule_lengths_new() };
	if (!to->values || (!to->lengths && !counter)) {
		free(to->values);
		rule_lengths_free(to->lengths);
		return -ENOMEM;
	}
	memcpy(to->values, values->data, values->len);
	s->n++;
	*ret = to;
	return 0;
}

int rule_find_series(struct rule_state *s, const struct buf *values, struct series **ret)
{
	*ret = NULL;
	if (is_other(values, s->r.n_keys))
		return 0;
	*ret = find_series(s, values);
	return !*ret && s->n < s->r.top ? new_series(s, values, ret) : 0;
}

/* Rows come by their seconds, so free series go to the largest groups. */
static int count_row(struct rule_state *s, const struct query_table_row *row, struct buf *values)
{
	struct series *to = NULL;
	if (row->other) {
		s->other_ns += row->samples;
		return 0;
	}
	if (!row->samples)
		return 0;
	int rc = rule_write_values(values, row->values, s->r.n_keys);
	rc = rc ? rc : rule_find_series(s, values, &to);
	if (!rc && to)
		to->ns += row->samples;
	else if (!rc)
		s->other_ns += row->samples;
	return rc;
}

static int open_query(const struct rule_state *s, struct store *store, int64_t from_ns,
		      const char *const *keys, size_t n_keys, struct query **ret_q,
		      struct query_table **ret_t, struct err *err)
{
	const struct query_spec spec = { .where = s->r.where,
					 .from_ns = from_ns,
					 .to_ns = INT64_MAX,
					 .metric = s->r.metric,
					 .labels = QUERY_KEYS,
					 .keys = keys,
					 .n_keys = n_keys,
					 .by_start = true };
	int rc = query_open(ret_q, store, &spec, err);
	return rc ? rc : query_table(*ret_q, keys, n_keys, ret_t, err);
}

/* Note the trace with the most time of each series. */
static int find_exemplars(struct rule_state *s, struct store *store, int64_t from_ns,
			  struct err *err)
{
	const char *keys[RULE_KEYS_MAX + 1];
	struct query *q = NULL;
	struct query_table *t = NULL;
	struct buf values = BUF_INIT;
	bool has = false;
	int rc = store_has_key(store, TRACE_KEY, &has, err);
	if (rc || !has)
		return rc;
	memcpy(keys, s->r.keys, s->r.n_keys * sizeof(*keys));
	keys[s->r.n_keys] = TRACE_KEY;
	rc = open_query(s, store, from_ns, keys, s->r.n_keys + 1, &q, &t, err);
	int64_t at = rc ? 0 : query_info(q)->to_ns;
	for (size_t i = 0; !rc && i < t->n_rows; i++) {
		const struct query_table_row *row = &t->rows[i];
		const char *trace = row->other ? "" : row->values[s->r.n_keys];
		size_t len = strspn(trace, "0123456789abcdefABCDEF-");
		if (!len || trace[len] || len >= TRACE_MAX)
			continue;
		rc = rule_write_values(&values, row->values, s->r.n_keys);
		struct series *to = rc ? NULL : find_series(s, &values);
		if (!to || to->trace_at_ns == at) /* a longer one came before */
			continue;
		memcpy(to->trace, trace, len + 1);
		to->trace_ns = row->samples;
		to->trace_at_ns = at;
	}
	buf_fini(&values);
	query_table_free(t);
	query_close(q);
	return rc;
}

static int count_windows(struct rule_state *s, struct store *store, bool exemplars, struct err *err)
{
	struct query *q = NULL;
	struct query_table *t = NULL;
	struct buf values = BUF_INIT;
	const int64_t from_ns = s->next_ns;
	int rc = open_query(s, store, from_ns, s->r.keys, s->r.n_keys, &q, &t, err);
	bool any = !rc && query_info(q)->windows;
	if (any) /* whatever fails from here on, nothing is counted twice */
		s->next_ns = query_info(q)->to_ns;
	for (size_t i = 0; !rc && i < t->n_rows; i++)
		rc = count_row(s, &t->rows[i], &values);
	if (!rc && any && exemplars)
		rc = find_exemplars(s, store, from_ns, err);
	buf_fini(&values);
	query_table_free(t);
	query_close(q);
	return rc;
}

/* ---- the text ---- */

static int add_value(struct buf *out, const char *value)
{
	int rc = buf_add_u8(out, '"');
	for (; !rc && *value; value++)
		rc = *value == '\n'		       ? buf_add(out, "\\n", 2)
		     : *value == '"' || *value == '\\' ? buf_printf(out, "\\%c", *value)
						       : buf_add_u8(out, (uint8_t)*value);
	return rc ? rc : buf_add_u8(out, '"');
}

/* values NULL: of (other). */
static int add_line(const struct rule_state *s, const char *values, uint64_t ns, struct buf *out)
{
	char name[VALUE_MAX];
	int rc = buf_printf(out, "ascribe_profile_%s_seconds_total{", s->r.name);
	for (size_t i = 0; !rc && i < s->r.n_keys; i++) {
		metric_rule_label(s->r.keys[i], name);
		rc = buf_printf(out, "%s%s=", i ? "," : "", name);
		rc = rc ? rc : add_value(out, values ? values : OTHER);
		values += values ? strlen(values) + 1 : 0;
	}
	return rc ? rc
		  : buf_printf(out, "} %" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
}

static int add_exemplar(const struct series *s, struct buf *out)
{
	return buf_printf(out, " # {trace_id=\"%s\"} %" PRIu64 ".%09" PRIu64 " %" PRId64 ".%03d",
			  s->trace, s->trace_ns / 1000000000, s->trace_ns % 1000000000,
			  s->trace_at_ns / 1000000000, (int)(s->trace_at_ns / 1000000 % 1000));
}

static int add_family(const struct rule_state *s, bool openmetrics, struct buf *out)
{
	static const char *const what[] = { [QUERY_CPU] = "CPU time",
					    [QUERY_OFF] = "Time blocked",
					    [QUERY_RUNQ] = "Time waiting for a CPU" };
	const char *total = openmetrics ? "" : "_total";
	int rc = buf_printf(out,
			    "# HELP ascribe_profile_%s_seconds%s %s in profiles, of the groups of "
			    "the rule.\n# TYPE ascribe_profile_%s_seconds%s counter\n",
			    s->r.name, total, what[s->r.metric], s->r.name, total);
	for (unsigned i = 0; !rc && i < s->n; i++) {
		const struct series *of = &s->series[i];
		rc = add_line(s, of->values, of->ns, out);
		if (!rc && openmetrics && of->trace[0])
			rc = add_exemplar(of, out);
		rc = rc ? rc : buf_add_u8(out, '\n');
	}
	rc = rc ? rc : add_line(s, NULL, s->other_ns, out);
	return rc ? rc : buf_add_u8(out, '\n');
}

static int add_states(const struct metric_rules *r, struct buf *out)
{
	int rc = buf_printf(out, "# HELP ascribe_profile_rule_ok 0 while the rule cannot be "
				 "answered.\n# TYPE ascribe_profile_rule_ok gauge\n");
	for (size_t i = 0; !rc && i < r->n; i++)
		rc = buf_printf(out, "ascribe_profile_rule_ok{rule=\"%s\"} %d\n", r->v[i].r.name,
				!r->v[i].failed);
	return rc;
}

int metric_rules_write(struct metric_rules *r, struct store *s, bool openmetrics, struct buf *out,
		       struct err *err)
{
	int rc = 0;
	pthread_mutex_lock(&r->lock);
	r->exemplars |= openmetrics;
	for (size_t i = 0; !rc && i < r->n; i++) {
		struct rule_state *of = &r->v[i];
		rc = of->other ? rule_lengths_count(of, s, err)
			       : count_windows(of, s, r->exemplars, err);
		of->failed = rc != 0;
		rc = rc == -EAGAIN || rc == -ESTALE || rc == -ENOMEM ? rc : 0;
		if (!rc)
			rc = of->other ? rule_lengths_write(of, out, err)
				       : add_family(of, openmetrics, out);
	}
	metric_rules_save(r);
	rc = rc ? rc : add_states(r, out);
	if (!rc && openmetrics)
		rc = buf_printf(out, "# EOF\n");
	pthread_mutex_unlock(&r->lock);
	return rc;
}
