/* SPDX-License-Identifier: Apache-2.0 */
/* querier.v1.QuerierService: which types, labels, values and series there are. */
#include "http/connect.h"

#include "http/fleet.h"
#include "http/pyro_selector.h"
#include "query/visible.h"

#include "query/found.h"
#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_MAX 2000
#define KEYS_MAX 16

int pyro_list_add(struct pyro_list *s, const char *text, size_t len)
{
	if (memchr(text, 0, len)) /* no name of theirs has one */
		return 0;
	for (size_t i = 0; i < s->n; i++)
		if (!strncmp(s->v[i], text, len) && !s->v[i][len])
			return 0;
	if (ARRAY_RESERVE(s->v, s->cap, s->n + 1))
		return -ENOMEM;
	s->v[s->n] = strndup(text, len);
	if (!s->v[s->n])
		return -ENOMEM;
	s->n++;
	return 0;
}

void pyro_list_fini(struct pyro_list *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i]);
	free(s->v);
	*s = (struct pyro_list){ 0 };
}

static int answer_strings(struct call *c, struct pyro_list *s, int rc, struct err *err)
{
	Pyro__NamesResponse out = PYRO__NAMES_RESPONSE__INIT;
	out.names = s->v;
	out.n_names = s->n;
	rc = rc ? rc : message_write(c->r, &out.base, c->json, err);
	pyro_list_fini(s);
	call_end(c);
	return rc == -ENOMEM ? err_set(err, rc, "out of memory") : rc;
}

static int add_names(struct pyro_list *s, struct store *store, const struct pyro_names *names,
		     struct err *err)
{
	struct found_list l = { 0 };
	int rc = store_scope(store) ? visible_keys(store, &l, err) : 0;
	for (size_t i = 0; !rc && i < names->n; i++) {
		bool visible = !store_scope(store);
		for (size_t k = 0; k < l.n && !visible; k++)
			visible = strlen(names->keys[i]) == l.v[k].label.key_len &&
				  !memcmp(names->keys[i], l.v[k].label.key, l.v[k].label.key_len);
		if (visible)
			rc = pyro_list_add(s, names->names[i], strlen(names->names[i]));
	}
	found_fini(&l);
	return rc;
}

int pyro_label_names(struct request *r, struct store *store, struct err *err)
{
	struct call c;
	struct pyro_list s = { 0 };
	struct pyro_names names = { 0 };
	int rc = call_begin(&c, r, &pyro__label_names_request__descriptor, err);
	rc = rc ? rc : pyro_names_read(&names, r, store, err);
	rc = rc ? rc : add_names(&s, store, &names, err);
	rc = rc ? rc : pyro_list_add(&s, PYRO_SERVICE, strlen(PYRO_SERVICE));
	pyro_names_fini(&names);
	return answer_strings(&c, &s, rc, err);
}

/* ---- values ---- */

/* The events that matchers of this profile type ("": of any) ask about. */
static int find_asked(struct store *s, const char *type, bool **ret, struct err *err)
{
	char id[PYRO_ID_MAX];
	int rc = pyro_types(s, ret, err);
	for (uint32_t i = 0; !rc && *type && i < store_n_events(s); i++) {
		pyro_type_id(s, i, id);
		(*ret)[i] &= !strcmp(type, id);
	}
	return rc;
}

static int add_values(struct request *r, struct store *s, const struct query_spec *range,
		      const char *key, struct pyro_list *ret, struct err *err)
{
	struct query_spec spec = *range;
	struct query *q = NULL;
	struct found_list l = { 0 };
	spec.labels = QUERY_KEYS;
	spec.keys = &key;
	spec.n_keys = 1;
	int rc = fleet_ask(r, &s, &(struct fleet_need){ .spec = &spec, .keys = &key, .n_keys = 1 },
			   err);
	rc = rc ? rc : query_open(&q, s, &spec, err);
	rc = rc ? rc : found_collect(&l, s, q, &spec, key, err);
	for (size_t i = 0; !rc && i < l.n && ret->n < VALUES_MAX; i++) {
		size_t len;
		char *text = found_text(&l.v[i].label, &len);
		rc = text ? pyro_list_add(ret, text, len) : -ENOMEM;
		free(text);
	}
	found_fini(&l);
	query_close(q);
	return rc;
}

