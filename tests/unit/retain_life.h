/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For test_retain*.c: the life of a store beside clocks that step, and hosts that boot. The oracle
 * keeps for each window when it was written, in time that the host had been up, and what realtime
 * said. It knows nothing of anchors or files.
 */
#ifndef TESTS_UNIT_RETAIN_LIFE_H
#define TESTS_UNIT_RETAIN_LIFE_H

#include "store/writer.h"
#include "unit/store_model.h"

#include "store/read/store_int.h"

#include <stdarg.h>

#define SECOND 1000000000ll
#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)
#define YEAR (365 * DAY)
#define T0 1700000000000000000ll
#define N_MAX 8640 /* windows of ten seconds: a day */

/* What the store asks the kernel for which boot this is, answered here. */
static unsigned int boot;

int open(const char *path, int flags, ...)
{
	char text[40];
	va_list ap;
	va_start(ap, flags);
	int mode = flags & O_CREAT ? va_arg(ap, int) : 0, pipes[2];
	va_end(ap);
	if (strcmp(path, "/proc/sys/kernel/random/boot_id"))
		return openat(AT_FDCWD, path, flags, mode);
	int n = snprintf(text, sizeof(text), "%08x-2222-3333-4444-555555555555", boot);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(write(pipes[1], text, (size_t)n), n);
	close(pipes[1]);
	return pipes[0];
}

struct written {
	int64_t real_ns; /* t0 */
	int64_t up_ns;	 /* of all boots, at its end */
	uint64_t samples;
};

struct life {
	char dir[64];
	struct store_options o;
	struct store_writer *w;
	struct model m; /* its random numbers alone */
	struct written v[N_MAX];
	size_t n;
	int64_t real_ns, up_ns, boot_ns; /* true time; up in all; up in this boot */
	int64_t wrong_ns;		 /* of the clock */
};

static inline void life_open(struct life *l)
{
	struct err err = { 0 };
	if (store_writer_open_with(&l->w, l->dir, &model_meta, &l->o, &err))
		fail_msg("%s", err.text);
}

static inline void life_begin(struct life *l, uint64_t seed)
{
	boot = 1;
	*l = (struct life){
		.m.random = seed, .real_ns = T0, .boot_ns = 20 * SECOND, .up_ns = 20 * SECOND
	};
	store_options_default(&l->o);
	l->o.reserve_bytes = 1;
	l->o.max_bytes = 1ull << 40;
	temp_dir(l->dir);
	life_open(l);
}

static inline void life_end(struct life *l)
{
	store_writer_close(l->w);
	remove_tree(l->dir);
}

/* The host is off for a day, and its clock is right again. */
static inline void life_reboot(struct life *l)
{
	store_writer_close(l->w);
	boot++;
	l->real_ns += DAY;
	l->boot_ns = 30 * SECOND;
	l->up_ns += l->boot_ns;
	l->wrong_ns = 0;
	life_open(l);
}

static inline void life_window(struct life *l, int64_t pause_ns)
{
	uint64_t lost[2] = { 0 }, flagged[1] = { 0 }, samples = 1 + model_random(&l->m, 1000);
	struct store_cpu_totals cpu = { 0, samples, samples, lost, flagged };
	struct store_totals t = { &cpu, 1, 0, 0, 0 };
	struct err err = { 0 };
	uint32_t set, stack, event;
	char labels[32], frames[64];
	snprintf(labels, sizeof(labels), "comm=c%u\n", model_random(&l->m, 4));
	snprintf(frames, sizeof(frames), "main (/bin/x) 0 0\nf%u (/bin/x) 0 0\n",
		 model_random(&l->m, 9));
	l->real_ns += pause_ns;
	l->boot_ns += pause_ns + 10 * SECOND;
	l->up_ns += pause_ns + 10 * SECOND;
	l->v[l->n++] = (struct written){ l->real_ns + l->wrong_ns, l->up_ns, samples };
	assert_int_equal(store_add_event(l->w, &model_events[0], &event), 0);
	assert_int_equal(model_put_set(l->w, labels, &set), 0);
	assert_int_equal(model_put_stack(l->w, frames, &stack), 0);
	assert_int_equal(
		store_add_row(l->w, set, stack, event, samples, samples * model_events[0].period),
		0);
	int64_t t0 = l->real_ns + l->wrong_ns;
	if (store_commit_window(l->w, t0, t0 + 10 * SECOND, l->boot_ns, &t, &err))
		fail_msg("window %zu: %s", l->n, err.text);
	assert_int_equal(store_writer_state(l->w)->parents_failed, 0);
	l->real_ns += 10 * SECOND;
}

/* Wrong by years or an hour, right again, or as it was. */
static inline void life_step(struct life *l)
{
	static const int64_t steps[] = { 10 * YEAR, -10 * YEAR, HOUR, -HOUR, 8 * DAY, 0, 0, 0 };
	l->wrong_ns = steps[model_random(&l->m, sizeof(steps) / sizeof(steps[0]))];
}

/* ---- what must be there ---- */

static inline int add_samples(void *ctx, const struct store_row *r)
{
	*(uint64_t *)ctx += r->samples;
	return 0;
}

/* All that was ever written, over the fewest blocks, once. */
static inline void check_sum(const struct life *l, struct store *s)
{
	struct store_cover c;
	struct err err = { 0 };
	uint64_t want = 0, samples = 0, windows = 0;
	for (size_t i = 0; i < l->n; i++)
		want += l->v[i].samples;
	assert_int_equal(store_cover(s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err), 0);
	for (size_t i = 0; i < c.n; i++) {
		windows += c.blocks[i]->n_windows;
		assert_int_equal(store_block_folded(s, c.blocks[i], add_samples, &samples, &err),
				 0);
	}
	store_cover_free(&c);
	assert_int_equal(windows, l->n);
	assert_int_equal(samples, want);
}

/* Which windows the blocks of a level hold, each once: by the order of writing, and by the slot. */
static inline size_t find_held(const struct life *l, struct store *s, uint8_t level, bool *held)
{
	size_t n = 0;
	memset(held, 0, l->n * sizeof(*held));
	for (size_t g = 0; g < s->n_segments; g++) {
		struct err err = { 0 };
		if (s->segments[g].m.level != level)
			continue;
		assert_int_equal(segment_load(s, &s->segments[g], &err), 0);
		for (size_t k = 0; k < s->segments[g].n_refs; k++) {
			const struct store_block *b = &s->segments[g].refs[k].b;
			for (size_t i = b->window_lo; i < b->window_hi; i++) {
				if (slot_of(level, l->v[i].real_ns) != slot_of(level, b->t0_ns))
					continue;
				assert_false(held[i]);
				held[i] = true;
				n++;
			}
		}
	}
	return n;
}

static inline struct store *life_look(struct life *l)
{
	struct store *s;
	struct err err = { 0 };
	if (store_open(&s, l->dir, &err))
		fail_msg("%s", err.text);
	return s;
}

#endif
