/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a scope shows of label sets, against a look at each of them. The scope is "tenant is a or
 * b", said in several ways.
 */
#include "unit/store_model.h"

#include "query/scope.h"
#include "query/visible.h"
#include "store/writer.h"

#define SETS 5000

/* A set: values of these keys, NULL: it does not have it. */
struct plain {
	const char *comm, *tenant, *zone, *by_comm, *by_tenant, *by_zone, *app;
};

static const char *draw(struct model *m, const char *const *v, uint32_t n)
{
	uint32_t i = model_random(m, n + 1);
	return i < n ? v[i] : NULL;
}

static struct plain draw_set(struct model *m)
{
	static const char *const comms[] = { "sh", "(idle)", "(other)", "(interrupt)", "(idlf)" },
				 *const tenants[] = { "a", "b", "c", "" }, *const zones[] = { "x" };
	return (struct plain){ draw(m, comms, 5), draw(m, tenants, 4), draw(m, zones, 1),
			       draw(m, comms, 5), draw(m, tenants, 4), draw(m, zones, 1),
			       draw(m, zones, 1) };
}

static size_t add(struct label *v, size_t n, const char *key, const char *value)
{
	if (value)
		v[n++] = (struct label){ .key = key,
					 .key_len = (uint32_t)strlen(key),
					 .str = value,
					 .str_len = (uint32_t)strlen(value) };
	return n;
}

static size_t labels_of(const struct plain *p, struct label v[8])
{
	size_t n = add(v, 0, "app", p->app); /* before the other party */
	n = add(v, n, "comm", p->comm);
	n = add(v, n, "by.comm", p->by_comm);
	n = add(v, n, "by.tenant", p->by_tenant);
	n = add(v, n, "by.zone", p->by_zone);
	n = add(v, n, "tenant", p->tenant);
	n = add(v, n, "zone", p->zone);
	return labels_normalize(v, n);
}

static bool is_in(const char *tenant)
{
	return tenant && (!strcmp(tenant, "a") || !strcmp(tenant, "b"));
}

/* What is left of a set; its other party is hidden unless it is in the scope, or nobody. */
static struct plain expected(const struct plain *p)
{
	static const char *const nobody[] = { "(idle)", "(interrupt)", "(other)" };
	struct plain q = *p;
	bool party = p->by_comm || p->by_tenant || p->by_zone, shown = !party;
	for (size_t i = 0; i < 3; i++)
		shown |= p->by_comm && !p->by_tenant && !p->by_zone &&
			 !strcmp(p->by_comm, nobody[i]);
	if (shown || is_in(p->by_tenant))
		return q;
	q.by_comm = "(other)";
	q.by_tenant = q.by_zone = NULL;
	return q;
}

static void check_set(struct scope *s, const struct plain *p)
{
	struct label v[8], want[8], room[STORE_SET_MAX];
	const struct label *shown = v;
	const size_t n = labels_of(p, v);
	size_t n_shown = n;
	struct err err = { 0 };
	bool seen = !is_in(p->tenant);
	assert_int_equal(scope_admit(s, &shown, &n_shown, room, &seen, &err), 0);
	assert_int_equal(seen, is_in(p->tenant));
	if (!seen)
		return;
	const struct plain left = expected(p);
	const size_t n_want = labels_of(&left, want);
	assert_true(labels_equal(shown, n_shown, want, n_want));
}

static void sets_are_shown_as_they_may_be(void **state)
{
	static const char *const texts[] = { "{tenant=~\"a|b\"}", "{tenant!=\"c\",tenant!=\"\"}",
					     "tenant=~\"[ab]\"" };
	struct model m = { .random = 23 };
	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct scope s;
		struct err err = { 0 };
		assert_int_equal(scope_parse(&s, texts[i], &err), 0);
		assert_string_equal(s.keys[0], "tenant");
		for (size_t k = 0; k < SETS; k++) {
			const struct plain p = draw_set(&m);
			check_set(&s, &p);
		}
		scope_fini(&s);
	}
}

