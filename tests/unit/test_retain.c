/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retention beside clocks that step, and hosts that boot. The oracle keeps for each window when it
 * was written, in time that the host had been up, and what realtime said. It knows nothing of
 * anchors or files.
 */
#include "part.h"
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

static void life_open(struct life *l)
{
	struct err err = { 0 };
	if (store_writer_open_with(&l->w, l->dir, &model_meta, &l->o, &err))
		fail_msg("%s", err.text);
}

static void life_begin(struct life *l, uint64_t seed)
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

static void life_end(struct life *l)
{
	store_writer_close(l->w);
	remove_tree(l->dir);
}

/* The host is off for a day, and its clock is right again. */
static void life_reboot(struct life *l)
{
	store_writer_close(l->w);
	boot++;
	l->real_ns += DAY;
	l->boot_ns = 30 * SECOND;
	l->up_ns += l->boot_ns;
	l->wrong_ns = 0;
	life_open(l);
}

static void life_window(struct life *l, int64_t pause_ns)
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
static void life_step(struct life *l)
{
	static const int64_t steps[] = { 10 * YEAR, -10 * YEAR, HOUR, -HOUR, 8 * DAY, 0, 0, 0 };
	l->wrong_ns = steps[model_random(&l->m, sizeof(steps) / sizeof(steps[0]))];
}

/* ---- what must be there ---- */

static int add_samples(void *ctx, const struct store_row *r)
{
	*(uint64_t *)ctx += r->samples;
	return 0;
}

/* All that was ever written, over the fewest blocks, once. */
static void check_sum(const struct life *l, struct store *s)
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
static size_t find_held(const struct life *l, struct store *s, uint8_t level, bool *held)
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

/*
 * Younger than what its level keeps: there, or in a lower level and not summed up yet. Older by
 * more than its file: gone. there: in any level up to this one.
 */
static void check_level(const struct life *l, struct store *s, uint8_t level, bool *there)
{
	static bool held[N_MAX];
	int64_t keep = l->o.keep_ns[level];
	size_t n = find_held(l, s, level, held), n_gone = 0;
	for (size_t i = 0; i < l->n; i++) {
		int64_t age = l->up_ns - l->v[i].up_ns;
		there[i] |= held[i];
		if (!there[i] && (!keep || age < keep))
			fail_msg("level %u: window %zu of age %.1f h is gone", level, i,
				 (double)age / HOUR);
		if (held[i] && keep && age > keep + 2 * levels[level].file_ns)
			fail_msg("level %u: window %zu of age %.1f h is there", level, i,
				 (double)age / HOUR);
		n_gone += !there[i];
	}
	assert_true(n > 0);
	assert_true(n_gone > 0 || !keep || keep + 2 * levels[level].file_ns > l->up_ns);
}

static void check_windows(const struct life *l, struct store *s)
{
	struct err err = { 0 };
	assert_int_equal(store_n_windows(s), l->n);
	uint64_t real = 0, want = 0;
	for (size_t i = 0; i < l->n; i++) {
		const struct store_window *w = store_window(s, i, &err);
		assert_non_null(w);
		real += (uint64_t)w->t0_ns * w->totals.cpu[0].fired;
		want += (uint64_t)l->v[i].real_ns * l->v[i].samples;
	}
	assert_true(real == want);
}

static struct store *life_look(struct life *l)
{
	struct store *s;
	struct err err = { 0 };
	if (store_open(&s, l->dir, &err))
		fail_msg("%s", err.text);
	return s;
}

/*
 * A day of windows, a clock that steps some 250 times, 5 boots; and as much as a week is kept:
 * nothing is lost.
 */
static void day_of_steps(void **state)
{
	static struct life l;
	(void)state;
	life_begin(&l, 20);
	const size_t part = part_of("windows of a day of steps", 8);
	while (l.n < N_MAX / part) {
		uint32_t what = model_random(&l.m, (uint32_t)(8640 / part));
		if (what < 250)
			life_step(&l);
		else if (what < 255)
			life_reboot(&l);
		life_window(&l, 0);
	}
	struct store *s = life_look(&l);
	for (uint8_t level = 0; level < N_SEGMENT_LEVELS; level++)
		assert_int_equal(store_cut(s, level)->blocks, 0);
	check_windows(&l, s);
	check_sum(&l, s);
	store_close(s);
	life_end(&l);
}

