/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions within a budget to stores of shapes that cost most: keys of many values, many events,
 * many files.
 */
#include "bounded_model.h"

#include "query/found.h"
#include "query/query.h"
#include "store/writer.h"

static struct fixture fixture; /* large */

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

/* ---- a store by hand ---- */

static uint32_t add_event(struct store_writer *w, const char *name)
{
	const struct store_event e = { name, "count", 0, 1 };
	uint32_t id;
	assert_int_equal(store_add_event(w, &e, &id), 0);
	return id;
}

static uint32_t add_stack(struct store_writer *w, uint32_t parent, const char *function)
{
	struct store_frame frame = { .kind = FRAME_USER };
	uint32_t id, stack;
	assert_int_equal(store_add_string(w, function, strlen(function), &frame.function), 0);
	assert_int_equal(store_add_frame(w, &frame, &id), 0);
	assert_int_equal(store_add_stack(w, parent, id, &stack), 0);
	return stack;
}

static void commit(struct store_writer *w, int64_t t0_ns)
{
	struct err err = { 0 };
	assert_int_equal(
		store_commit_window(w, t0_ns, t0_ns + 1000, 1, &(struct store_totals){ 0 }, &err),
		0);
}

/* Each stack has one sample, but for those that stand for others. */
static void check_single_rows(const struct fixture *f, const struct query *q)
{
	uint64_t sum = 0;
	size_t n;
	const struct store_row *rows = query_rows(q, &n);
	for (size_t i = 0; i < n; i++) {
		uint32_t parent, frame;
		store_stack(f->s, rows[i].stack, &parent, &frame);
		const struct store_frame *of = store_frame(f->s, frame);
		bool other = query_row_is_other(q, &rows[i]) ||
			     !strcmp(store_string(f->s, of->function, NULL), "(other)");
		assert_true(other || rows[i].samples == 1);
		sum += rows[i].samples;
	}
	assert_int_equal(sum, query_info(q)->samples);
}

/*
 * Close the writer, then ask for all stacks of an event of a store that was just opened. Of what
 * the question may take most is for its dictionaries.
 */
static void ask_store(struct fixture *f, struct store_writer *w, const char *event,
		      const char *where, size_t budget, uint64_t samples, bool bounded)
{
	struct query *q;
	struct err err = { 0 };
	store_writer_close(w);
	assert_int_equal(store_open(&f->s, f->dir, &err), 0);
	store_limit(f->s, &(struct store_limits){ .bytes = budget, .symbols = budget / 4 * 3 });
	struct query_spec spec = { .event = event,
				   .labels = QUERY_NO_LABELS,
				   .from_ns = INT64_MIN,
				   .to_ns = INT64_MAX,
				   .where = where };
	int64_t before = begin_memory();
	assert_int_equal(query_open(&q, f->s, &spec, &err), 0);
	check_memory(before, budget);
	check_single_rows(f, q);
	assert_int_equal(query_info(q)->samples, samples);
	assert_int_equal(query_info(q)->bounded, bounded);
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
	fixture = (struct fixture){ .random = 1 };
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

/* Each window has a file with stacks and functions of its own: most are not part of the answer. */
static void ask_many_files(const char *where, uint64_t share, bool bounded)
{
	enum { FILES = 20, STACKS = 20000 };
	struct store_options o;
	store_options_default(&o);
	o.windows_only = true;
	o.symbols_bytes = 1;
	fixture = (struct fixture){ .random = 1 };
	struct store_writer *w = begin_store(&fixture, &o);
	for (uint32_t i = 0; i < FILES; i++) {
		uint32_t event = add_event(w, "event"), set[2] = { 0 };
		const struct label label = { .key = "tenant",
					     .key_len = 6,
					     .str = "t1",
					     .str_len = 2,
					     .type = LABEL_STRING };
		assert_int_equal(store_add_set(w, &label, 1, &set[1]), 0);
		for (uint32_t k = 0; k < STACKS; k++) {
			char name[24];
			snprintf(name, sizeof(name), "f%u_%u", i, k);
			uint32_t stack = add_stack(w, 0, name);
			assert_int_equal(store_add_row(w, set[k % 50 == 0], stack, event, 1, 1), 0);
		}
		commit(w, 1 + i * WINDOW_NS);
		assert_true(store_renew(w));
		store_renew_end(w);
	}
	ask_store(&fixture, w, "event", where, (size_t)32 << 20, FILES * STACKS * share / 50,
		  bounded);
}

static void many_files(void **state)
{
	(void)state;
	ask_many_files(NULL, 50, true);
	ask_many_files("tenant!=\"t1\"", 49, true);
	/* Stacks of others take no room: the answer is whole. */
	ask_many_files("tenant=\"t1\"", 1, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_have_all_samples),
		cmocka_unit_test(many_events),
		cmocka_unit_test(many_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