/* "!=" admits what has another value, not what has none. */
static void a_key_must_be_there(void **state)
{
	const struct label comm = { .key = "comm", .key_len = 4, .str = "sh", .str_len = 2 };
	const struct label *v = &comm;
	struct label room[STORE_SET_MAX];
	struct scope s;
	struct err err = { 0 };
	size_t n = 1;
	bool seen;
	(void)state;
	assert_int_equal(scope_parse(&s, "{tenant!=\"c\"}", &err), 0);
	assert_int_equal(scope_admit(&s, &v, &n, room, &seen, &err), 0);
	assert_false(seen);
	scope_fini(&s);
	assert_int_equal(scope_parse(&s, NULL, &err), 0);
	assert_int_equal(scope_admit(&s, &v, &n, room, &seen, &err), 0);
	assert_true(seen && n == 1 && v == &comm);
	scope_fini(&s);
}

static void what_is_no_scope_is_refused(void **state)
{
	char longest[SCOPE_KEY_MAX + 20], longer[SCOPE_KEY_MAX + 20];
	const char *const bad[] = { "",
				    "{}",
				    "{event=\"x\"}",
				    "{tenant=\"a\",wait=\"lock\"}",
				    "{by.tenant=\"a\"}",
				    "{tenant",
				    longer };
	struct scope s;
	(void)state;
	snprintf(longest, sizeof(longest), "{%0*d=\"a\"}", SCOPE_KEY_MAX, 1);
	snprintf(longer, sizeof(longer), "{%0*d=\"a\"}", SCOPE_KEY_MAX + 1, 1);
	longest[1] = longer[1] = 'k';
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err err = { 0 };
		assert_int_equal(scope_parse(&s, bad[i], &err), -EINVAL);
		assert_true(err.text[0]);
		scope_fini(&s);
	}
	struct err err = { 0 };
	assert_int_equal(scope_parse(&s, longest, &err), 0);
	assert_int_equal(s.n_keys, 1);
	assert_int_equal(strlen(s.by[0]), SCOPE_KEY_MAX + 3);
	scope_fini(&s);
	assert_int_equal(scope_parse(&s, "{by=\"a\",\"by.\"=\"b\"}", &err), 0);
	scope_fini(&s);
}

/* ---- keys and events that an asker may know of ---- */

static void put(struct store_writer *w, const char *labels, uint32_t event)
{
	struct model_row r = { (char *)labels, (char *)"main (/a) 0 0\n", event, 5, 5 };
	assert_int_equal(model_put_row(w, &r), 0);
}

static bool has_key(const struct found_list *l, const char *key)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].label.key_len == strlen(key) &&
		    !memcmp(l->v[i].label.key, key, strlen(key)))
			return true;
	return false;
}

/*
 * Tenant a has comm, b has zone and page-faults, and of those alone a disk; nobody has task-clock.
 */
static void names_of_others_are_hidden(void **state)
{
	static const struct {
		const char *scope;
		bool comm, zone, disk, events[3];
	} cases[] = { { NULL, true, true, true, { true, true, true } },
		      { "{tenant=\"a\"}", true, false, false, { true, false, false } },
		      { "{tenant=\"b\"}", false, true, true, { true, true, false } },
		      { "{tenant=\"c\"}", false, false, false, { false, false, false } } };
	struct store_writer *w;
	struct err err = { 0 };
	char dir[64];
	(void)state;
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	put(w, "comm=sh\ntenant=a\n", 0);
	put(w, "tenant=b\nzone=x\n", 0);
	put(w, "tenant=b\nzone=x\n", 1);
	put(w, "disk=d\ntenant=b\n", 1);
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct store *s = open_store(dir);
		struct found_list l = { 0 };
		bool *events;
		store_set_scope(s, cases[i].scope);
		assert_int_equal(visible_keys(s, &l, &err), 0);
		assert_int_equal(has_key(&l, "comm"), cases[i].comm);
		assert_int_equal(has_key(&l, "zone"), cases[i].zone);
		assert_int_equal(has_key(&l, "disk"), cases[i].disk);
		assert_false(has_key(&l, "event"));
		found_fini(&l);
		assert_int_equal(visible_events(s, &events, &err), 0);
		for (size_t e = 0; e < 3; e++)
			assert_int_equal(events[e], cases[i].events[e]);
		free(events);
		store_close(s);
	}
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sets_are_shown_as_they_may_be),
		cmocka_unit_test(a_key_must_be_there),
		cmocka_unit_test(what_is_no_scope_is_refused),
		cmocka_unit_test(names_of_others_are_hidden),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
