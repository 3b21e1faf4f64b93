/* SPDX-License-Identifier: Apache-2.0 */
/* When a file of blocks ends: by its blocks, and by what its dictionaries take. */
#include "unit/copied.h"

#include "store/write/writer_int.h"
#include "store/writer.h"

static char dir[64];

static int begin(void **state)
{
	(void)state;
	temp_dir(dir);
	return 0;
}

static int end(void **state)
{
	(void)state;
	remove_tree(dir);
	return 0;
}

static struct store_writer *open_writer(const struct store_options *o)
{
	struct store_writer *w;
	struct err err = { 0 };
	if (store_writer_open_with(&w, dir, &model_meta, o, &err))
		fail_msg("%s", err.text);
	return w;
}

static uint64_t size_of(uint32_t file, const char *kind)
{
	char path[140];
	struct stat st;
	snprintf(path, sizeof(path), "%s/seg/10s-%08u.%s", dir, file, kind);
	assert_int_equal(stat(path, &st), 0);
	return (uint64_t)st.st_size;
}

/* Windows of the same rows: dictionaries of a file are what the first window brings. */
static void end_by_size(uint64_t part, bool by_part)
{
	struct store_options o = model_options;
	struct model m = { .random = 9 };
	struct err err = { 0 };
	size_t ended = 0;
	o.max_bytes = 64 * part;
	struct store_writer *w = open_writer(&o);
	assert_int_equal(model_commit(&m, w, 60, &err), 0);
	for (size_t i = 1; ended < 3; i++) {
		const uint32_t file = writer_segment(w, 0)->m.serial;
		const uint64_t twice = 2 * size_of(file, "sym"), has = size_of(file, "seg");
		assert_true(twice > 64 && (part > twice) == by_part);
		assert_true(i < 500);
		for (size_t k = 0; k < 20; k++)
			assert_int_equal(model_put_row(w, &m.w[0].rows[k]), 0);
		assert_int_equal(model_commit_at(w, i, &err), 0);
		const bool ends = has > (by_part ? part : twice);
		assert_int_equal(writer_segment(w, 0)->m.serial != file, ends);
		ended += ends;
	}
	store_writer_close(w);
	model_fini(&m);
}

/* A file ends where its blocks take a 64th of the store, and twice what their dictionaries do. */
static void full_files(void **state)
{
	end_by_size(1000, false);
	end(state);
	begin(state);
	end_by_size(16000, true);
}

/* The limit is of dictionaries in memory; returns how many files of the first level ended. */
static size_t end_by_symbols(size_t limit)
{
	struct store_options o = model_options;
	const struct store_totals none = { 0 };
	struct err err = { 0 };
	size_t ended = 0;
	o.symbols_memory = limit;
	struct store_writer *w = open_writer(&o);
	for (int64_t i = 0; i < 60; i++) {
		const struct segment *g = writer_segment(w, 1);
		const uint32_t file = g ? g->m.serial : 0;
		const bool full = dicts_bytes(&w->out[1].d) >= limit / 3 * 2;
		for (int k = 0; k < 20; k++) {
			static char labels[] = "";
			char stack[40];
			snprintf(stack, sizeof(stack), "f%d (/bin/demo) 0 0\n", 20 * (int)i + k);
			const struct model_row row = { labels, stack, 0, 1, 1 };
			assert_int_equal(model_put_row(w, &row), 0);
		}
		assert_int_equal(store_commit_window(w, T0 + i * MINUTE, T0 + i * MINUTE + SECOND,
						     (i + 1) * MINUTE, &none, &err),
				 0);
		/* Those of the first level stay in memory, as they are small. */
		assert_int_equal(w->out[1].loaded, i > 0);
		for (int level = 2; level < N_LEVELS; level++)
			assert_false(w->out[level].loaded);
		if (i < 3)
			continue;
		/* A parent that outgrows the limit at once begins another, too. */
		g = writer_segment(w, 1);
		const bool pruned = g->refs[g->n_refs - 1].b.flags & STORE_PRUNED;
		assert_int_equal(g->m.serial != file, full || pruned);
		ended += full;
	}
	store_writer_close(w);
	return ended;
}

/* A file of parents ends where its dictionaries take two thirds of what they may. */
static void full_of_symbols(void **state)
{
	size_t ended = 0;
	for (size_t limit = 60000; limit <= 150000; limit += 10000) {
		ended += end_by_symbols(limit);
		end(state);
		begin(state);
	}
	assert_in_range(ended, 10, 200);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(full_files),
		TEST(full_of_symbols),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
