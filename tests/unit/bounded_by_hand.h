/* SPDX-License-Identifier: Apache-2.0 */
/* For test_bounded_shapes.c and test_bounded_files.c: stores by hand, and a question to one. */
#ifndef TESTS_UNIT_BOUNDED_BY_HAND_H
#define TESTS_UNIT_BOUNDED_BY_HAND_H

#include "bounded_model.h"

#include "query/query.h"
#include "store/writer.h"

static struct fixture fixture; /* large */

static inline uint32_t add_event(struct store_writer *w, const char *name)
{
	const struct store_event e = { name, "count", 0, 1 };
	uint32_t id;
	assert_int_equal(store_add_event(w, &e, &id), 0);
	return id;
}

static inline uint32_t add_stack(struct store_writer *w, uint32_t parent, const char *function)
{
	struct store_frame frame = { .kind = FRAME_USER };
	uint32_t id, stack;
	assert_int_equal(store_add_string(w, function, strlen(function), &frame.function), 0);
	assert_int_equal(store_add_frame(w, &frame, &id), 0);
	assert_int_equal(store_add_stack(w, parent, id, &stack), 0);
	return stack;
}

static inline void commit(struct store_writer *w, int64_t t0_ns)
{
	struct err err = { 0 };
	assert_int_equal(
		store_commit_window(w, t0_ns, t0_ns + 1000, 1, &(struct store_totals){ 0 }, &err),
		0);
}

/* Each stack has one sample, but for those that stand for others. */
static inline void check_single_rows(const struct fixture *f, const struct query *q)
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
static inline void ask_store(struct fixture *f, struct store_writer *w, const char *event,
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

#endif