int pyro_list_values(struct request *r, struct store *s, const struct query_spec *range,
		     const char *name, char *const *matchers, size_t n, struct pyro_list *ret,
		     struct err *err)
{
	char type[PYRO_ID_MAX];
	struct pyro_names names = { 0 };
	bool *asked = NULL;
	pyro_selector_type(matchers, n, type, sizeof(type));
	int rc = find_asked(s, type, &asked, err);
	rc = rc ? rc : pyro_names_read(&names, r, s, err);
	for (uint32_t i = 0; !rc && i < store_n_events(s); i++) {
		const struct store_event *e = store_event(s, i);
		struct query_spec spec = *range;
		char *where = NULL;
		if (!asked[i])
			continue;
		pyro_of_type(s, i, &spec);
		rc = pyro_selector(&names, e, matchers, n, &where, err);
		spec.where = where;
		rc = rc ? rc : add_values(r, s, &spec, pyro_names_key(&names, e, name), ret, err);
		free(where);
	}
	pyro_names_fini(&names);
	free(asked);
	return rc;
}

static int add_types(struct store *store, struct pyro_list *s, struct err *err)
{
	char id[PYRO_ID_MAX];
	bool *types = NULL;
	int rc = pyro_types(store, &types, err);
	for (uint32_t i = 0; !rc && i < store_n_events(store); i++) {
		pyro_type_id(store, i, id);
		rc = types[i] ? pyro_list_add(s, id, strlen(id)) : 0;
	}
	free(types);
	return rc;
}

