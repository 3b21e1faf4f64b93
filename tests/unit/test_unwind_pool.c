/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of unwind tables, and the allocator under it: files come and go, and every address that
 * is looked up has the rule that its own table says.
 */
#include "triplet.h"
#include "unwind/pool.h"
#include "unwind/request.h"
#include "util/extent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_FILES 8

static uint32_t *shards[UNWIND_SHARDS];
static unsigned n_shards;

static int add_shard(void *ctx, unsigned shard, uint32_t **ret_rows)
{
	(void)ctx;
	assert_int_equal(shard, n_shards);
	shards[shard] = calloc(1u << UNWIND_SHARD_BITS, sizeof(uint32_t));
	*ret_rows = shards[shard];
	n_shards++;
	return 0;
}

static int drop_shard(void *ctx, unsigned shard)
{
	(void)ctx;
	assert_int_equal(shard, n_shards - 1);
	free(shards[--n_shards]);
	return 0;
}

static void drop_shards(void)
{
	while (n_shards)
		free(shards[--n_shards]);
}

static struct unwind_table *compile(const char *path)
{
	struct elf_image img;
	struct unwind_table *t = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (!elf_image_open(&img, fd, path, NULL)) {
		if (unwind_compile(&t, &img, path, NULL))
			t = NULL;
		elf_image_fini(&img);
	}
	close(fd);
	return t;
}

static void check_all(const struct unwind_pool *p, const struct unwind_code *c,
		      const struct unwind_table *t)
{
	uint64_t first = t->first_page << 12, end = first + ((uint64_t)t->n_pages << 12);
	for (uint64_t at = first - 8192; at < end + 8192; at += 7) {
		const struct unwind_rule *a = unwind_pool_find(p, c, at),
					 *b = unwind_table_find(t, at);
		assert_true(!a == !b);
		assert_true(!a || !memcmp(a, b, sizeof(*a)));
	}
}

static void test_come_and_go(void **state)
{
	static const char *const paths[N_FILES] = {
		"/bin/bash",	 "/lib/" TRIPLET "/libc.so.6", "/usr/bin/python3",
		"/usr/bin/gdb",	 "/usr/bin/openssl",	       "/usr/bin/git",
		"/usr/bin/perl", "/lib/" TRIPLET "/libm.so.6"
	};
	struct unwind_table *t[N_FILES];
	struct unwind_code c[N_FILES] = { 0 };
	struct unwind_pool_config cfg = { .pages = calloc(UNWIND_PAGES, sizeof(*cfg.pages)),
					  .rules = calloc(UNWIND_RULES, sizeof(*cfg.rules)),
					  .rows_bytes_max = 1u << 20,
					  .add_shard = add_shard };
	struct unwind_pool *p;
	struct unwind_pool_stats st;
	unsigned refused = 0, n = 0;
	(void)state;
	for (int i = 0; i < N_FILES; i++)
		n += (t[i] = compile(paths[i])) != NULL;
	assert_true(n >= 5);
	assert_int_equal(unwind_pool_new(&p, &cfg), 0);
	srand(11);
	for (int round = 0; round < 300; round++) {
		int i = rand() % N_FILES;
		if (!t[i])
			continue;
		if (c[i].n_pages) {
			check_all(p, &c[i], t[i]);
			unwind_pool_remove(p, &c[i]);
			continue;
		}
		int rc = unwind_pool_add(p, t[i], (uint32_t)i, &c[i]);
		assert_true(!rc || rc == -ENOSPC || rc == -EDQUOT);
		refused += rc != 0;
	}
	unwind_pool_stats(p, &st);
	printf("%u refused for room, %u rules, %u pages, %zu KiB of %zu KiB\n", refused, st.rules,
	       st.pages, st.rows_bytes / 1024, st.made_bytes / 1024);
	assert_true(refused > 0); /* they do not fit all at once */
	assert_int_equal(n_shards, 1);
	for (int i = 0; i < N_FILES; i++) {
		if (c[i].n_pages) {
			check_all(p, &c[i], t[i]);
			unwind_pool_remove(p, &c[i]);
		}
		unwind_table_free(t[i]);
	}
	unwind_pool_stats(p, &st);
	assert_int_equal(st.rows_bytes, 0);
	assert_int_equal(st.pages, 0);
	unwind_pool_free(p);
	drop_shards();
	free(cfg.pages);
	free(cfg.rules);
}

/*
 * What no file needs any more is given back, from the end; what is left is found, and all of it
 * goes in the end.
 */
