/* SPDX-License-Identifier: Apache-2.0 */
/* Questions within a budget to stores with keys of many values, and with many events. */
#include "bounded_by_hand.h"

#include "query/found.h"

/* Of a key with too many values for the budget, too, and of those beside it. */
static void keys_have_all_samples(void **state)
{
	(void)state;
	struct fixture *f = &fixture;
	struct query_spec spec = { .labels = QUERY_TOTALS,
				   .from_ns = INT64_MIN,
				   .to_ns = INT64_MAX };
	struct found_list l = { 0 };
	struct query *q;
	struct err err = { 0 };
	uint64_t all = 0, named = 0;
	make(f, (struct size){ 40, 4000, 300, 3000, NODES_MAX, false }, 5);
	for (size_t i = 0; i < f->n_rows; i++) {
		all += f->rows[i].event ? 0 : f->rows[i].samples;
		named += f->rows[i].event || !(f->rows[i].query % 7) ? 0 : f->rows[i].samples;
	}
	store_limit(f->s, &(struct store_limits){ .bytes = (size_t)1 << 20 });
	assert_int_equal(query_open(&q, f->s, &spec, &err), 0);
	assert_int_equal(found_collect(&l, f->s, q, &spec, NULL, &err), 0);
	assert_true(l.info.bounded);
	assert_int_equal(l.n, 4);
	for (size_t i = 0; i < l.n; i++) {
		bool with_all = l.v[i].label.key_len != 6 && l.v[i].label.key_len != 8;
		assert_int_equal(l.v[i].samples, with_all ? all : named); /* comm, event */
		if (l.v[i].label.key_len == 6)
			assert_int_equal(l.v[i].values, 300);
	}
	found_fini(&l);
	query_close(q);
	fini(f);
}

/*
 * Many events, each of few stacks: sums take memory for what is there, not for each event and
 * stack. An answer has what the dictionaries leave: its tree of 300,000 nodes is whole.
 */
static void many_events(void **state)
{
	enum { EVENTS = 32, STACKS = 300000, DEPTH = 100 };
	(void)state;
	struct store_options o;
	store_options_default(&o);
	empty(&fixture, (struct size){ 0 }, 1);
	struct store_writer *w = begin_store(&fixture, &o);
	uint32_t event[EVENTS], under = 0, all = 0;
	char name[24];
	for (uint32_t i = 0; i < EVENTS; i++) {
		snprintf(name, sizeof(name), "event-%u", i);
		event[i] = add_event(w, name);
	}
	for (uint32_t i = 0; i < STACKS; i++) {
		bool root = i % DEPTH == 0;
		snprintf(name, sizeof(name), "f%u", root ? i : i % DEPTH);
		under = add_stack(w, root ? 0 : under, name);
		all += i % EVENTS == 0;
		assert_int_equal(store_add_row(w, 0, under, event[i % EVENTS], 1, 1), 0);
	}
	commit(w, 1);
	ask_store(&fixture, w, "event-0", NULL, (size_t)64 << 20, all, false);
}

/* A row of a label set that is far more frequent than all others, of which no id comes twice. */
static void frequent_row_stays(void **state)
{
	enum { WINDOWS = 20, SETS = 2000, OFTEN = 100 };
	(void)state;
	struct fixture *f = &fixture;
	struct store_options o;
	struct err err = { 0 };
	struct query *q;
	uint64_t found = 0;
	size_t n;
	store_options_default(&o);
	empty(f, (struct size){ 0 }, 1);
	struct store_writer *w = begin_store(f, &o);
	const uint32_t event = add_event(w, "hits"), stack = add_stack(w, 0, "f");
	for (uint32_t i = 0; i < WINDOWS * SETS; i++) {
		char id[24], tenant[24];
		const bool often = i % SETS == 7;
		snprintf(id, sizeof(id), "id-%u", often ? 7 : i);
		snprintf(tenant, sizeof(tenant), "t%u", i % 7);
		const struct label l[] = {
			{ "query_id", id, 0, 8, (uint32_t)strlen(id), LABEL_STRING },
			{ "tenant", often ? "often" : tenant, 0, 6, often ? 5 : 2, LABEL_STRING },
		};
		uint32_t set;
		const uint64_t samples = often ? OFTEN : 1;
		assert_int_equal(store_add_set(w, l, 2, &set), 0);
		assert_int_equal(store_add_row(w, set, stack, event, samples, samples), 0);
		if (i % SETS == SETS - 1)
			commit(w, 1 + i / SETS * 1000);
	}
	store_writer_close(w);
	assert_int_equal(store_open(&f->s, f->dir, &err), 0);
	assert_true(store_is_wide(f->s, "query_id"));
	store_limit(f->s, &(struct store_limits){ .bytes = (size_t)1 << 20 });
	const struct query_spec spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX };
	assert_int_equal(query_open(&q, f->s, &spec, &err), 0);
	assert_true(query_info(q)->bounded);
	const struct store_row *rows = query_rows(q, &n);
	for (size_t i = 0; i < n; i++) {
		const struct label *l;
		if (query_set(q, rows[i].set, &l) == 2 && l[1].str_len == 5 &&
		    !memcmp(l[1].str, "often", 5) && rows[i].stack != QUERY_OTHER_STACK)
			found += rows[i].samples;
	}
	assert_int_equal(found, WINDOWS * OFTEN);
	query_close(q);
	fini(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_have_all_samples),
		cmocka_unit_test(many_events),
		cmocka_unit_test(frequent_row_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
