/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code that a walk of the tests goes through: the unwind tables of one process's mappings, and
 * random addresses in them.
 */
#ifndef TESTS_WALKED_CODE_H
#define TESTS_WALKED_CODE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unwind/pool.h"
#include "unwind/walk.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RANGES_MAX 64

static uint32_t *shards[UNWIND_SHARDS];
static struct unwind_range ranges[RANGES_MAX];
static struct unwind_tables tables = { .ranges = ranges, .shards = shards };
static struct unwind_pool *pool;

static int add_shard(void *ctx, unsigned shard, uint32_t **ret_rows)
{
	(void)ctx;
	shards[shard] = calloc(1u << UNWIND_SHARD_BITS, sizeof(uint32_t));
	*ret_rows = shards[shard];
	return 0;
}

static void add_mapping(uint64_t start, uint64_t end, uint64_t pgoff, const char *path)
{
	struct unwind_range r = { .start = start, .end = end };
	struct unwind_code code;
	struct unwind_table *t = NULL;
	struct elf_image img;
	uint64_t bias;
	int fd = path[0] == '/' ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	assert_true(tables.n_ranges < RANGES_MAX);
	if (fd >= 0 && !elf_image_open(&img, fd, path, NULL)) {
		if (!unwind_compile(&t, &img, path, NULL) &&
		    !elf_image_bias(&img, start, pgoff, &bias)) {
			assert_int_equal(unwind_pool_add(pool, t, 0, &code), 0);
			r.bias = bias + (code.first_page << UNWIND_PAGE_BITS);
			r.page = code.page;
			r.n_pages = code.n_pages;
			unwind_code_fini(&code);
		}
		unwind_table_free(t);
		elf_image_fini(&img);
	}
	if (fd >= 0)
		close(fd);
	ranges[tables.n_ranges++] = r;
}

/* Tell of a mapping that has its place among the ranges; without pages it has no rules. */
typedef void on_mapping(const struct unwind_range *r, uint64_t pgoff, const char *path);

/* Tables of the executable mappings that are left in a file like /proc/PID/maps. */
static void make_tables(FILE *maps, on_mapping *tell_of)
{
	char line[512], perms[8], file[300];
	struct unwind_pool_config cfg = { .pages = calloc(UNWIND_PAGES, sizeof(*cfg.pages)),
					  .rules = calloc(UNWIND_RULES, sizeof(*cfg.rules)),
					  .rows_bytes_max = 16u << 20,
					  .add_shard = add_shard };
	uint64_t start, end, pgoff;
	assert_int_equal(unwind_pool_new(&pool, &cfg), 0);
	tables.pages = cfg.pages;
	tables.rules = cfg.rules;
	tables.n_ranges = 0;
	while (fgets(line, sizeof(line), maps)) {
		file[0] = 0;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %299s", &start,
			   &end, perms, &pgoff, file) < 4 ||
		    perms[2] != 'x')
			continue;
		add_mapping(start, end, pgoff, file);
		if (tell_of)
			tell_of(&ranges[tables.n_ranges - 1], pgoff, file);
	}
}

static void drop_tables(void)
{
	unwind_pool_free(pool);
	free((void *)(uintptr_t)tables.pages);
	free((void *)(uintptr_t)tables.rules);
	for (unsigned i = 0; i < UNWIND_SHARDS; i++) {
		free(shards[i]);
		shards[i] = NULL;
	}
}

static uint64_t seed = 20;

static uint64_t draw(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return seed >> 11 ^ seed << 40;
}

static uint64_t draw_code(void)
{
	const struct unwind_range *r = &ranges[draw() % tables.n_ranges];
	return r->start + draw() % (r->end - r->start);
}

#endif
