/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The accounting of windows against a count of each sample by itself. The sampler's own numbers are
 * made here: what the kernel counts, runs late or does not run cannot be chosen on a real host.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "collect/window.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CPUS 2
#define EVENTS 3

/* The place of each counter in the totals. */
#define LOST(id, help) LOST_##id,
#define FLAG(id, help)
enum {
#include "counters.def"
	N_LOST
};
#undef LOST
#undef FLAG
#define LOST(id, help)
#define FLAG(id, help) FLAG_##id,
enum {
#include "counters.def"
	N_FLAG
};
#undef LOST
#undef FLAG

/* What the sampler says, of each CPU. */
static struct sampler_fired says[CPUS];
static uint64_t bad_cpu;

unsigned sampler_n_cpus(const struct sampler *s)
{
	(void)s;
	return CPUS;
}

void sampler_fired(struct sampler *s, unsigned cpu, struct sampler_fired *ret)
{
	(void)s;
	*ret = says[cpu];
}

uint64_t sampler_bad_cpu(const struct sampler *s)
{
	(void)s;
	return bad_cpu;
}

void sandbox_stats(const struct sandbox *s, struct sandbox_stats *ret)
{
	(void)s;
	memset(ret, 0, sizeof(*ret));
}

static struct window *window(unsigned weight, bool waits_saved)
{
	const struct sampler_config cfg = { .weight = weight, .waits_saved = waits_saved };
	struct window *w;
	memset(says, 0, sizeof(says));
	bad_cpu = 0;
	assert_int_equal(window_new(&w, NULL, NULL, &cfg), 0);
	window_start(w, false);
	return w;
}

/* Samples of a CPU ran and were stored. */
static void store(struct window *w, unsigned cpu, uint64_t n)
{
	struct window_cpu *c = window_cpu(w, cpu);
	c->ran += n;
	c->stored += n;
	c->used = true;
	says[cpu].ran += n;
	says[cpu].fired += n;
}

static const struct store_cpu_totals *totals_of(const struct store_totals *t, uint32_t cpu)
{
	for (size_t i = 0; i < t->n_cpus; i++)
		if (t->cpu[i].cpu == cpu)
			return &t->cpu[i];
	return NULL;
}

static uint64_t sum_lost(const struct store_cpu_totals *t)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < N_LOST; i++)
		sum += t->lost[i];
	return sum;
}

/*
 * Each event of a CPU has a sample that is counted and has not run yet. None is lost: they run
 * before the next window ends.
 */
static void test_late_samples(void **state)
{
	(void)state;
	struct window *w = window(1, false);
	struct store_totals t;
	store(w, 0, 10);
	says[0].fired += EVENTS;
	says[0].behind = EVENTS;
	window_end(w, false);
	assert_int_equal(window_totals(w, &t), 1);
	assert_int_equal(t.cpu[0].fired, 10);
	assert_int_equal(sum_lost(&t.cpu[0]), 0);
	window_clear(w);
	says[0].fired -= EVENTS;
	says[0].behind = 0;
	store(w, 0, EVENTS);
	window_end(w, true);
	assert_int_equal(window_totals(w, &t), 1);
	assert_int_equal(t.cpu[0].fired, EVENTS);
	assert_int_equal(t.cpu[0].stored, EVENTS);
	assert_int_equal(sum_lost(&t.cpu[0]), 0);
	window_free(w);
}

/* What did not run is lost once, however many windows it is seen in. */
static void test_not_run(void **state)
{
	(void)state;
	struct window *w = window(1, false);
	struct store_totals t;
	says[1].fired = 7;
	says[1].behind = 1;
	for (unsigned i = 0; i < 3; i++) {
		window_end(w, i == 2);
		size_t n = window_totals(w, &t);
		assert_int_equal(n, i != 1);
		if (n) {
			assert_int_equal(t.cpu[0].cpu, 1);
			assert_int_equal(t.cpu[0].fired, i ? 1 : 6);
			assert_int_equal(t.cpu[0].lost[LOST_not_run], i ? 1 : 6);
			assert_int_equal(t.cpu[0].stored, 0);
		}
		window_clear(w);
	}
	window_free(w);
}