/* One window with a wrong clock, after days of right ones, and another one. Then as before. */
static void one_glitch(void **state)
{
	static const int64_t wrong[] = { 10 * YEAR, 8 * DAY, -HOUR, -10 * YEAR };
	static struct life l;
	(void)state;
	for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
		life_begin(&l, k);
		for (size_t i = 0; i < 300; i++) {
			l.wrong_ns = i == 290 ? wrong[k] : 0;
			life_window(&l, 600 * SECOND);
		}
		struct store *s = life_look(&l);
		for (uint8_t level = 0; level < N_SEGMENT_LEVELS; level++)
			if (store_cut(s, level)->blocks)
				fail_msg("a clock wrong by %lld s: %" PRIu64
					 " blocks of level %u are cut",
					 (long long)(wrong[k] / SECOND),
					 store_cut(s, level)->blocks, level);
		check_windows(&l, s);
		check_sum(&l, s);
		store_close(s);
		life_end(&l);
	}
}

/*
 * 500 days in which each level reaches its age, but the last, which is kept: with and without steps
 * and boots.
 */
static void each_level(uint64_t seed, uint32_t steps, uint32_t boots)
{
	static const int64_t keep_days[STORE_N_LEVELS] = { 2, 5, 10, 20, 40, 80, 120, 200, 0 };
	static struct life l;
	const uint32_t part = (uint32_t)part_of("windows of 500 days", 2);
	life_begin(&l, seed);
	store_writer_close(l.w);
	for (int k = 0; k < STORE_N_LEVELS; k++)
		l.o.keep_ns[k] = keep_days[k] * DAY;
	life_open(&l);
	while (l.n < 1000 / part) {
		uint32_t what = model_random(&l.m, 1000 / part);
		if (what < steps)
			life_step(&l);
		else if (what < steps + boots)
			life_reboot(&l);
		life_window(&l, part * 12 * HOUR - 10 * SECOND);
	}
	struct store *s = life_look(&l);
	static bool there[N_MAX];
	memset(there, 0, sizeof(there));
	for (uint8_t level = 0; level < STORE_N_LEVELS; level++)
		check_level(&l, s, level, there);
	check_sum(&l, s);
	store_close(s);
	life_end(&l);
}

static void levels_of_a_right_clock(void **state)
{
	(void)state;
	each_level(31, 0, 0);
}

static void levels_of_a_wrong_clock(void **state)
{
	(void)state;
	each_level(32, 60, 20);
}

/* A cap on the size cuts what was written first, whatever its clock said. */
static void size_cap(void **state)
{
	static struct life l;
	(void)state;
	life_begin(&l, 40);
	for (size_t i = 0; i < 300; i++) {
		l.wrong_ns = i >= 290 ? -10 * YEAR : i < 10 ? 10 * YEAR : 0;
		if (i == 290) {
			store_writer_close(l.w);
			l.o.max_bytes = 100000;
			life_open(&l);
		}
		life_window(&l, 600 * SECOND);
	}
	struct store *s = life_look(&l);
	static bool held[N_MAX];
	size_t n = find_held(&l, s, 0, held);
	assert_true(n < 290 && store_cut(s, 0)->bytes_by_size > 0);
	for (size_t i = 0; i < 300; i++)
		assert_int_equal(held[i], i >= 300 - n);
	/* Ten years ahead: what it says of the rest would be wrong. */
	assert_true(store_cut(s, 0)->before_ns < T0 + YEAR);
	store_close(s);
	life_end(&l);
}

static uint64_t tree_bytes;

static int add_bytes(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)ftw;
	/* 256 KiB that are given up first */
	if (type == FTW_F && strcmp(strrchr(path, '/') + 1, "reserve"))
		tree_bytes += (uint64_t)st->st_size;
	return 0;
}

/* At every moment, whatever is being written. */
static void cap_at_every_moment(void **state)
{
	static struct life l;
	uint64_t most = 0;
	(void)state;
	life_begin(&l, 41);
	store_writer_close(l.w);
	l.o.max_bytes = 300000;
	life_open(&l);
	const size_t n = N_MAX / part_of("windows under a cap", 4);
	for (size_t i = 0; i < n; i++) {
		life_window(&l, 0);
		store_renew(l.w);
		store_renew_end(l.w);
		tree_bytes = 0;
		nftw(l.dir, add_bytes, 8, FTW_PHYS);
		most = tree_bytes > most ? tree_bytes : most;
	}
	struct store *s = life_look(&l);
	print_message("at most %" PRIu64 " of %" PRIu64 " bytes; %" PRIu64
		      " blocks of 10s were cut\n",
		      most, l.o.max_bytes, store_cut(s, 0)->blocks);
	assert_true(most <= l.o.max_bytes / 100 * 105);
	assert_true(store_cut(s, 0)->blocks > 0);
	store_close(s);
	life_end(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_glitch),
		cmocka_unit_test(day_of_steps),
		cmocka_unit_test(levels_of_a_right_clock),
		cmocka_unit_test(levels_of_a_wrong_clock),
		cmocka_unit_test(size_cap),
		cmocka_unit_test(cap_at_every_moment),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
