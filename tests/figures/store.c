/* SPDX-License-Identifier: Apache-2.0 */
/* The store that questions are asked of, its size, and two steps of writing it. */
#include "collect/instants.h"
#include "figures/figures.h"
#include "store/writer.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define T0 1777629600000000000ll /* 2026-05-01T10:00:00Z: an hour begins */
#define WINDOW 10000000000ll
#define WINDOWS 380 /* an hour, its parents, and some windows more */
#define FRAMES 900
#define STACKS 1500
#define ROWS 300
#define PERIOD 10101010ull

enum { CPU, OFF, RUNQ, OFF_LENGTHS, RUNQ_LENGTHS, EVENTS };
#define LENGTHS 24 /* of waits, as their lengths are recorded */

static struct store_writer *w;
static struct err err;
static uint32_t stacks[STACKS], lengths[LENGTHS], event[EVENTS];

static void check(int rc, const char *what)
{
	if (rc && err.text[0])
		fprintf(stderr, "figures: %s\n", err.text);
	figures_check(rc, what);
}

static uint32_t string(const char *s)
{
	uint32_t id;
	check(store_add_string(w, s, strlen(s), &id), "string");
	return id;
}

/* Stacks that share their beginnings. */
static void make_stacks(void)
{
	static uint32_t frames[FRAMES];
	static const struct store_event events[EVENTS] = {
		{ "cpu-clock", "nanoseconds", PERIOD, PERIOD },
		{ "off-cpu", "nanoseconds", 1, 1 },
		{ "runq", "nanoseconds", 1, 1 },
		{ "off-cpu.lengths", "nanoseconds", 0, 0 },
		{ "runq.lengths", "nanoseconds", 0, 0 },
	};
	for (uint32_t i = 0; i < FRAMES; i++) {
		char name[80];
		snprintf(name, sizeof(name), "server::part_%u::function_%u(std::string const&)",
			 i / 30, i);
		struct store_frame f = { .kind = FRAME_USER,
					 .function = string(name),
					 .module = string(i % 5 ? "/usr/bin/server"
								: "/usr/lib/libc.so.6") };
		check(store_add_frame(w, &f, &frames[i]), "frame");
	}
	for (uint32_t i = 0; i < STACKS; i++) {
		uint32_t at = i ? stacks[figures_draw(i)] : 0;
		for (uint32_t k = 3 + figures_draw(3); k--;)
			check(store_add_stack(w, at, frames[figures_draw(FRAMES)], &at), "stack");
		stacks[i] = at;
	}
	for (uint32_t i = 0; i < LENGTHS; i++) {
		struct store_frame f = { .kind = FRAME_KERNEL,
					 .module = string("[kernel]"),
					 .offset = 1000ull << i };
		uint32_t id;
		check(store_add_frame(w, &f, &id), "frame");
		check(store_add_stack(w, 0, id, &lengths[i]), "stack");
	}
	for (size_t i = 0; i < EVENTS; i++)
		check(store_add_event(w, &events[i], &event[i]), "event");
}

static void open_store(const char *dir, bool windows_only)
{
	static const char *const lost[] = { "lost" }, *const flagged[] = { "flag" };
	const struct store_meta meta = { .host = "figures",
					 .os = "Linux",
					 .what = "generated",
					 .lost_names = lost,
					 .n_lost = 1,
					 .flagged_names = flagged,
					 .n_flagged = 1,
					 .created_ns = T0 };
	struct store_options o;
	store_options_default(&o);
	o.max_bytes = 1 << 30;
	o.reserve_bytes = 1;
	o.windows_only = windows_only;
	check(store_writer_open_with(&w, dir, &meta, &o, &err), "open");
	make_stacks();
}

static struct label text(const char *key, const char *s)
{
	return (struct label){ .key = key,
			       .key_len = (uint32_t)strlen(key),
			       .str = s,
			       .str_len = (uint32_t)strlen(s),
			       .type = LABEL_STRING };
}

