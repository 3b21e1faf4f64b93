/* SPDX-License-Identifier: Apache-2.0 */
#include "export/findings.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static json_t *text(const char *s)
{
	return s ? json_text(s, strlen(s)) : json_null();
}

static json_t *number(double x)
{
	return isnan(x) ? json_null() : json_real(x);
}

static int put_times(json_t *o, const struct finding *f)
{
	int rc = json_put(o, "now", number(f->now));
	rc = rc ? rc : json_put(o, "before", number(f->before));
	rc = rc ? rc : json_put(o, "day_before", number(f->day));
	rc = rc ? rc : json_put(o, "since", json_real((double)f->since_ns / 1e9));
	return rc ? rc : json_put(o, "seconds", json_real((double)f->span_ns / 1e9));
}

static int put_function(json_t *o, const struct finding *f)
{
	json_t *of = json_object();
	int rc = json_put(of, "function", text(f->function));
	rc = rc ? rc : json_put(of, "module", text(f->module));
	rc = rc ? rc : json_put(of, "now", json_real(f->function_now));
	rc = rc ? rc : json_put(of, "before", json_real(f->function_before));
	if (f->n_hosts) {
		rc = rc ? rc : json_put(of, "hosts", json_count(f->n_hosts));
		rc = rc ? rc : json_put(of, "grew_on", json_count(f->n_grew));
	}
	int rc2 = json_put(o, "grew_most", json_incref(of));
	json_decref(of);
	return rc ? rc : rc2;
}

/* [{"key", "value"}, ..] */
static int put_places(json_t *o, const struct finding *f)
{
	json_t *list = json_array();
	int rc = list ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < f->n_places && i < FINDING_PLACES; i++) {
		json_t *place = json_object();
		rc = json_put(place, "key", text(f->places[i].key));
		rc = rc ? rc : json_put(place, "value", text(f->places[i].value));
		rc = rc ? rc : json_array_append(list, place) ? -ENOMEM : 0;
		json_decref(place);
	}
	rc = rc ? rc : json_put(o, "places", json_incref(list));
	json_decref(list);
	return rc ? rc : json_put(o, "n_places", json_count(f->n_places));
}

/* What is known of some findings only. */
static int put_more(json_t *o, const struct finding *f)
{
	int rc = f->wait ? json_put(o, "wait", text(f->wait)) : 0;
	rc = rc || !f->parent ? rc : json_put(o, "parent", text(f->parent));
	rc = rc || !f->comm ? rc : json_put(o, "comm", text(f->comm));
	rc = rc || !f->holder ? rc : json_put(o, "holder", text(f->holder));
	return rc || !f->holder ? rc : json_put(o, "holder_comm", text(f->holder_comm));
}

static int put_build(json_t *o, const struct finding *f)
{
	int rc = json_put(o, "file", text(f->value));
	rc = rc ? rc : json_put(o, "build_id", text(f->build[0]));
	return rc ? rc : json_put(o, "build_id_before", text(f->build[1]));
}

static json_t *finding_json(const struct finding *f)
{
	json_t *o = json_object();
	int rc = json_put(o, "finding", json_string(finding_names[f->kind]));
	if (f->kind == FINDING_BUILD) {
		rc = rc ? rc : put_build(o, f);
	} else {
		rc = rc ? rc : json_put(o, "key", text(f->key));
		rc = rc ? rc : json_put(o, "value", text(f->value));
		rc = rc ? rc : put_times(o, f);
	}
	if (f->kind != FINDING_BUILD && f->kind != FINDING_SATURATED) {
		rc = rc ? rc : json_put(o, "usual", json_boolean(f->usual));
		rc = rc ? rc : json_put(o, "q", json_real(f->q));
		rc = rc ? rc : put_places(o, f);
		rc = rc ? rc : put_more(o, f);
	}
	if (f->function)
		rc = rc ? rc : put_function(o, f);
	if (!rc)
		return o;
	json_decref(o);
	return NULL;
}

json_t *answer_findings(const struct findings *f, const char *where)
{
	json_t *o = json_object(), *list = json_array(), *keys = json_array();
	int rc = json_put(o, "where", text(where ? where : ""));
	rc = rc ? rc : json_put(o, "from", json_real((double)f->from_ns / 1e9));
	rc = rc ? rc : json_put(o, "to", json_real((double)f->to_ns / 1e9));
	rc = rc ? rc : json_put(o, "before_from", json_real((double)f->before_ns / 1e9));
	rc = rc ? rc : json_put(o, "step", json_real((double)f->step_ns / 1e9));
	rc = rc ? rc : json_put(o, "cpus", json_count(f->n_cpus));
	rc = rc ? rc : json_put(o, "before", json_boolean(f->has_before));
	rc = rc ? rc : json_put(o, "day_before", json_boolean(f->has_day));
	rc = rc ? rc : json_put(o, "tested", json_count(f->n_tested));
	for (size_t i = 0; !rc && i < f->n_keys; i++)
		rc = json_array_append_new(keys, text(f->keys[i]));
	rc = rc ? rc : json_put(o, "keys", json_incref(keys));
	for (size_t i = 0; !rc && i < f->n; i++)
		rc = json_array_append_new(list, finding_json(&f->v[i]));
	rc = rc ? rc : json_put(o, "findings", json_incref(list));
	rc = rc ? rc : json_put(o, "n_findings", json_count(f->n_all));
	if (f->without_waits_ns)
		rc = rc ? rc
			: json_put(o, "without_waits",
				   json_real((double)f->without_waits_ns / 1e9));
	if (f->bounded)
		rc = rc ? rc : json_put(o, "bounded", json_true());
	json_decref(list);
	json_decref(keys);
	if (!rc)
		return o;
	json_decref(o);
	return NULL;
}