static void test_give_back(void **state)
{
	static const char *const paths[] = { "/lib/" TRIPLET "/libc.so.6", "/usr/bin/gdb",
					     "/usr/bin/python3", "/usr/bin/git", "/usr/bin/perl" };
	enum { N = sizeof(paths) / sizeof(paths[0]), COPIES = 4 };
	const size_t shard_bytes = sizeof(uint32_t) << UNWIND_SHARD_BITS;
	struct unwind_code c[N * COPIES] = { 0 };
	struct unwind_table *t[N];
	struct unwind_pool_config cfg = { .pages = calloc(UNWIND_PAGES, sizeof(*cfg.pages)),
					  .rules = calloc(UNWIND_RULES, sizeof(*cfg.rules)),
					  .rows_bytes_max = 32u << 20,
					  .add_shard = add_shard,
					  .drop_shard = drop_shard };
	struct unwind_pool *p;
	unsigned most = 0, dropped = 0;
	(void)state;
	for (int i = 0; i < N; i++)
		assert_non_null(t[i] = compile(paths[i]));
	assert_int_equal(unwind_pool_new(&p, &cfg), 0);
	srand(12);
	for (int round = 0; round < 400; round++) {
		/* Fewer and fewer. */
		int i = rand() % (N * COPIES);
		if (c[i].n_pages)
			unwind_pool_remove(p, &c[i]);
		else if (rand() % 400 > round)
			assert_int_equal(unwind_pool_add(p, t[i % N], (uint32_t)i, &c[i]), 0);
		most = n_shards > most ? n_shards : most;
		while (unwind_pool_trim(p, shard_bytes))
			dropped++;
		assert_int_equal(unwind_pool_made(p), n_shards * shard_bytes);
		assert_true(n_shards >= 1);
		i = rand() % (N * COPIES);
		if (c[i].n_pages && round % 8 == 0)
			check_all(p, &c[i], t[i % N]);
	}
	assert_true(most > 2 && dropped > 1);
	for (int i = 0; i < N * COPIES; i++) {
		if (c[i].n_pages)
			check_all(p, &c[i], t[i % N]);
		unwind_pool_remove(p, &c[i]);
	}
	while (unwind_pool_trim(p, 0))
		;
	assert_int_equal(n_shards, 0);
	assert_false(unwind_pool_fits(p, t[0]));
	for (int i = 0; i < N; i++)
		unwind_table_free(t[i]);
	unwind_pool_free(p);
	free(cfg.pages);
	free(cfg.rules);
}

/*
 * Fewer rules than all files have together: those of files that went are given to files that come.
 */
static void test_rules_come_and_go(void **state)
{
	static const char *const paths[] = { "/bin/bash",     "/usr/bin/gdb",
					     "/usr/bin/perl", "/usr/bin/openssl",
					     "/usr/bin/git",  "/lib/" TRIPLET "/libc.so.6" };
	enum { N = sizeof(paths) / sizeof(paths[0]) };
	struct unwind_code c[N] = { 0 };
	struct unwind_table *t[N];
	struct unwind_pool_stats st;
	size_t max = 0, sum = 0;
	struct unwind_pool *p;
	(void)state;
	for (int i = 0; i < N; i++) {
		t[i] = compile(paths[i]);
		assert_non_null(t[i]);
		sum += t[i]->n_rules - 1;
		max = t[i]->n_rules > max ? t[i]->n_rules : max;
	}
	struct unwind_pool_config cfg = { .pages = calloc(UNWIND_PAGES, sizeof(*cfg.pages)),
					  .rules = calloc(UNWIND_RULES, sizeof(*cfg.rules)),
					  .rows_bytes_max = 8u << 20,
					  .rules_max = (uint32_t)max / 3 * 4 + 8,
					  .add_shard = add_shard };
	assert_true(sum > 2 * max);
	assert_int_equal(unwind_pool_new(&p, &cfg), 0);
	unsigned refused = 0;
	for (int round = 0; round < 5 * N; round++) {
		int i = round % N, old = (round + N - 1) % N;
		if (c[old].n_pages) {
			/* Another may have come and gone: its rules are still its own */
			check_all(p, &c[old], t[old]);
			unwind_pool_remove(p, &c[old]);
		}
		assert_int_equal(unwind_pool_add(p, t[i], 0, &c[i]), 0); /* any one fits */
		check_all(p, &c[i], t[i]);
		struct unwind_code third = { 0 };
		int rc = unwind_pool_add(p, t[(i + 2) % N], round % 2, &third);
		assert_true(!rc || rc == (round % 2 ? -ENOSPC : -EDQUOT));
		refused += rc != 0;
		if (!rc)
			unwind_pool_remove(p, &third);
		check_all(p, &c[i], t[i]);
		unwind_pool_stats(p, &st);
		assert_true(st.rules < cfg.rules_max);
	}
	assert_true(refused > 0);
	for (int i = 0; i < N; i++) {
		unwind_pool_remove(p, &c[i]);
		unwind_table_free(t[i]);
	}
	unwind_pool_stats(p, &st);
	assert_int_equal(st.rules, 0);
	assert_int_equal(st.pages, 0);
	unwind_pool_free(p);
	drop_shards();
	free(cfg.pages);
	free(cfg.rules);
}