/* Return row i of window n: every eighth is a wait, or the length of one. */
static struct store_row make_row(uint32_t n, uint32_t i)
{
	char tenant[16], query[24];
	const uint32_t kind = i % 8 < 4 ? OFF + i % 8 : CPU;
	struct store_row r = { .event = event[kind], .samples = 1 + figures_draw(4) };
	snprintf(tenant, sizeof(tenant), "t%u", figures_draw(12) * figures_draw(3));
	snprintf(query, sizeof(query), "q%08x", figures_draw(60) + n / 6 * 60);
	struct label v[] = { text("comm", "server"), text("query_id", query),
			     text("tenant", tenant) };
	check(store_add_set(w, v, labels_normalize(v, 3), &r.set), "set");
	r.stack = stacks[figures_draw(STACKS) * (uint64_t)figures_draw(STACKS) / STACKS];
	if (kind >= OFF_LENGTHS)
		r.stack = lengths[figures_draw(LENGTHS)];
	else if (kind != CPU)
		r.samples *= 1000000;
	r.value = kind == CPU ? r.samples * PERIOD : r.samples;
	return r;
}

static uint64_t add_rows(uint32_t n, uint32_t rows)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < rows; i++) {
		const struct store_row r = make_row(n, i);
		check(store_add_row(w, r.set, r.stack, r.event, r.samples, r.value), "row");
		sum += r.event == event[CPU] ? r.samples : 0;
	}
	return sum;
}

static void commit(uint32_t n, uint64_t samples)
{
	uint64_t lost[1] = { 0 }, flagged[1] = { 0 };
	struct store_cpu_totals cpu = {
		.fired = samples, .stored = samples, .lost = lost, .flagged = flagged
	};
	const struct store_totals t = { .cpu = &cpu, .n_cpus = 1 };
	const int64_t t0 = T0 + n * WINDOW;
	check(store_commit_window(w, t0, t0 + WINDOW, (n + 1) * WINDOW, &t, &err), "commit");
}

static uint64_t file_bytes, window_bytes;

static int add_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	if (type != FTW_F)
		return 0;
	file_bytes += (uint64_t)st->st_size;
	window_bytes += strncmp(path + ftw->base, "10s", 3) ? 0 : (uint64_t)st->st_size;
	return 0;
}

void figures_write(const char *dir)
{
	uint64_t samples = 0;
	open_store(dir, false);
	for (uint32_t n = 0; n < WINDOWS; n++) {
		const uint64_t sum = add_rows(n, ROWS);
		commit(n, sum);
		samples += sum;
	}
	store_writer_close(w);
	figures_check(nftw(dir, add_file, 8, FTW_PHYS), dir);
	figure("bytes", "store", file_bytes, "bytes",
	       "380 windows of 300 rows with their parents: all files of the store");
	figure("bytes", "window", window_bytes / WINDOWS, "bytes",
	       "of a window in them, with its part of the dictionaries");
	figure("bytes", "sample", 1000 * file_bytes / samples, "bytes of 1,000 CPU samples",
	       "of the whole store, parents included");
}

/* A half as the BPF programs leave it, with an instant for each sample. */
void figures_window(const char *store)
{
	enum { HALF_ROWS = 3000, INSTANTS = 4000 };
	static struct row taken[HALF_ROWS];
	static struct store_row rows[HALF_ROWS];
	static struct instant at[INSTANTS];
	struct instants s = { .on = true };
	char dir[4096];
	uint64_t lost;
	snprintf(dir, sizeof(dir), "%s.window", store);
	open_store(dir, true);
	for (uint32_t i = 0; i < HALF_ROWS; i++)
		rows[i] = make_row(0, i);
	for (uint32_t i = 0; i < INSTANTS; i++)
		at[i] = (struct instant){ T0 + i * 2000000ull, figures_draw(HALF_ROWS), 0 };
	const struct sampler_half h = {
		.rows = taken, .n_rows = HALF_ROWS, .instants = at, .n_instants = INSTANTS
	};
	figures_begin();
	const uint32_t first = instants_add_half(&s, &h, &lost);
	for (uint32_t i = 0; i < HALF_ROWS; i++) {
		const struct store_row *r = &rows[i];
		check(store_add_row(w, r->set, r->stack, r->event, r->samples, r->value), "row");
		instants_stored(&s, first + i, r->set, r->stack, r->event);
	}
	figures_end("window", "3,000 rows and 4,000 instants of a half, into the open window");
	instants_fini(&s);
	store_writer_close(w);
}

void figures_commit(const char *store)
{
	char dir[4096];
	snprintf(dir, sizeof(dir), "%s.commit", store);
	open_store(dir, true);
	for (uint32_t n = 0; n < 3; n++)
		commit(n, add_rows(n, ROWS));
	const uint64_t samples = add_rows(3, 3000);
	figures_begin();
	commit(3, samples);
	figures_end("commit", "3,000 rows: encode and write a window");
	store_writer_close(w);
}
