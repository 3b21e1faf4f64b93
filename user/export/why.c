/* SPDX-License-Identifier: Apache-2.0 */
#include "export/why.h"

#include "export/answer.h"

#include <errno.h>
#include <string.h>

static const char *const side_keys[] = { "this", "rest", "before" };
static const char *const part_keys[] = {
	[WHY_CPU] = "cpu", [WHY_RUNQ] = "runq", [WHY_OFF] = "off"
};

static int put_text(json_t *o, const char *key, const char *text)
{
	return json_put(o, key, json_text(text ? text : "", text ? strlen(text) : 0));
}

/* {"seconds", "share", "waits", "quantiles", ..} */
static json_t *part_json(const struct why_side *s, enum why_part p)
{
	const struct hist_snapshot *h = p == WHY_CPU ? NULL : why_lengths(s, p);
	json_t *o = json_pack("{s:f,s:f}", "seconds", s->seconds[p], "share", why_share(s, p));
	int rc = p == WHY_CPU ? json_put(o, "samples", json_count(s->cpu_samples)) : 0;
	rc = rc || !h ? rc : json_put(o, "waits", json_count(h->total));
	rc = rc || !h ? rc : json_put(o, "quantiles", answer_quantile_values(h));
	rc = rc || p != WHY_OFF ? rc : json_put(o, "idle_waits", json_real(s->idle_s));
	if (!rc)
		return o;
	json_decref(o);
	return NULL;
}

static json_t *side_json(const struct why_side *s)
{
	json_t *o = json_object();
	int rc = json_put(o, "from", json_real((double)s->from_ns / 1e9));
	rc = rc ? rc : json_put(o, "to", json_real((double)s->to_ns / 1e9));
	rc = rc ? rc : json_put(o, "covered", json_real(s->covered_s));
	rc = rc ? rc : json_put(o, "wall", json_real(why_wall(s)));
	for (enum why_part p = 0; !rc && p < WHY_PARTS; p++)
		rc = json_put(o, part_keys[p], part_json(s, p));
	if (!rc)
		return o;
	json_decref(o);
	return NULL;
}

/* Shares of a row on each side; null where the side is not there. */
static json_t *shares_json(const struct why_tables *t, const struct query_table_row *r)
{
	json_t *o = json_object();
	int rc = 0;
	for (int i = 0; !rc && i < WHY_SIDES; i++)
		rc = json_put(o, side_keys[i],
			      t->table[i] ? json_real(why_row_share(t, i, r)) : json_null());
	if (!rc)
		return o;
	json_decref(o);
	return NULL;
}

static json_t *value_json(const struct query_table_row *r)
{
	return r->present[0] ? json_text(r->values[0], strlen(r->values[0])) : json_null();
}

static json_t *row_json(const struct why_tables *t, const struct query_table_row *r,
			enum why_list list, bool holder)
{
	json_t *o = json_object();
	int rc = 0;
	if (list == WHY_OCCUPANTS)
		rc = json_put(o, "occupant", value_json(r));
	if (list == WHY_WAKERS)
		rc = json_put(o, "waker", value_json(r));
	if (list != WHY_OCCUPANTS)
		rc = rc ? rc : put_text(o, "function", r->values[list == WHY_WAKERS]);
	if (list != WHY_OCCUPANTS)
		rc = rc ? rc : put_text(o, "module", r->module);
	if (list == WHY_BLOCKED)
		rc = rc ? rc : put_text(o, "wait", r->values[1]);
	if (list == WHY_WAKERS)
		rc = rc ? rc : json_put(o, "holder", json_boolean(holder));
	rc = rc ? rc : json_put(o, "share", shares_json(t, r));
	if (!rc)
		return o;
	json_decref(o);
	return NULL;
}

static int put_tables(json_t *o, const char *key, const struct why_tables *t, enum why_list list,
		      const struct query_table_row *holder)
{
	const struct query_table *first = t->table[WHY_THIS];
	json_t *rows = json_array();
	int rc = rows ? 0 : -ENOMEM;
	for (size_t k = 0; !rc && first && k < first->n_rows && first->rows[k].self; k++)
		if (!first->rows[k].other)
			rc = json_array_append_new(rows, row_json(t, &first->rows[k], list,
								  holder == &first->rows[k]))
				     ? -ENOMEM
				     : 0;
	rc = rc ? rc : json_put(o, key, json_incref(rows));
	json_decref(rows);
	return rc;
}

static json_t *change_json(const struct query_diff_row *r)
{
	json_t *o = json_pack("{s:[f,f],s:f,s:s}", "share", r->share[0], r->share[1], "q", r->q,
			      "verdict", answer_verdicts[r->verdict]);
	int rc = put_text(o, "function", r->text);
	rc = rc ? rc : put_text(o, "module", r->module);
	if (!rc)
		return o;
	json_decref(o);
	return NULL;
}

static int put_changes(json_t *o, const char *key, const struct why *w, int against, bool inclusive,
		       struct err *err)
{
	struct why_changes c;
	json_t *list = json_array();
	int rc = why_changes(w, against, inclusive, &c, err);
	for (size_t i = 0;
	     !rc && c.diff && i < c.diff->n_rows && c.diff->rows[i].verdict != DIFF_NOISE; i++)
		rc = json_array_append_new(list, change_json(&c.diff->rows[i])) ? -ENOMEM : 0;
	rc = rc ? rc : json_put(o, key, json_incref(list));
	json_decref(list);
	why_changes_free(&c);
	return rc;
}

static int put_lists(json_t *o, const struct why *w, struct err *err)
{
	struct why_tables blocked, occupants, wakers;
	int rc = why_blocked(w, &blocked, err);
	int rc2 = why_occupants(w, &occupants, err);
	int rc3 = why_wakers(w, &wakers, err);
	rc = rc ? rc : rc2 ? rc2 : rc3;
	rc = rc ? rc : put_tables(o, "blocked", &blocked, WHY_BLOCKED, NULL);
	rc = rc ? rc : put_tables(o, "wakers", &wakers, WHY_WAKERS, why_holder(&blocked, &wakers));
	rc = rc ? rc : put_tables(o, "occupants", &occupants, WHY_OCCUPANTS, NULL);
	why_tables_free(&blocked);
	why_tables_free(&occupants);
	why_tables_free(&wakers);
	rc = rc ? rc : put_changes(o, "differs_from_rest", w, WHY_REST, false, err);
	rc = rc ? rc : put_changes(o, "differs_from_before", w, WHY_BEFORE, true, err);
	return rc ? rc : put_changes(o, "self_differs_from_before", w, WHY_BEFORE, false, err);
}

int answer_why(const struct why *w, json_t **ret, struct err *err)
{
	json_t *o = json_object();
	int rc = put_text(o, "where", w->spec.where);
	for (int i = 0; !rc && i < WHY_SIDES; i++)
		rc = json_put(o, side_keys[i],
			      w->side[i].there ? side_json(&w->side[i]) : json_null());
	rc = rc ? rc : json_put(o, "waits", json_boolean(w->side[WHY_THIS].waits));
	if (why_bounded(w))
		rc = rc ? rc : json_put(o, "bounded", json_true());
	rc = rc ? rc : put_lists(o, w, err);
	rc = rc ? rc : answer_accounting(o, w->store, query_info(w->side[WHY_THIS].part[WHY_CPU]));
	if (!rc) {
		*ret = o;
		return 0;
	}
	json_decref(o);
	return err->code ? rc : err_set(err, rc, "out of memory");
}
