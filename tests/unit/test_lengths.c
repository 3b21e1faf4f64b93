/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lengths of the waits of a selection: each wait counts, however many label sets the selection has
 * and however small a part of the memory the question gets.
 */
#include "query/lengths.h"
#include "store/store.h"
#include "store/writer.h"

#include "store_model.h"

#define COMMS 3000
#define LENGTHS 16
#define GROUPS 100 /* comms of one or two digits */

static char root[64], dir[72];
static uint64_t waits; /* of all comms but c0 */

static uint32_t make_length(struct store_writer *w, unsigned i)
{
	struct store_frame f = { .kind = FRAME_USER, .offset = (uint64_t)1 << i };
	uint32_t frame, id;
	assert_int_equal(store_add_frame(w, &f, &frame), 0);
	assert_int_equal(store_add_stack(w, 0, frame, &id), 0);
	return id;
}

static int set_up(void **state)
{
	static const char *const names[] = { "off-cpu", "off-cpu.lengths" };
	const struct store_meta meta = { .host = "h", .os = "o", .what = "w", .created_ns = 1 };
	uint32_t event[2], length[LENGTHS], set;
	struct store_writer *w;
	struct err err = { 0 };
	(void)state;
	snprintf(dir, sizeof(dir), "%s/s", temp_dir(root));
	assert_int_equal(store_writer_open(&w, dir, &meta, &err), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct store_event e = { .name = names[i], .unit = "nanoseconds" };
		assert_int_equal(store_add_event(w, &e, &event[i]), 0);
	}
	for (unsigned i = 0; i < LENGTHS; i++)
		length[i] = make_length(w, i);
	for (unsigned i = 0; i < COMMS; i++) {
		char comm[16];
		snprintf(comm, sizeof(comm), "c%u", i);
		struct label l = { .key = "comm",
				   .key_len = 4,
				   .str = comm,
				   .str_len = (uint32_t)strlen(comm),
				   .type = LABEL_STRING };
		assert_int_equal(store_add_set(w, &l, 1, &set), 0);
		for (unsigned k = 0; k < LENGTHS; k++) {
			const uint64_t n = 1 + (i + k) % 7;
			assert_int_equal(store_add_row(w, set, length[k], event[1], n, n), 0);
			waits += i ? n : 0;
		}
	}
	const struct store_totals none = { 0 };
	assert_int_equal(store_commit_window(w, 1000, 2000, 2000, &none, &err), 0);
	store_writer_close(w);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	remove_tree(root);
	return 0;
}

static void each_wait_counts(void **state)
{
	struct store *s;
	struct query_lengths *l;
	struct err err = { 0 };
	(void)state;
	assert_int_equal(store_open(&s, dir, &err), 0);
	const struct query_spec spec = { .metric = QUERY_OFF,
					 .where = "comm!=\"c0\"",
					 .parts = 64,
					 .from_ns = INT64_MIN,
					 .to_ns = INT64_MAX };
	assert_int_equal(query_lengths(&l, s, &spec, &err), 0);
	assert_false(query_lengths_bounded(l));
	assert_int_equal(query_lengths_of(l, NULL, NULL)->total, waits);
	query_lengths_free(l);
	store_close(s);
}

/* Of each comm all its waits, those with most waits first. */
static void groups_have_their_waits(void **state)
{
	static const char *const keys[] = { "comm" };
	const struct query_spec spec = { .metric = QUERY_OFF,
					 .where = "comm=~\"c..?\"",
					 .keys = keys,
					 .n_keys = 1,
					 .from_ns = INT64_MIN,
					 .to_ns = INT64_MAX };
	struct query_lengths_group *groups;
	struct query_lengths *l;
	struct store *s;
	struct err err = { 0 };
	size_t n;
	bool seen[GROUPS] = { false };
	(void)state;
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_int_equal(query_lengths(&l, s, &spec, &err), 0);
	assert_int_equal(query_lengths_groups(l, &groups, &n), 0);
	assert_false(query_lengths_bounded(l));
	assert_int_equal(n, GROUPS);
	for (size_t i = 0; i < n; i++) {
		const unsigned comm = (unsigned)strtoul(groups[i].values[0] + 1, NULL, 10);
		uint64_t want = 0;
		assert_true(groups[i].present[0] && comm < GROUPS && !seen[comm]);
		seen[comm] = true;
		for (unsigned k = 0; k < LENGTHS; k++)
			want += 1 + (comm + k) % 7;
		assert_int_equal(groups[i].hist->total, want);
		assert_true(!i || want <= groups[i - 1].hist->total);
		assert_ptr_equal(query_lengths_of(l, groups[i].values, groups[i].present),
				 groups[i].hist);
	}
	const char *const nobody[] = { "nobody" };
	const bool there[] = { true };
	assert_null(query_lengths_of(l, nobody, there));
	query_lengths_groups_free(groups);
	query_lengths_free(l);
	store_close(s);
}