/* A CPU that was not there: its samples are those of CPU 0. */
static void test_bad_cpu(void **state)
{
	(void)state;
	struct window *w = window(1, false);
	struct store_totals t;
	store(w, 0, 1);
	for (unsigned i = 0; i < 2; i++) {
		bad_cpu += 5;
		window_end(w, false);
		assert_int_equal(window_totals(w, &t), 1);
		assert_int_equal(t.cpu[0].lost[LOST_bad_cpu], 5);
		assert_int_equal(t.cpu[0].fired, t.cpu[0].stored + 5);
		window_clear(w);
		store(w, 0, 1);
	}
	window_free(w);
}

/* The next window has the samples of one that could not be written, as lost. */
static void test_window_lost(void **state)
{
	(void)state;
	struct window *w = window(1, false);
	struct store_totals t;
	store(w, 0, 10);
	window_cpu(w, 0)->counter[COUNTER_unlabelled] = 4;
	window_end(w, false);
	window_totals(w, &t);
	window_lost(w);
	store(w, 0, 3);
	window_cpu(w, 0)->counter[COUNTER_unlabelled] += 2;
	window_end(w, false);
	assert_int_equal(window_totals(w, &t), 1);
	assert_int_equal(t.cpu[0].fired, 13);
	assert_int_equal(t.cpu[0].stored, 3);
	assert_int_equal(t.cpu[0].lost[LOST_store_failed], 10);
	assert_int_equal(sum_lost(&t.cpu[0]), 10);
	assert_int_equal(t.cpu[0].flagged[FLAG_unlabelled], 2);
	window_clear(w);
	assert_int_equal(window_totals(w, &t), 0);
	window_free(w);
}

/* Each sample counts as `weight` samples, and says so. */
static void test_weight(void **state)
{
	(void)state;
	struct window *w = window(2, true);
	struct store_totals t;
	struct window_cpu *c = window_cpu(w, 1);
	store(w, 1, 10);
	c->ran += 6;
	c->outside = 2;
	c->thinned = 1;
	c->counter[COUNTER_rows_full] = 3;
	c->counter[COUNTER_truncated] = 2;
	c->counter[COUNTER_idle] = 3;
	window_end(w, false);
	assert_int_equal(window_totals(w, &t), 1);
	assert_int_equal(t.outside, 4);
	assert_int_equal(t.cpu[0].fired, 2 * 13);
	assert_int_equal(t.cpu[0].stored, 2 * 10);
	assert_int_equal(t.cpu[0].lost[LOST_rows_full], 2 * 3);
	assert_int_equal(sum_lost(&t.cpu[0]), 2 * 3);
	assert_int_equal(t.cpu[0].flagged[FLAG_truncated], 2 * 2);
	assert_int_equal(t.cpu[0].flagged[FLAG_idle], 2 * 3);
	assert_int_equal(t.cpu[0].flagged[FLAG_reduced_rate], 2 * 10);
	assert_int_equal(t.cpu[0].flagged[FLAG_waits_saved], 2 * 10);
	window_free(w);
	w = window(1, false);
	store(w, 1, 10);
	window_totals(w, &t);
	assert_int_equal(t.cpu[0].flagged[FLAG_reduced_rate], 0);
	assert_int_equal(t.cpu[0].flagged[FLAG_waits_saved], 0);
	window_free(w);
}

/* Where user space left samples out, the programs' flags are no more than what is stored. */
static void test_left_out(void **state)
{
	(void)state;
	struct window *w = window(1, false);
	struct store_totals t;
	for (unsigned cpu = 0; cpu < CPUS; cpu++) {
		store(w, cpu, 5);
		window_cpu(w, cpu)->left_out = cpu;
		window_cpu(w, cpu)->counter[COUNTER_unlabelled] = 9;
		window_cpu(w, cpu)->counter[COUNTER_truncated] = 3;
	}
	assert_int_equal(window_totals(w, &t), 2);
	assert_int_equal(totals_of(&t, 0)->flagged[FLAG_unlabelled], 9);
	assert_int_equal(totals_of(&t, 1)->flagged[FLAG_unlabelled], 5);
	assert_int_equal(totals_of(&t, 1)->flagged[FLAG_truncated], 3);
	window_free(w);
}

