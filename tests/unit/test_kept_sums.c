/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where only the stacks that matter are wanted, the sums of a file are read to choose them, and are
 * kept for adding up as long as all that are kept take less than an eighth of the limit. The blocks
 * of the other files are read again.
 */
#include "unit/copied.h"

#include "store/read/store_int.h"

#include <sys/syscall.h>

#define FILES 6
#define EVENTS 40
#define LEAVES 60

static size_t n_reads;

ssize_t pread(int fd, void *p, size_t size, off_t at)
{
	n_reads++;
	return syscall(SYS_pread64, fd, p, size, at);
}

static char dir[64];
static struct store *s;
static struct store_cover cover;

/* The same rows in each file: their sums take the same there. */
static void put_file(struct store_writer *w, int64_t i)
{
	const struct store_totals none = { 0 };
	struct err err = { 0 };
	char name[40];
	uint32_t event, stack, set;
	store_renew(w);
	store_renew_end(w);
	assert_int_equal(store_add_set(w, NULL, 0, &set), 0);
	for (uint32_t k = 0; k < LEAVES; k++) {
		snprintf(name, sizeof(name), "f%u (/bin/demo) 0 0\n", k);
		assert_int_equal(model_put_stack(w, name, &stack), 0);
		for (uint32_t e = 0; e < EVENTS; e++) {
			snprintf(name, sizeof(name), "event%u", e);
			const struct store_event as = { name, "count", 0, 1 };
			assert_int_equal(store_add_event(w, &as, &event), 0);
			assert_int_equal(store_add_row(w, set, stack, event, 1 + k, 1), 0);
		}
	}
	assert_int_equal(store_commit_window(w, T0 + i * MINUTE, T0 + i * MINUTE + SECOND,
					     (i + 1) * MINUTE, &none, &err),
			 0);
}

static int setup(void **state)
{
	struct store_options o = model_options;
	struct store_writer *w;
	struct err err = { 0 };
	(void)state;
	o.windows_only = true;
	o.symbols_bytes = 1;
	assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta, &o, &err), 0);
	for (int64_t i = 0; i < FILES; i++)
		put_file(w, i);
	store_writer_close(w);
	s = open_store(dir);
	return store_cover(s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &cover, &err);
}

static int teardown(void **state)
{
	(void)state;
	store_cover_free(&cover);
	store_close(s);
	remove_tree(dir);
	return 0;
}

static int add(void *ctx, const struct store_row *r)
{
	*(uint64_t *)ctx += r->samples;
	return 0;
}

/* How many reads a question takes with this limit. */
static size_t reads_with(size_t limit)
{
	const struct store_limits limits = { .symbols = limit };
	struct store_folding f = { .least = 30 };
	struct err err = { 0 };
	uint64_t samples = 0;
	bool pruned;
	store_limit(s, &limits);
	for (size_t i = 0; i < cover.n; i++)
		assert_int_equal(store_fold_block(s, &f, cover.blocks[i], &err), 0);
	n_reads = 0;
	assert_int_equal(store_fold_rows(s, &f, add, &samples, &pruned, &err), 0);
	assert_int_equal(samples, (uint64_t)FILES * EVENTS * LEAVES * (LEAVES + 1) / 2);
	store_folding_fini(&f);
	return n_reads;
}

static void as_many_as_fit(void **state)
{
	size_t low = 200000, high = 16 << 20;
	(void)state;
	assert_int_equal(cover.n, FILES);
	(void)reads_with(high); /* dictionaries stay from here on */
	const size_t all = reads_with(high), none = reads_with(low), each = all / FILES;
	assert_int_equal(all, FILES * each);
	assert_int_equal(none, 2 * all);
	while (high - low > 1) { /* the least limit with which one is kept */
		const size_t middle = low + (high - low) / 2;
		if (reads_with(middle) < none)
			high = middle;
		else
			low = middle;
	}
	const size_t bytes = high / 8 - 1;
	assert_int_equal(high % 8, 0);
	assert_in_range(bytes, EVENTS * LEAVES * 16, EVENTS * LEAVES * 40);
	for (size_t kept = 1; kept <= FILES; kept++) {
		assert_int_equal(reads_with(8 * (kept * bytes + 1)), none - kept * each);
		assert_int_equal(reads_with(8 * kept * bytes + 7), none - (kept - 1) * each);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(as_many_as_fit) };
	return cmocka_run_group_tests(tests, setup, teardown);
}
