/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_store DIR: 24 hours of windows with some 60,000 distinct stack nodes, tenants, containers
 * and query ids, with parents; what is in it on stdout. serve_store DIR write: an hour of those,
 * then a window a second until SIGTERM; how many there are. serve_store DIR high: the 24 hours that
 * end now, each window with 2,800 query ids that are in no other, as a daemon would have written
 * them. It can go on there. Says what memory it used, 12 times.
 */
#include "collect/collector.h"
#include "store/store.h"
#include "store/writer.h"
#include "util/counters.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define T0 1777629600000000000ll
#define WINDOW 10000000000ll
#define DAY 8640
#define STACKS 12000
#define ROWS 3000
#define FRAMES 4000
#define NEW_IDS 2800 /* of a window of high cardinality */

static struct store_writer *w;
static struct err err;
static volatile sig_atomic_t ended;
static uint32_t stacks[STACKS], event;
static int64_t begin_ns = T0;
static bool high;

static void check(int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "serve_store: %s: %s (%s)\n", what, err.text, strerror(-rc));
	exit(1);
}

static uint32_t draw(uint32_t below)
{
	static uint64_t state = 7;
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(state >> 33) % below;
}

static uint32_t string(const char *s)
{
	uint32_t id;
	check(store_add_string(w, s, strlen(s), &id), "string");
	return id;
}

/* Stacks that share their beginnings, 20 frames on average. */
static void make_stacks(void)
{
	static uint32_t frames[FRAMES];
	char name[120];
	for (uint32_t i = 0; i < FRAMES; i++) {
		snprintf(name, sizeof(name),
			 "server::module_%u::function_with_a_name_%u(std::string const&)", i / 40,
			 i);
		struct store_frame f = { .kind = FRAME_USER,
					 .function = string(name),
					 .module = string(i % 5 ? "/usr/bin/server"
								: "/usr/lib/libc.so.6") };
		check(store_add_frame(w, &f, &frames[i]), "frame");
	}
	for (uint32_t i = 0; i < STACKS; i++) {
		uint32_t at = 0, parent;
		/* From somewhere in an earlier one. */
		if (i)
			at = stacks[draw(i)];
		for (uint32_t k = 4 + draw(3); k--;) {
			check(store_add_stack(w, at, frames[draw(FRAMES)], &parent), "stack");
			at = parent;
		}
		stacks[i] = at;
	}
	struct store_event e = { .name = "cpu-clock",
				 .unit = "nanoseconds",
				 .ns_per_sample = 52631578,
				 .period = 52631578 };
	check(store_add_event(w, &e, &event), "event");
}

static struct label text(const char *key, const char *s)
{
	return (struct label){ .key = key,
			       .key_len = (uint32_t)strlen(key),
			       .str = s,
			       .str_len = (uint32_t)strlen(s),
			       .type = LABEL_STRING };
}

static void add_window(uint64_t i)
{
	uint64_t lost[256] = { 0 }, flagged[256] = { 0 }, sum = 0;
	for (uint32_t r = 0; r < ROWS; r++) {
		char tenant[16], container[24], query[24];
		uint32_t set, k = draw(40) * draw(5);
		snprintf(tenant, sizeof(tenant), "t%u", k);
		snprintf(container, sizeof(container), "container-%u", draw(64));
		snprintf(query, sizeof(query), "q%08x",
			 high ? draw(NEW_IDS) + (uint32_t)i * NEW_IDS
			      : draw(400) + (uint32_t)(i / 6) * 400);
		struct label v[] = { text("comm", "server"), text("container", container),
				     text("query_id", query), text("tenant", tenant) };
		check(store_add_set(w, v, labels_normalize(v, 4), &set), "set");
		/* Some stacks are much more frequent than others. */
		uint32_t s = draw(STACKS) * (uint64_t)draw(STACKS) / STACKS;
		uint32_t samples = 1 + draw(3);
		check(store_add_row(w, set, stacks[s], event, samples, samples * 52631578ull),
		      "row");
		sum += samples;
	}
	struct store_cpu_totals cpu = {
		.cpu = 0, .fired = sum, .stored = sum, .lost = lost, .flagged = flagged
	};
	struct store_totals t = { .cpu = &cpu, .n_cpus = 1 };
	int64_t t0 = begin_ns + (int64_t)i * WINDOW;
	check(store_commit_window(w, t0, t0 + WINDOW, t0 - begin_ns + WINDOW, &t, &err), "commit");
}

static void on_term(int sig)
{
	(void)sig;
	ended = 1;
}

static double resident_mib(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");
	if (f && fscanf(f, "%*u %lu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576;
}

/* What the daemon counts, so that one can go on where this ends. */
static void be_high(struct store_meta *m)
{
	high = true;
	begin_ns = ((int64_t)time(NULL) / 10 - DAY) * WINDOW;
	m->lost_names = counters_lost_names;
	m->n_lost = counters_n_lost;
	m->flagged_names = counters_flagged_names;
	m->n_flagged = counters_n_flagged;
	m->created_ns = begin_ns;
}

int main(int argc, char **argv)
{
	static const char *const lost[] = { "lost" }, *const flagged[] = { "flag" };
	struct store_meta m = { .host = "bench",
				.os = "Linux",
				.what = "generated",
				.lost_names = lost,
				.n_lost = 1,
				.flagged_names = flagged,
				.n_flagged = 1,
				.created_ns = T0 };
	struct store_options o;
	bool write = argc > 2 && !strcmp(argv[2], "write");
	uint64_t n = 0, first = write ? 360 : DAY;
	if (argc < 2)
		return 2;
	if (argc > 2 && !strcmp(argv[2], "high"))
		be_high(&m);
	signal(SIGTERM, on_term);
	store_options_default(&o);
	o.max_bytes = 8ull << 30;
	check(store_writer_open_with(&w, argv[1], &m, &o, &err), "open");
	make_stacks();
	while (n < first) {
		add_window(n++);
		if (high && n % (DAY / 12) == 0)
			printf("%3.0f h: %.1f MiB resident\n", (double)n * 24 / DAY,
			       resident_mib());
	}
	if (write) {
		puts("begun");
		fflush(stdout);
	}
	for (; write && !ended; usleep(1000000))
		add_window(n++);
	if (!write)
		check(store_compact(w, &err), "compact");
	printf("%llu windows of %d rows\n", (unsigned long long)n, ROWS);
	store_writer_close(w);
	return 0;
}