/* A clock of which an idle CPU's timer sleeps: what its idle time explains is idle_not_run. */
static void test_idle(void **state)
{
	(void)state;
	struct window *w = window(1, false);
	struct store_totals t;
	const uint64_t hour = 3600000000000ull;
	/* 1,000 samples an hour apart: the host was not idle so long since the window began */
	says[0] = (struct sampler_fired){ .fired = 1000, .clock_ns = hour };
	/* and of a nanosecond: it has */
	says[1] = (struct sampler_fired){ .fired = 1000, .idle = 10, .clock_ns = 1 };
	window_end(w, true);
	assert_int_equal(window_totals(w, &t), 2);
	/* Two ticks and a period of rounding are allowed */
	assert_int_equal(totals_of(&t, 0)->lost[LOST_idle_not_run], 1);
	assert_int_equal(totals_of(&t, 0)->lost[LOST_not_run], 999);
	assert_int_equal(totals_of(&t, 1)->lost[LOST_idle_not_run], 1000);
	assert_int_equal(totals_of(&t, 1)->lost[LOST_not_run], 0);
	window_clear(w);
	/* The one period counts once */
	says[0].fired += 10;
	window_end(w, true);
	assert_int_equal(window_totals(w, &t), 1);
	assert_int_equal(t.cpu[0].lost[LOST_idle_not_run], 0);
	assert_int_equal(t.cpu[0].lost[LOST_not_run], 10);
	window_clear(w);
	/* It was sampled while it was idle */
	says[0].fired += 10;
	says[0].idle = 2;
	window_end(w, true);
	assert_int_equal(window_totals(w, &t), 1);
	assert_int_equal(t.cpu[0].lost[LOST_not_run], 10);
	assert_int_equal(t.own_rss > 1 << 18, 1);
	window_free(w);
}

/* Idle and waiting for I/O, in ticks of 10 ms since boot: /proc/stat of CPU 0. */
static uint64_t idle_ticks(void)
{
	unsigned long long idle = 0, iowait = 0;
	FILE *f = fopen("/proc/stat", "re");
	char line[512];
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "cpu0 %*u %*u %*u %llu %llu", &idle, &iowait) == 2)
			break;
	fclose(f);
	return idle + iowait;
}

static int next_descriptor(void)
{
	int fd = dup(0);
	assert_true(fd >= 0);
	close(fd);
	return fd;
}

/* A period of 10 ms from boot on, all of it missing: the idle time explains that much of it. */
static void test_idle_of_host(void **state)
{
	(void)state;
	const struct sampler_config cfg = { .weight = 1 };
	struct store_totals t;
	struct window *w;
	memset(says, 0, sizeof(says));
	bad_cpu = 0;
	assert_int_equal(window_new(&w, NULL, NULL, &cfg), 0);
	const uint64_t all = 1ull << 40;
	uint64_t idle, before = idle_ticks();
	const int free_one = next_descriptor();
	says[0] = (struct sampler_fired){ .fired = all, .clock_ns = 10000000 };
	window_end(w, true);
	window_totals(w, &t);
	idle = t.cpu[0].lost[LOST_idle_not_run];
	assert_int_equal(next_descriptor(), free_one); /* none is left open */
	assert_in_range(idle, before + 3, idle_ticks() + 3);
	assert_int_equal(t.cpu[0].lost[LOST_not_run], all - idle);
	/* It grows by what the CPU was idle since: wait for a tick or more, not for ever */
	const uint64_t now = idle_ticks();
	for (unsigned i = 0; i < 200 && idle_ticks() < now + 2; i++)
		usleep(10000);
	window_clear(w);
	window_end(w, true);
	window_totals(w, &t);
	uint64_t more = t.n_cpus ? t.cpu[0].lost[LOST_idle_not_run] : 0;
	assert_true(idle + more <= idle_ticks() + 3);
	window_free(w);
}

