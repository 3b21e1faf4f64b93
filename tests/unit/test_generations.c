/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A writer begins a file anew when its dictionaries are too large. On a busy host, whose stacks are
 * new in each window, the commits alone make parents of every level though each window has a file
 * of its own. A short range takes the stacks of its windows, not those of the whole file.
 */
#include "unit/store_model.h"

#include "query/query.h"
#include "store/damage.h"
#include "store/read/store_int.h"
#include "store/write/writer_int.h"
#include "store/writer.h"

#define SECOND 1000000000ll
#define MINUTE (60 * SECOND)
#define T0 (1700000000000000000ll / (20 * MINUTE) * (20 * MINUTE))

/* A window at minute `at` with so many stacks of two frames that no other window has. */
static void commit_new_stacks(struct store_writer *w, int64_t at, uint32_t stacks)
{
	uint64_t lost[2] = { 0 }, flagged[1] = { 0 };
	struct store_cpu_totals cpu = { 0, stacks, stacks, lost, flagged };
	struct store_totals t = { &cpu, 1, 0, 0, 0 };
	struct err err = { 0 };
	uint32_t event, set, root, frame, stack;
	struct store_frame f = { .kind = FRAME_USER };
	assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
	assert_int_equal(store_add_set(w, NULL, 0, &set), 0);
	f.function = model_text(w, "main");
	assert_int_equal(store_add_frame(w, &f, &frame), 0);
	assert_int_equal(store_add_stack(w, 0, frame, &root), 0);
	for (uint32_t i = 0; i < stacks; i++) {
		char name[32];
		snprintf(name, sizeof(name), "f%" PRId64 "_%u", at, i);
		f.function = model_text(w, name);
		assert_int_equal(store_add_frame(w, &f, &frame), 0);
		assert_int_equal(store_add_stack(w, root, frame, &stack), 0);
		assert_int_equal(
			store_add_row(w, set, stack, event, 1, (uint64_t)model_events[0].period),
			0);
	}
	int64_t t0 = T0 + at * MINUTE;
	if (store_commit_window(w, t0, t0 + 10 * SECOND, at * MINUTE + 1, &t, &err))
		fail_msg("%s", err.text);
	assert_int_equal(store_writer_state(w)->parents_failed, 0);
}

static struct store_writer *open_writer(const struct store_options *o, char *ret_dir)
{
	struct store_writer *w;
	struct err err = { 0 };
	if (store_writer_open_with(&w, temp_dir(ret_dir), &model_meta, o, &err))
		fail_msg("%s", err.text);
	return w;
}

static size_t count_blocks(struct store *s, uint8_t level)
{
	struct err err = { 0 };
	size_t n = 0;
	for (size_t i = 0; i < s->n_segments; i++) {
		struct segment *g = &s->segments[i];
		assert_int_equal(segment_load(s, g, &err), 0);
		n += g->m.level == level ? g->n_refs : 0;
	}
	return n;
}

static uint64_t ask_all(struct store *s, int64_t from_ns, int64_t to_ns)
{
	const struct query_spec spec = { .labels = QUERY_NO_LABELS,
					 .from_ns = from_ns,
					 .to_ns = to_ns };
	struct query *q;
	struct err err = { 0 };
	if (query_open(&q, s, &spec, &err))
		fail_msg("%s", err.text);
	uint64_t samples = query_info(q)->samples;
	query_close(q);
	return samples;
}

/* Parents of five minutes are made two minutes later at most, though a commit reads few rows. */
static void assert_parents_in_time(const char *dir, int64_t minute)
{
	struct store *s = open_store(dir);
	assert_true(minute < 2 || count_blocks(s, 2) >= (size_t)(minute - 2) / 5);
	store_close(s);
}

/*
 * A file for each window. A parent of 20 minutes has more rows than a commit may read, so making it
 * goes on across several files.
 */
static void parents_beside_new_files(void **state)
{
	enum { WINDOWS = 46, STACKS = 3000 };
	(void)state;
	char dir[64];
	struct store_options o = model_options;
	o.symbols_bytes = 1;
	struct store_writer *w = open_writer(&o, dir);
	for (int64_t i = 0; i < WINDOWS; i++) {
		commit_new_stacks(w, i, STACKS);
		assert_true(store_renew(w));
		store_renew_end(w);
		assert_parents_in_time(dir, i);
	}
	/* As after a loss of power: nothing is made up for at the end. */
	struct store *s = open_store(dir);
	assert_int_equal(count_blocks(s, 0), WINDOWS);
	assert_true(count_blocks(s, 1) >= WINDOWS - 2);
	assert_true(count_blocks(s, 2) >= WINDOWS / 5 - 1);
	assert_int_equal(count_blocks(s, 3), 2);
	assert_int_equal(ask_all(s, INT64_MIN, INT64_MAX), WINDOWS * STACKS);
	store_close(s);
	store_writer_close(w);
	remove_tree(dir);
}

