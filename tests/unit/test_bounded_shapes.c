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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_have_all_samples),
		cmocka_unit_test(many_events),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
