/* SPDX-License-Identifier: Apache-2.0 */
/* For test_parent_*.c: stores with windows of any length, and what blocks of a level take. */
#ifndef TESTS_UNIT_PARENT_MODEL_H
#define TESTS_UNIT_PARENT_MODEL_H

#include "store/read/block_data.h"
#include "store/read/store_int.h"
#include "store/writer.h"
#include "unit/store_model.h"

#define SECOND 1000000000ll
#define MINUTE (60 * SECOND)
#define T0 (1700000000ll / 300 * 300 * SECOND) /* a slot of five minutes begins */

static inline struct store_writer *open_writer(char *dir)
{
	struct store_writer *w;
	struct err err = { 0 };
	if (store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err))
		fail_msg("%s", err.text);
	return w;
}

static inline void commit_long(struct store_writer *w, int64_t t0, int64_t length)
{
	struct store_cpu_totals cpu = { 0, 0, 0, (uint64_t[2]){ 0 }, (uint64_t[1]){ 0 } };
	const struct store_totals t = { .cpu = &cpu, .n_cpus = 1 };
	struct err err = { 0 };
	if (store_commit_window(w, t0, t0 + length, t0 - T0 + 1, &t, &err))
		fail_msg("%s", err.text);
}

static inline void commit(struct store_writer *w, int64_t t0)
{
	commit_long(w, t0, 10 * SECOND);
}

static inline uint32_t stack_of(struct store_writer *w, unsigned n)
{
	char name[32];
	struct store_frame f = { 0 };
	uint32_t frame, stack;
	snprintf(name, sizeof(name), "function_%u", n);
	f.function = model_text(w, name);
	assert_int_equal(store_add_frame(w, &f, &frame), 0);
	assert_int_equal(store_add_stack(w, 0, frame, &stack), 0);
	return stack;
}

struct level_sum {
	size_t blocks;
	uint64_t payload, projected;
};

static inline struct level_sum sum_level(struct store *s, uint8_t level)
{
	struct level_sum sum = { 0 };
	struct err err = { 0 };
	for (size_t i = 0; i < s->n_segments; i++) {
		struct segment *g = &s->segments[i];
		assert_int_equal(segment_load(s, g, &err), 0);
		for (size_t k = 0; g->m.level == level && k < g->n_refs; k++) {
			struct block_data d = { 0 };
			assert_int_equal(block_read(s, &g->refs[k], 0, &d, &err), 0);
			sum.blocks++;
			sum.payload += g->refs[k].stored_len;
			sum.projected += d.head.column[COLUMN_VALUES].stored_len +
					 d.head.column[COLUMN_PROJECTIONS].stored_len;
			block_data_fini(&d);
		}
	}
	return sum;
}

#endif