/* Against a map of every element. */
static void test_extents(void **state)
{
	enum { N = 500 };
	uint8_t taken[N] = { 0 };
	struct extent held[N];
	size_t n_held = 0;
	struct extents e;
	uint32_t at;
	(void)state;
	assert_int_equal(extents_init(&e, N), 0);
	srand(5);
	for (int round = 0; round < 20000; round++) {
		if (rand() % 2 || !n_held) {
			uint32_t n = 1 + (uint32_t)rand() % 40, run = 0, first = N;
			for (uint32_t i = 0; i < N && first == N; i++) {
				run = taken[i] ? 0 : run + 1;
				if (run == n)
					first = i + 1 - n;
			}
			int rc = extents_take(&e, n, &at);
			assert_int_equal(rc, first == N ? -ENOSPC : 0);
			if (rc)
				continue;
			assert_int_equal(at, first);
			memset(taken + at, 1, n);
			held[n_held++] = (struct extent){ at, n };
		} else {
			size_t i = (size_t)rand() % n_held;
			memset(taken + held[i].at, 0, held[i].n);
			assert_int_equal(extents_give(&e, held[i].at, held[i].n), 0);
			held[i] = held[--n_held];
		}
		uint32_t used = 0;
		for (uint32_t i = 0; i < N; i++)
			used += taken[i];
		assert_int_equal(e.used, used);
	}
	extents_fini(&e);
}

/*
 * What a worker answers is the table; what one that was taken over answers is refused, or does no
 * harm.
 */
static void test_request(void **state)
{
	struct unwind_table *t = compile("/proc/self/exe"), *back = NULL;
	struct buf out = BUF_INIT, bad = BUF_INIT;
	uint64_t seed = 3;
	int refused = 0, taken = 0;
	(void)state;
	assert_non_null(t);
	assert_int_equal(unwind_encode(t, &out), 0);
	assert_int_equal(unwind_decode(&back, &out), 0);
	assert_int_equal(back->first_page, t->first_page);
	assert_int_equal(back->n_pages, t->n_pages);
	assert_int_equal(back->n_rows, t->n_rows);
	assert_int_equal(back->n_rules, t->n_rules);
	assert_int_equal(back->fdes, t->fdes);
	assert_memory_equal(back->page_at, t->page_at, (t->n_pages + 1) * sizeof(*t->page_at));
	assert_memory_equal(back->rows, t->rows, t->n_rows * sizeof(*t->rows));
	assert_memory_equal(back->rules, t->rules, t->n_rules * sizeof(*t->rules));
	unwind_table_free(back);
	for (int i = 0; i < 3000; i++) {
		bad.len = 0;
		assert_int_equal(buf_add(&bad, out.data, out.len), 0);
		for (int k = i % 8; k >= 0; k--) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			size_t within = i % 3 ? out.len : 64;
			bad.data[(seed >> 33) % within] ^= (uint8_t)(1u << (seed >> 20) % 8);
		}
		if (i % 5 == 0)
			bad.len = (seed >> 13) % out.len;
		if (unwind_decode(&back, &bad)) {
			refused++;
			continue;
		}
		taken++;
		for (uint64_t at = 0; at < back->n_pages; at++)
			unwind_table_find(back, (back->first_page + at) << 12 | (seed & 4095));
		unwind_table_free(back);
	}
	print_message("%d damaged answers refused, %d taken\n", refused, taken);
	assert_true(refused > 100 && taken > 100);
	buf_fini(&out);
	buf_fini(&bad);
	unwind_table_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_extents),	  cmocka_unit_test(test_come_and_go),
		cmocka_unit_test(test_give_back), cmocka_unit_test(test_rules_come_and_go),
		cmocka_unit_test(test_request),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
