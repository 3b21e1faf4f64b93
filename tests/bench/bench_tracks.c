/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tracks cost: `make bench-tracks`. Ten minutes of two busy CPUs at 99 Hz, as the recorder
 * takes and writes them, with instants and without, in turn. Then a freeze of them, and a heat map.
 */
#include "figure.h"

#include "collect/instants.h"
#include "query/heat.h"
#include "store/ops/copy.h"
#include "store/writer.h"
#include "util/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOWS 60
#define CPUS 2
#define ROWS 300    /* of a CPU in a window */
#define SAMPLES 990 /* likewise */
#define RUNS 7
#define T0 1700000000000000000ll
#define WINDOW_NS 10000000000ll

static uint64_t random_state = 1;

static uint32_t draw(uint32_t below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(random_state >> 33) % below;
}

static void check(int rc, const struct err *err)
{
	if (!rc)
		return;
	fprintf(stderr, "bench_tracks: %s\n", err->text);
	exit(1);
}

/* The stacks and label sets that samples have: some often, most seldom. */
static void make_rows(struct store_writer *w, struct store_row *rows)
{
	const struct store_event cpu = { "cpu-clock", "nanoseconds", 10101010, 10101010 };
	char text[64];
	for (uint32_t i = 0; i < ROWS; i++) {
		struct store_frame f = { 0 };
		struct label label = { "tenant", text, 0, 6, 0, LABEL_STRING };
		uint32_t frame, stack = 0;
		for (uint32_t depth = 0; depth < 12; depth++) {
			snprintf(text, sizeof(text), "function_%u_%u", depth, i >> (12 - depth));
			store_add_string(w, text, strlen(text), &f.function);
			store_add_frame(w, &f, &frame);
			store_add_stack(w, stack, frame, &stack);
		}
		snprintf(text, sizeof(text), "t%u", i % 20);
		label.str_len = (uint32_t)strlen(text);
		store_add_set(w, &label, 1, &rows[i].set);
		rows[i].stack = stack;
		store_add_event(w, &cpu, &rows[i].event);
	}
}

/* One window, by way of the recorder's numbers of rows. */
static void write_window(struct store_writer *w, struct instants *s, unsigned n)
{
	static struct row taken[ROWS];
	static struct instant at[SAMPLES];
	struct store_row rows[ROWS];
	struct err err = { 0 };
	const int64_t begin = T0 + n * WINDOW_NS;
	uint64_t lost;
	make_rows(w, rows);
	for (unsigned cpu = 0; cpu < CPUS; cpu++) {
		struct sampler_half h = { .cpu = cpu, .rows = taken, .n_rows = ROWS };
		uint64_t samples[ROWS] = { 0 };
		for (uint32_t i = 0; i < SAMPLES; i++) {
			uint32_t row = draw(1 + draw(ROWS));
			at[i] = (struct instant){ (uint64_t)begin + i * 10101010ull + draw(5000000),
						  row, 0 };
			samples[row]++;
		}
		h.instants = at;
		h.n_instants = s->on ? SAMPLES : 0;
		uint32_t first = instants_add_half(s, &h, &lost);
		for (uint32_t i = 0; i < ROWS; i++) {
			if (!samples[i])
				continue;
			store_add_row(w, rows[i].set, rows[i].stack, rows[i].event, samples[i],
				      samples[i] * 10101010);
			if (first != INSTANTS_NONE)
				instants_stored(s, first + i, rows[i].set, rows[i].stack,
						rows[i].event);
		}
	}
	struct store_totals none = { 0 };
	struct store_instants given = { s->rows, s->n_rows, s->v, s->n, 0 };
	if (s->on)
		store_set_instants(w, &given);
	check(store_commit_window(w, begin, begin + WINDOW_NS, (n + 1) * WINDOW_NS, &none, &err),
	      &err);
	instants_clear(s);
}

/* CPU ns of a window. */
static double record(const char *dir, bool tracks, uint64_t *ret_bytes)
{
	const struct store_meta meta = { .host = "h", .os = "o", .what = "w" };
	struct store_options o;
	struct store_writer *w;
	struct instants s = { .on = tracks };
	struct err err = { 0 };
	store_options_default(&o);
	o.windows_only = true;
	o.tracks_ns = tracks ? INT64_MAX : 0;
	check(store_writer_open_with(&w, dir, &meta, &o, &err), &err);
	uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	for (unsigned n = 0; n < WINDOWS; n++)
		write_window(w, &s, n);
	uint64_t used = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
	*ret_bytes = store_writer_state(w)->tracks_bytes;
	store_writer_close(w);
	instants_fini(&s);
	return (double)used / WINDOWS;
}

static double ms_since(uint64_t begin)
{
	return (double)(clock_ns(CLOCK_MONOTONIC) - begin) / 1e6;
}

int main(int argc, char **argv)
{
	double with[RUNS], without[RUNS], more[RUNS], frozen[RUNS], drawn[RUNS], size;
	char dir[300], to[300];
	uint64_t bytes = 0, none;
	struct err err = { 0 };
	if (argc != 2)
		return 2;
	for (int i = 0; i < RUNS; i++) {
		struct snapshot_result r;
		struct query_heat *h;
		struct store *s;
		snprintf(dir, sizeof(dir), "%s/without%d", argv[1], i);
		without[i] = record(dir, false, &none);
		snprintf(dir, sizeof(dir), "%s/with%d", argv[1], i);
		with[i] = record(dir, true, &bytes);
		snprintf(to, sizeof(to), "%s/frozen%d", argv[1], i);
		uint64_t begin = clock_ns(CLOCK_MONOTONIC);
		check(store_freeze(dir, to, T0, &r, &err), &err);
		frozen[i] = ms_since(begin);
		const struct query_heat_spec spec = {
			.range = { .where = "{tenant=\"t3\"}", .from_ns = T0, .to_ns = INT64_MAX },
			.step_ns = 50000000
		};
		begin = clock_ns(CLOCK_MONOTONIC);
		check(store_open(&s, to, &err), &err);
		check(query_heat(&h, s, &spec, &err), &err);
		drawn[i] = ms_since(begin);
		query_heat_free(h);
		store_close(s);
	}
	for (int i = 0; i < RUNS; i++)
		more[i] = with[i] - without[i];
	/* Of the CPU time in a window, in percent */
	figure("track/cpu", "ascribe", more, RUNS, (double)WINDOW_NS / 100);
	figure("track/freeze", "ascribe", frozen, RUNS, 1);
	figure("track/heat", "ascribe", drawn, RUNS, 1);
	size = (double)bytes;
	figure("part/tracks", "ascribe", &size, 1, 1 << 20);
	return 0;
}
