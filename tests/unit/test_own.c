/* SPDX-License-Identifier: Apache-2.0 */
/* What a store says of its recorder, against what was put in. */
#include "unit/store_model.h"

#include "query/own.h"
#include "store/writer.h"

#define WINDOWS 6
#define SILENT 12 /* processes that do not answer: more than are named */
#define ROWS 40

static uint64_t lengths[N_METRICS], requests[SILENT], nameless, refused;
static uint64_t native[QUERY_OWN_NAMES], natives;
static char dir[64];

static uint32_t stack_of(struct store_writer *w, const char *function, uint64_t offset)
{
	struct store_frame f = { .kind = FRAME_USER, .offset = offset };
	uint32_t frame, stack;
	if (*function)
		f.function = model_text(w, function);
	assert_int_equal(store_add_frame(w, &f, &frame), 0);
	assert_int_equal(store_add_stack(w, 0, frame, &stack), 0);
	return stack;
}

static void put(struct store_writer *w, const char *event, uint32_t stack, uint64_t n)
{
	const struct store_event e = { .name = event, .unit = "count" };
	uint32_t id;
	assert_int_equal(store_add_event(w, &e, &id), 0);
	assert_int_equal(store_add_row(w, 0, stack, id, n, n), 0);
}

/* kept: it is in the range that is asked for. */
static void put_window(struct model *m, struct store_writer *w, bool kept)
{
	for (unsigned i = 0; i < ROWS; i++) {
		const uint64_t n = 1 + model_random(m, 9);
		const unsigned metric = model_random(m, N_METRICS), who = model_random(m, SILENT);
		char name[100], process[32];
		snprintf(name, sizeof(name), "%s.lengths", metric_name(metric));
		put(w, name, stack_of(w, "", 1 + model_random(m, 100000)), n);
		lengths[metric] += kept ? n : 0;
		snprintf(process, sizeof(process), "comm[%u]", who);
		put(w, OWN_SILENT, stack_of(w, process, 0), n * (who + 1));
		requests[who] += kept ? n * (who + 1) : 0;
		put(w, OWN_SILENT, stack_of(w, "", 7), n);
		nameless += kept ? n : 0;
		put(w, OWN_JOBS_REFUSED, stack_of(w, "x", 0), n);
		refused += kept ? n : 0;
		snprintf(process, sizeof(process), "V8 without %u", who);
		put(w, OWN_NATIVE, stack_of(w, process, 0), n);
		native[who < QUERY_OWN_NAMES ? who : 0] += kept ? n : 0;
		natives += kept ? n : 0;
		put(w, "cpu-clock", stack_of(w, "main", 0), n);
		put(w, i % 2 ? OWN_SILENT : OWN_NATIVE, 0, n); /* without a frame: says nothing */
	}
}

static int set_up(void **state)
{
	struct model m = { .random = 3 };
	struct store_writer *w;
	struct err err = { 0 };
	(void)state;
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	for (size_t i = 0; i < WINDOWS; i++) {
		put_window(&m, w, i >= 2);
		assert_int_equal(model_commit_at(w, i, &err), 0);
	}
	store_writer_close(w);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	remove_tree(dir);
	return 0;
}

static void all_is_summed(void **state)
{
	struct store *s = open_store(dir);
	struct query_own o;
	struct err err = { 0 };
	uint64_t named = 0, all = nameless;
	(void)state;
	assert_int_equal(query_own(s, 1700000020000000000, INT64_MAX, &o, &err), 0);
	for (unsigned i = 0; i < N_METRICS; i++)
		assert_int_equal(o.metric[i].total, lengths[i]);
	assert_int_equal(o.jobs_refused, refused);
	assert_int_equal(o.n_native, QUERY_OWN_NAMES);
	uint64_t told = 0;
	for (size_t i = 0; i < o.n_native; i++) {
		const unsigned who = (unsigned)strtoul(o.native[i].what + 11, NULL, 10);
		told += o.native[i].processes;
		/* The last one has the others' processes, too */
		if (i < o.n_native - 1 && who && who < QUERY_OWN_NAMES)
			assert_int_equal(o.native[i].processes, native[who]);
	}
	assert_int_equal(told, natives);
	assert_int_equal(o.n_silent, QUERY_OWN_NAMES);
	for (size_t i = 0; i < o.n_silent; i++) {
		const unsigned who = (unsigned)strtoul(o.silent[i].name + 5, NULL, 10);
		size_t more = 0;
		assert_int_equal(o.silent[i].requests, requests[who]);
		for (unsigned k = 0; k < SILENT; k++)
			more += requests[k] > requests[who];
		assert_int_equal(more, i); /* the most first */
		named += requests[who];
	}
	for (unsigned k = 0; k < SILENT; k++)
		all += requests[k];
	assert_int_equal(o.other_requests, all - named);
	query_own_fini(&o);
	store_close(s);
}

/* A store of something else says nothing. */
static void others_say_nothing(void **state)
{
	struct fixture *f = fixture_of(5, 3, 10);
	void *fixture = f;
	struct query_own o;
	struct err err = { 0 };
	(void)state;
	assert_int_equal(query_own(f->s, INT64_MIN, INT64_MAX, &o, &err), 0);
	for (unsigned i = 0; i < N_METRICS; i++)
		assert_int_equal(o.metric[i].total, 0);
	assert_int_equal(o.n_silent + o.other_requests + o.jobs_refused + o.n_native, 0);
	query_own_fini(&o);
	fixture_teardown(&fixture);
}

/* More names than are told apart: each that is one of them, and all others in one number. */
static void many_names(void **state)
{
	enum { NAMES = 4100 };
	struct store_writer *w;
	struct query_own o;
	struct err err = { 0 };
	char own[64], name[32];
	(void)state;
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(own), &model_meta, &model_options, &err), 0);
	for (unsigned i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "p[%u]", i);
		put(w, OWN_SILENT, stack_of(w, name, 0), i % 500 == 499 ? 2 : 1);
	}
	put(w, OWN_NATIVE, stack_of(w, "Go without x", 0), 3);
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	struct store *s = open_store(own);
	assert_int_equal(query_own(s, INT64_MIN, INT64_MAX, &o, &err), 0);
	assert_int_equal(o.n_silent, QUERY_OWN_NAMES);
	for (unsigned i = 0; i < QUERY_OWN_NAMES; i++) {
		snprintf(name, sizeof(name), "p[%u]", 500 * i + 499); /* in order of their ids */
		assert_string_equal(o.silent[i].name, name);
		assert_int_equal(o.silent[i].requests, 2);
	}
	assert_int_equal(o.other_requests, NAMES + 8 - 16);
	assert_int_equal(o.n_native, 1);
	assert_string_equal(o.native[0].what, "Go without x");
	assert_int_equal(o.native[0].processes, 3);
	query_own_fini(&o);
	store_close(s);
	remove_tree(own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_is_summed),
		cmocka_unit_test(others_say_nothing),
		cmocka_unit_test(many_names),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