/* By two keys, one of which is a number: a label that is not there is not one that is empty. */
static void groups_of_two_keys(void **state)
{
	static const struct {
		const char *labels, *comm, *id; /* NULL: not there */
		uint64_t n;
	} sets[] = {
		{ "comm=a\nquery_id=5\n", "a", "5", 10 },
		{ "comm=a\nquery_id=5\ntenant=t\n", "a", "5", 7 }, /* the same group */
		{ "comm=a\nquery_id=-5\n", "a", "-5", 40 },
		{ "comm=a\n", "a", NULL, 80 },
		{ "query_id=5\n", NULL, "5", 160 },
		{ "tenant=t\n", NULL, NULL, 320 },
	};
	static const uint64_t want[] = { 320, 160, 80, 40, 17 };
	static const char *const keys[] = { "comm", "query_id" };
	const struct store_event e = { .name = "runq.lengths", .unit = "nanoseconds" };
	const struct query_spec spec = { .metric = QUERY_RUNQ,
					 .keys = keys,
					 .n_keys = 2,
					 .from_ns = INT64_MIN,
					 .to_ns = INT64_MAX };
	struct query_lengths_group *groups;
	struct query_lengths *l;
	struct store_writer *w;
	struct err err = { 0 };
	uint32_t event, set, below;
	char own[64];
	size_t n;
	(void)state;
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(own), &model_meta, &model_options, &err), 0);
	assert_int_equal(store_add_event(w, &e, &event), 0);
	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		assert_int_equal(model_put_set(w, sets[i].labels, &set), 0);
		assert_int_equal(store_add_row(w, set, make_length(w, 4), event, sets[i].n - 1, 1),
				 0);
		assert_int_equal(store_add_row(w, set, make_length(w, 9), event, 1, 1), 0);
		/* A stack of two frames, or none, is no length */
		assert_int_equal(model_put_stack(w, "a (/a) 0 0\nb (/a) 0 0\n", &below), 0);
		assert_int_equal(store_add_row(w, set, below, event, 1000, 1), 0);
		assert_int_equal(store_add_row(w, set, 0, event, 1000, 1), 0);
	}
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	struct store *s = open_store(own);
	assert_int_equal(query_lengths(&l, s, &spec, &err), 0);
	assert_string_equal(query_lengths_what(l), "waits");
	assert_int_equal(query_lengths_groups(l, &groups, &n), 0);
	assert_int_equal(n, 5);
	for (size_t i = 0; i < n; i++) {
		const char *comm = groups[i].present[0] ? groups[i].values[0] : NULL,
			   *id = groups[i].present[1] ? groups[i].values[1] : NULL;
		bool found = false;
		assert_int_equal(groups[i].hist->total, want[i]);
		assert_true(groups[i].present[0] || !*groups[i].values[0]);
		for (size_t k = 0; k < sizeof(sets) / sizeof(sets[0]); k++)
			found |= !strcmp(comm ? comm : "-", sets[k].comm ? sets[k].comm : "-") &&
				 !strcmp(id ? id : "-", sets[k].id ? sets[k].id : "-") &&
				 (sets[k].n == want[i] || want[i] == 17);
		assert_true(found);
		assert_ptr_equal(query_lengths_of(l, groups[i].values, groups[i].present),
				 groups[i].hist);
	}
	static const char *const empty[] = { "", "5" };
	assert_null(query_lengths_of(l, empty, (const bool[]){ true, true }));
	query_lengths_groups_free(groups);
	query_lengths_free(l);
	query_lengths_free(NULL);
	store_close(s);
	remove_tree(own);
}