/* One file of many windows: a question about one of them translates that one's stacks. */
static void short_range(void **state)
{
	enum { WINDOWS = 40, STACKS = 200 };
	(void)state;
	char dir[64];
	struct store_options o = model_options;
	o.windows_only = true;
	struct store_writer *w = open_writer(&o, dir);
	for (int64_t i = 0; i < WINDOWS; i++)
		commit_new_stacks(w, i, STACKS);
	store_writer_close(w);
	struct store *s = open_store(dir);
	int64_t at = T0 + 20 * MINUTE;
	assert_int_equal(ask_all(s, at, at + 10 * SECOND), STACKS);
	/* no stack, main, and what it called */
	assert_int_equal(store_n_stacks(s), 2 + STACKS);
	assert_int_equal(ask_all(s, INT64_MIN, INT64_MAX), WINDOWS * STACKS);
	assert_int_equal(store_n_stacks(s), 2 + WINDOWS * STACKS);
	store_close(s);
	remove_tree(dir);
}

/* An answer keeps its texts when another question about the same store brings new ones. */
static void texts_stay(void **state)
{
	enum { STACKS = 6000 }; /* the second window's do not fit beside the first's */
	(void)state;
	char dir[64];
	struct store_options o = model_options;
	o.windows_only = true;
	struct store_writer *w = open_writer(&o, dir);
	for (int64_t i = 0; i < 2; i++)
		commit_new_stacks(w, i, STACKS);
	store_writer_close(w);
	struct store *s = open_store(dir);
	const struct query_spec first = { .from_ns = T0, .to_ns = T0 + 10 * SECOND };
	struct query *q;
	struct query_table *t;
	struct err err = { 0 };
	assert_int_equal(query_open(&q, s, &first, &err), 0);
	assert_int_equal(query_table(q, NULL, 0, &t, &err), 0);
	assert_int_equal(t->n_rows, 1 + STACKS);
	assert_int_equal(ask_all(s, INT64_MIN, INT64_MAX), 2 * STACKS);
	for (size_t i = 0; i < t->n_rows; i++)
		assert_ptr_equal(t->rows[i].text, store_string(s, t->rows[i].function, NULL));
	query_table_free(t);
	query_close(q);
	store_close(s);
	remove_tree(dir);
}

static void one_row(struct store_writer *w, const struct store_event *e, size_t i)
{
	struct err err = { 0 };
	uint32_t event, set;
	assert_int_equal(store_add_event(w, e, &event), 0);
	assert_int_equal(store_add_set(w, NULL, 0, &set), 0);
	assert_int_equal(store_add_row(w, set, 0, event, i + 1, 1), 0);
	if (model_commit_at(w, i, &err))
		fail_msg("%s", err.text);
}

static int event_name(void *ctx, const struct store_row *r)
{
	*(uint32_t *)ctx = r->event;
	return 0;
}

/*
 * An event that only an older generation has is written again with the first block that needs it.
 */
static void events_of_generations(void **state)
{
	(void)state;
	char dir[64];
	struct err err = { 0 };
	struct store_options o = model_options;
	struct store *s;
	struct store_writer *w;
	static const size_t used[] = { 1, 0, 1 };
	o.symbols_bytes = 1;
	temp_dir(dir);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &o, &err), 0);
		/* The third goes on with the generation of the second. */
		o.symbols_bytes = i ? 64u << 20 : 1;
		one_row(w, &model_events[used[i]], i);
		store_writer_close(w);
	}
	assert_int_equal(store_open(&s, dir, &err), 0);
	for (size_t i = 0; i < 3; i++) {
		uint32_t event = 99;
		if (store_rows(s, i, event_name, &event, &err))
			fail_msg("window %zu: %s", i, err.text);
		assert_string_equal(store_event(s, event)->name, model_events[used[i]].name);
	}
	store_close(s);
	assert_sound(dir);
	remove_tree(dir);
}

/* Chains of one frame compress to nearly nothing on the disk, and not at all in memory. */
static void add_chain(struct store_writer *w, uint32_t nodes)
{
	const struct store_frame f = { .kind = FRAME_USER };
	uint32_t frame, at = 0, next;
	assert_int_equal(store_add_frame(w, &f, &frame), 0);
	for (uint32_t i = 0; i < nodes; i++, at = next)
		assert_int_equal(store_add_stack(w, at, frame, &next), 0);
}

/*
 * A writer's dictionaries begin anew when they take more memory than they may, however few bytes
 * they are on the disk.
 */
static void generations_by_memory(void **state)
{
	(void)state;
	char dir[64];
	struct store_options o = model_options;
	o.symbols_memory = 4 << 20;
	struct store_writer *w = open_writer(&o, dir);
	add_chain(w, 1000);
	one_row(w, &model_events[0], 0);
	assert_false(store_renew(w));
	add_chain(w, 200000);
	one_row(w, &model_events[0], 1);
	assert_true(store_renew(w));
	/* A file that nothing was written to is not renewed, nor one with a gap. */
	assert_false(store_renew(w));
	store_renew_end(w);
	assert_false(store_renew(w));
	one_row(w, &model_events[0], 2);
	add_chain(w, 200000);
	one_row(w, &model_events[0], 3);
	w->out[0].broken = true;
	assert_false(store_renew(w));
	w->out[0].broken = false;
	assert_true(store_renew(w));
	/* The next renewal ends this one. */
	one_row(w, &model_events[0], 4);
	add_chain(w, 200000);
	one_row(w, &model_events[0], 5);
	assert_true(store_renew(w));
	store_renew_end(w);
	one_row(w, &model_events[0], 6);
	assert_false(store_renew(w));
	store_writer_close(w);
	assert_sound(dir);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parents_beside_new_files),
		cmocka_unit_test(short_range),
		cmocka_unit_test(texts_stay),
		cmocka_unit_test(events_of_generations),
		cmocka_unit_test(generations_by_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