int pyro_label_values(struct request *r, struct store *store, struct err *err)
{
	struct call c;
	struct pyro_list s = { 0 };
	struct query_spec range = { 0 };
	int rc = call_begin(&c, r, &pyro__label_values_request__descriptor, err);
	const Pyro__LabelValuesRequest *m = (const Pyro__LabelValuesRequest *)c.msg;
	if (!rc && !strcmp(m->name, PYRO_TYPE))
		return answer_strings(&c, &s, add_types(store, &s, err), err);
	if (!rc && (!m->name[0] || strlen(m->name) > 255))
		rc = err_set(err, -EINVAL, "name: of which label? 1 to 255 bytes");
	rc = rc ? rc : call_range(&range, m->start, m->end, err);
	rc = rc ? rc
		: pyro_list_values(r, store, &range, m->name, m->matchers, m->n_matchers, &s, err);
	return answer_strings(&c, &s, rc, err);
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
	bool *types = NULL;
	int rc = call_begin(&c, r, &pyro__profile_types_request__descriptor, err);
	rc = rc ? rc : pyro_types(store, &types, err);
	if (!rc && (!t || !ptrs || !ids || !parts))
		rc = err_set(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; !rc && i < n; i++) {
		if (!types[i])
			continue;
		pyro_type_id(store, i, ids[i]);
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
	free(types);
	free(t);
	free(ptrs);
	free(ids);
	free(parts);
	call_end(&c);
	return rc;
}

/* ---- series ---- */

/* Distinct label sets; those of an answer. */
struct label_sets {
	Pyro__LabelSet **v;
	size_t n, cap;
};

static void free_set(Pyro__LabelSet *s)
{
	for (size_t i = 0; s && i < s->n_labels; i++) {
		free(s->labels[i]->value);
		free(s->labels[i]);
	}
	if (s)
		free(s->labels);
	free(s);
}

static int add_label(Pyro__LabelSet *s, char *name, const char *value)
{
	Pyro__LabelPair *p = malloc(sizeof(*p));
	char *copy = strdup(value);
	if (!p || !copy) {
		free(p);
		free(copy);
		return -ENOMEM;
	}
	pyro__label_pair__init(p);
	p->name = name;
	p->value = copy;
	s->labels[s->n_labels++] = p;
	return 0;
}

static bool same_sets(const Pyro__LabelSet *a, const Pyro__LabelSet *b)
{
	bool same = a->n_labels == b->n_labels;
	for (size_t i = 0; same && i < a->n_labels; i++)
		same = !strcmp(a->labels[i]->name, b->labels[i]->name) &&
		       !strcmp(a->labels[i]->value, b->labels[i]->value);
	return same;
}

/* What the series of one event are asked for. */
struct series_question {
	char **names;			/* of labels, as they were asked for */
	const char *keys[KEYS_MAX + 1]; /* of the store, but for that of the type */
	size_t n_names, n_keys;
	char type[PYRO_ID_MAX];
};

static int add_set(struct label_sets *sets, const struct series_question *q,
		   const struct query_table_row *row)
{
	Pyro__LabelSet *s = malloc(sizeof(*s));
	int rc = s ? 0 : -ENOMEM;
	if (s) {
		pyro__label_set__init(s);
		s->labels = calloc(q->n_names + 1, sizeof(*s->labels));
		rc = s->labels ? 0 : -ENOMEM;
	}
	for (size_t i = 0, k = 0; !rc && i < q->n_names; i++) {
		bool type = !strcmp(q->names[i], PYRO_TYPE);
		if (type || row->present[k])
			rc = add_label(s, q->names[i], type ? q->type : row->values[k]);
		k += !type;
	}
	for (size_t i = 0; !rc && i < sets->n; i++)
		if (same_sets(sets->v[i], s)) {
			free_set(s);
			return 0;
		}
	rc = rc ? rc : ARRAY_RESERVE(sets->v, sets->cap, sets->n + 1);
	if (rc)
		free_set(s);
	else
		sets->v[sets->n++] = s;
	return rc;
}

static int add_series(struct request *r, struct label_sets *sets, struct store *store,
		      const struct query_spec *spec, const struct series_question *question,
		      struct err *err)
{
	struct query *q = NULL;
	struct query_table *t = NULL;
	struct fleet_need need = { .spec = spec, .keys = spec->keys, .n_keys = spec->n_keys };
	int rc = fleet_ask(r, &store, &need, err);
	rc = rc ? rc : query_open(&q, store, spec, err);
	rc = rc ? rc : query_table(q, spec->keys, spec->n_keys, &t, err);
	for (size_t i = 0; !rc && i < t->n_rows && sets->n < SERIES_MAX; i++)
		rc = t->rows[i].samples ? add_set(sets, question, &t->rows[i]) : 0;
	query_table_free(t);
	query_close(q);
	return rc == -ENOMEM ? err_set(err, rc, "out of memory") : rc;
}

/* Of one event, by the keys that the names have for it. */
static int add_event(struct request *r, struct label_sets *sets, struct store *store,
		     uint32_t event, const struct query_spec *range, const struct pyro_names *names,
		     const Pyro__SeriesRequest *m, struct series_question *q, struct err *err)
{
	const struct store_event *e = store_event(store, event);
	struct query_spec spec = *range;
	char *where = NULL;
	q->n_keys = 0;
	for (size_t i = 0; i < q->n_names; i++)
		if (strcmp(q->names[i], PYRO_TYPE) != 0)
			q->keys[q->n_keys++] = pyro_names_key(names, e, q->names[i]);
	pyro_type_id(store, event, q->type);
	pyro_of_type(store, event, &spec);
	spec.labels = QUERY_KEYS;
	spec.keys = q->keys;
	spec.n_keys = q->n_keys;
	int rc = pyro_selector(names, e, m->matchers, m->n_matchers, &where, err);
	spec.where = where;
	rc = rc ? rc : add_series(r, sets, store, &spec, q, err);
	free(where);
	return rc;
}

static int list_series(struct request *r, struct label_sets *sets, struct store *store,
		       const Pyro__SeriesRequest *m, struct err *err)
{
	static char comm[] = "comm";
	static char *by_default[] = { comm };
	struct series_question q = { .names = m->n_label_names ? m->label_names : by_default,
				     .n_names = m->n_label_names ? m->n_label_names : 1 };
	struct pyro_names names = { 0 };
	struct query_spec range = { 0 };
	char type[PYRO_ID_MAX];
	bool *asked = NULL;
	if (q.n_names > KEYS_MAX)
		return err_set(err, -EINVAL, "label_names: at most %d", KEYS_MAX);
	pyro_selector_type(m->matchers, m->n_matchers, type, sizeof(type));
	int rc = call_range(&range, m->start, m->end, err);
	rc = rc ? rc : find_asked(store, type, &asked, err);
	rc = rc ? rc : pyro_names_read(&names, r, store, err);
	for (uint32_t i = 0; !rc && i < store_n_events(store); i++)
		if (asked[i])
			rc = add_event(r, sets, store, i, &range, &names, m, &q, err);
	pyro_names_fini(&names);
	free(asked);
	return rc;
}

int pyro_series(struct request *r, struct store *store, struct err *err)
{
	struct call c;
	struct label_sets sets = { 0 };
	Pyro__SeriesResponse out = PYRO__SERIES_RESPONSE__INIT;
	int rc = call_begin(&c, r, &pyro__series_request__descriptor, err);
	rc = rc ? rc : list_series(r, &sets, store, (const Pyro__SeriesRequest *)c.msg, err);
	out.labels_set = sets.v;
	out.n_labels_set = sets.n;
	rc = rc ? rc : message_write(r, &out.base, c.json, err);
	for (size_t i = 0; i < sets.n; i++)
		free_set(sets.v[i]);
	free(sets.v);
	call_end(&c);
	return rc;
}
