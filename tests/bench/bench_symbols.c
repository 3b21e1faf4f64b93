/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What names cost: a million distinct addresses of the binaries of this machine, through the
 * sandbox as the recorder asks, and the memory that 2,000 known binaries hold.
 *   bench_symbols DIRECTORY...
 */
#include "figure.h"

#include "sandbox/sandbox.h"
#include "symbols/symbols.h"

#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define BINARIES 2000
#define ADDRESSES 1000000

struct known {
	struct binary *b;
	uint64_t size;
};

static struct symbolizer *symbolizer;
static struct known known[BINARIES];
static size_t n_known;
static double open_s;

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double rss_mib(void)
{
	unsigned long size, rss = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (f && fscanf(f, "%lu %lu", &size, &rss) != 2)
		rss = 0;
	if (f)
		fclose(f);
	return (double)rss * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)ftw;
	if (type != FTW_F || st->st_size < 4096 || n_known == BINARIES)
		return n_known == BINARIES;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	double begin = now_s();
	if (fd >= 0 && !binary_open_in(&known[n_known].b, symbolizer, fd, path, NULL)) {
		known[n_known++].size = (uint64_t)st->st_size;
		open_s += now_s() - begin;
	}
	if (fd >= 0)
		close(fd);
	return 0;
}

static uint64_t next_random(void)
{
	static uint64_t x = 88172645463325252ull;
	x ^= x << 13;
	x ^= x >> 7;
	return x ^= x << 17;
}

int main(int argc, char **argv)
{
	struct err err;
	struct sandbox *sandbox;
	struct rlimit files = { 8192, 8192 };
	struct symbol sym;
	struct symbolizer_stats st;
	size_t named = 0, with_names = 0;
	setrlimit(RLIMIT_NOFILE, &files);
	struct sandbox_config cfg = {
		.ops = symbols_ops, .n_ops = SYMBOLS_OPS, .memory = SYMBOLS_MEMORY, .serves = 64
	};
	if (sandbox_new(&sandbox, &cfg, &err))
		return 1;
	struct symbolizer_config sc = { .sandbox = sandbox, .wait = true };
	if (symbolizer_new(&symbolizer, &sc))
		return 1;
	double base = rss_mib();
	for (int i = 1; i < argc && n_known < BINARIES; i++)
		nftw(argv[i], visit, 64, FTW_PHYS);
	printf("open      %zu binaries known in %.2f s; resident %.1f MiB (%.1f before)\n", n_known,
	       open_s, rss_mib(), base);
	if (!n_known)
		return 1;
	double begin = now_s();
	for (size_t i = 0; i < n_known; i++)
		with_names += binary_load(known[i].b, NULL) == 0;
	symbolizer_stats(symbolizer, &st);
	double tables_s = now_s() - begin;
	figure("rules/tables", "ascribe", &tables_s, 1, 1);
	printf("tables    of all of them in %.2f s; %zu readable, %.1f MiB kept; resident %.1f MiB\n",
	       tables_s, with_names, (double)st.bytes / (1 << 20), rss_mib());
	/* Rows of a window stand by process and stack: the addresses of one file come together. */
	size_t asked = 0;
	begin = now_s();
	for (size_t i = 0; i < n_known && named < ADDRESSES; i++) {
		for (size_t k = 0, n = known[i].size / 8; k < n && named < ADDRESSES;
		     k++, asked++) {
			/* One in each 8 bytes: all distinct. */
			uint64_t at = k * 8 + next_random() % 8, bias;
			if (!binary_bias(known[i].b, at, at, &bias))
				named += !binary_find(known[i].b, at - bias, &sym);
		}
	}
	double took = now_s() - begin;
	symbolizer_stats(symbolizer, &st);
	printf("addresses %zu named, of %zu asked, in %.2f s; %" PRIu64 " tables read again\n",
	       named, asked, took, st.reread);
	double a_million = took * 1e6 / (double)(named ? named : 1), mib = rss_mib(),
	       opening = open_s / (double)n_known;
	figure("rules/million", "ascribe", &a_million, 1, 1);
	figure("rules/opening", "ascribe", &opening, 1, 1e-3);
	figure("part/binaries", "ascribe", &mib, 1, 1);
	struct sandbox_stats sb;
	sandbox_stats(sandbox, &sb);
	printf("sandbox   %lu requests, %lu workers, %lu late, %lu died, %.2f s of CPU; %lu files refused\n",
	       sb.calls, sb.spawned, sb.late, sb.died, (double)sb.cpu_ns / 1e9, st.refused);
	for (size_t i = 0; i < n_known; i++)
		binary_free(known[i].b);
	symbolizer_free(symbolizer);
	sandbox_free(sandbox);
	return 0;
}