/* Which questions have lengths: by their event, never by threads or with an event in `where`. */
static void which_serve(void **state)
{
	static const struct {
		enum query_metric metric;
		const char *event, *where, *key;
		bool serves;
	} asked[] = {
		{ QUERY_OFF, NULL, NULL, "comm", true },
		{ QUERY_RUNQ, NULL, NULL, "comm", false },
		{ QUERY_CPU, NULL, NULL, "comm", false },
		{ QUERY_SAMPLES, NULL, NULL, "comm", true }, /* the first event */
		{ QUERY_SAMPLES, "", NULL, "comm", true },
		{ QUERY_VALUE, "off-cpu", NULL, "comm", true },
		{ QUERY_VALUE, "off-cpu.lengths", NULL, "comm", false },
		{ QUERY_OFF, NULL, "comm=\"c1\"", "comm", true },
		{ QUERY_OFF, NULL, "event=\"off-cpu\"", "comm", false },
		{ QUERY_OFF, NULL, "tid=\"1\"", "comm", false },
		{ QUERY_OFF, NULL, NULL, "tid", false },
		{ QUERY_OFF, NULL, NULL, "wait", false },
		{ QUERY_OFF, NULL, NULL, NULL, false },
	};
	struct store *s;
	struct err err = { 0 };
	(void)state;
	assert_int_equal(store_open(&s, dir, &err), 0);
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		const struct query_spec spec = { .metric = asked[i].metric,
						 .event = asked[i].event,
						 .where = asked[i].where,
						 .keys = &asked[i].key,
						 .n_keys = asked[i].key != NULL };
		assert_int_equal(query_lengths_serve(s, &spec), asked[i].serves);
	}
	store_close(s);
}

/* Without keys all are one histogram, of whatever event; without memory, those that fit. */
static void all_in_one(void **state)
{
	struct query_spec spec = { .metric = QUERY_SAMPLES,
				   .event = "off-cpu",
				   .from_ns = INT64_MIN,
				   .to_ns = INT64_MAX };
	static const char *const keys[] = { "comm" };
	struct query_lengths_group *groups;
	struct query_lengths *l;
	struct store *s;
	struct err err = { 0 };
	uint64_t c0 = 0, sum = 0;
	size_t n;
	(void)state;
	for (unsigned k = 0; k < LENGTHS; k++)
		c0 += 1 + k % 7;
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_int_equal(query_lengths(&l, s, &spec, &err), 0);
	assert_string_equal(query_lengths_what(l), "hits");
	const struct hist_snapshot *h = query_lengths_of(l, NULL, NULL);
	assert_int_equal(h->total, waits + c0);
	/* Half of them are below the 8th length, as far as a bucket tells */
	assert_true(hist_snapshot_quantile(h, 1).high >= 1 << (LENGTHS - 1));
	assert_true(hist_snapshot_quantile(h, 0.4).low <= 1 << (LENGTHS / 2));
	assert_int_equal(query_lengths_groups(l, &groups, &n), 0);
	assert_int_equal(n, 1);
	query_lengths_groups_free(groups);
	query_lengths_free(l);
	spec.keys = keys;
	spec.n_keys = 1;
	spec.metric = QUERY_RUNQ; /* there are none */
	assert_int_equal(query_lengths(&l, s, &spec, &err), -EINVAL);
	spec.metric = QUERY_OFF;
	store_limit(s, &(struct store_limits){ .bytes = 1 << 20 });
	assert_int_equal(query_lengths(&l, s, &spec, &err), 0);
	store_limit(s, &(struct store_limits){ 0 });
	assert_true(query_lengths_bounded(l));
	assert_string_equal(query_lengths_what(l), "waits");
	assert_int_equal(query_lengths_groups(l, &groups, &n), 0);
	for (size_t i = 0; i < n; i++)
		sum += groups[i].hist->total;
	assert_true(n < COMMS && sum < waits);
	query_lengths_groups_free(groups);
	query_lengths_free(l);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_wait_counts),
					    cmocka_unit_test(groups_have_their_waits),
					    cmocka_unit_test(groups_of_two_keys),
					    cmocka_unit_test(which_serve),
					    cmocka_unit_test(all_in_one) };
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