/* A copy without memory is lost in the window of its half, which may be behind the one drained. */
static void test_unkept(void **state)
{
	(void)state;
	struct window *w = window(1, false);
	struct window_cpu *c = window_cpu(w, 0);
	enum { FIRST = 3, SECOND = 0x10001, THIRD = 0x20003 };
	window_add_unkept(c, FIRST);
	window_add_unkept(c, SECOND);
	window_add_unkept(c, FIRST);
	window_take_unkept(c, FIRST);
	assert_int_equal(c->counter[COUNTER_user_memory], 2);
	window_add_unkept(c, THIRD);
	window_clear(w);
	window_take_unkept(c, SECOND);
	assert_int_equal(c->counter[COUNTER_user_memory], 1);
	window_take_unkept(c, SECOND);
	window_take_unkept(c, THIRD);
	assert_int_equal(c->counter[COUNTER_user_memory], 2);
	window_free(w);
	window_free(NULL);
}

/* ---- any course of events ---- */

static uint32_t seed = 1;

static unsigned below(unsigned n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 16) % n;
}

/* By CPU and event: samples that never ran; one is counted, and its program comes. */
static unsigned never[CPUS][EVENTS];
static bool late[CPUS][EVENTS];

static uint64_t all_never(void)
{
	uint64_t n = 0;
	for (unsigned i = 0; i < CPUS * EVENTS; i++)
		n += never[i / EVENTS][i % EVENTS];
	return n;
}

/* One step of a CPU, as tests/models/accounting.pml has them. */
static void step(struct window *w, unsigned cpu)
{
	struct window_cpu *c = window_cpu(w, cpu);
	unsigned e = below(EVENTS);
	if (!late[cpu][e]) {
		late[cpu][e] = true;
		says[cpu].fired++;
		return;
	}
	late[cpu][e] = false;
	if (!below(4)) {
		never[cpu][e]++;
		return;
	}
	says[cpu].ran++;
	c->ran++;
	c->used = true;
	switch (below(5)) {
	case 0:
		c->outside++;
		break;
	case 1:
		c->thinned++;
		break;
	case 2:
		c->counter[below(2) ? COUNTER_rows_full : COUNTER_user_memory]++;
		break;
	default:
		c->stored++;
	}
}

/* As sampler_fired does: the events whose count is ahead of what ran. At the end none is late. */
static void count_behind(unsigned cpu, bool end)
{
	says[cpu].behind = 0;
	for (unsigned e = 0; e < EVENTS; e++) {
		never[cpu][e] += end && late[cpu][e];
		late[cpu][e] &= !end;
		says[cpu].behind += late[cpu][e] || never[cpu][e];
	}
}

static void test_any_course(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 300; round++) {
		struct window *w = window(1, false);
		uint64_t fired = 0, not_run = 0, outside = 0, thinned = 0;
		memset(never, 0, sizeof(never));
		memset(late, 0, sizeof(late));
		for (unsigned k = 0; k <= 20; k++) {
			struct store_totals t;
			for (unsigned i = below(30); i; i--)
				step(w, below(CPUS));
			for (unsigned cpu = 0; cpu < CPUS; cpu++)
				count_behind(cpu, k == 20);
			window_end(w, k == 20);
			window_totals(w, &t);
			for (size_t i = 0; i < t.n_cpus; i++)
				assert_int_equal(t.cpu[i].fired,
						 t.cpu[i].stored + sum_lost(&t.cpu[i]));
			if (k < 20 && !below(3)) {
				window_lost(w);
				continue;
			}
			for (size_t i = 0; i < t.n_cpus; i++) {
				fired += t.cpu[i].fired;
				not_run += t.cpu[i].lost[LOST_not_run];
				thinned += window_cpu(w, t.cpu[i].cpu)->thinned;
			}
			assert_true(not_run <= all_never());
			outside += t.outside;
			window_clear(w);
		}
		assert_int_equal(not_run, all_never());
		assert_int_equal(fired + outside + thinned, says[0].fired + says[1].fired);
		window_free(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late_samples), cmocka_unit_test(test_not_run),
		cmocka_unit_test(test_bad_cpu),	     cmocka_unit_test(test_window_lost),
		cmocka_unit_test(test_weight),	     cmocka_unit_test(test_left_out),
		cmocka_unit_test(test_idle),	     cmocka_unit_test(test_idle_of_host),
		cmocka_unit_test(test_unkept),	     cmocka_unit_test(test_any_course),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
