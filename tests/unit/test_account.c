/* SPDX-License-Identifier: Apache-2.0 */
/* The accounting of a range of a store, against sums of what was written. */
#include "query/account.h"
#include "store/writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOWS 12
#define CPUS 5
#define N_LOST 3
#define N_FLAGGED 4

static const char *const lost_names[N_LOST] = { "not_run", "rows_full", "store_failed" };
static const char *const flagged_names[N_FLAGGED] = { "unlabelled", "waits", "waits_saved",
						      "wait_summed" };
static const struct store_meta meta = { .host = "h",
					.os = "o",
					.what = "w",
					.created_ns = 1,
					.lost_names = lost_names,
					.n_lost = N_LOST,
					.flagged_names = flagged_names,
					.n_flagged = N_FLAGGED };

/* What was written: by window and CPU, 0 fired: that CPU has no totals. */
static struct written {
	uint64_t fired, stored, lost[N_LOST], flagged[N_FLAGGED];
} written[WINDOWS][CPUS];

static uint32_t seed = 1;

static unsigned below(unsigned n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 16) % n;
}

static int64_t begin_of(unsigned window)
{
	return 1000 * (1 + (int64_t)window);
}

static void fill(struct written *w)
{
	w->stored = 1 + below(1000);
	w->fired = w->stored;
	for (unsigned i = 0; i < N_LOST; i++)
		w->fired += w->lost[i] = below(10);
	for (unsigned i = 0; i < N_FLAGGED; i++)
		w->flagged[i] = below((unsigned)w->stored);
}

/* Windows whose CPUs come in another order each, some not at all. */
static void write_windows(struct store_writer *s)
{
	for (unsigned k = 0; k < WINDOWS; k++) {
		struct err err = { 0 };
		struct store_cpu_totals cpu[CPUS];
		struct store_totals t = { .cpu = cpu,
					  .outside = k,
					  .own_cpu_ns = 100 + k,
					  .own_rss = k == 4 ? 77777 : 1000 * k };
		for (unsigned i = 0; i < CPUS; i++) {
			unsigned c = k % 3 ? (i + k) % CPUS : CPUS - 1 - i;
			struct written *w = &written[k][c];
			if (!below(4))
				continue;
			fill(w);
			cpu[t.n_cpus++] = (struct store_cpu_totals){ 2 * c, w->fired, w->stored,
								     w->lost, w->flagged };
		}
		assert_int_equal(
			store_commit_window(s, begin_of(k), begin_of(k + 1), begin_of(k), &t, &err),
			0);
	}
}

static void check_totals(const struct store_cpu_totals *got, unsigned from, unsigned to,
			 unsigned first, unsigned last)
{
	struct written want = { 0 };
	for (unsigned k = from; k < to; k++) {
		for (unsigned c = first; c <= last; c++) {
			want.fired += written[k][c].fired;
			want.stored += written[k][c].stored;
			for (unsigned i = 0; i < N_LOST; i++)
				want.lost[i] += written[k][c].lost[i];
			for (unsigned i = 0; i < N_FLAGGED; i++)
				want.flagged[i] += written[k][c].flagged[i];
		}
	}
	assert_int_equal(got->fired, want.fired);
	assert_int_equal(got->stored, want.stored);
	assert_memory_equal(got->lost, want.lost, sizeof(want.lost));
	assert_memory_equal(got->flagged, want.flagged, sizeof(want.flagged));
}

/* Windows `from` to before `to`. */
static void check_range(struct store *s, unsigned from, unsigned to)
{
	struct err err = { 0 };
	struct account t = { 0 };
	uint64_t outside = 0, own_ns = 0, rss = 0;
	size_t n = 0;
	assert_int_equal(account_sum(&t, s, begin_of(from), begin_of(to), &err), 0);
	for (unsigned k = from; k < to; k++) {
		uint64_t own_rss = k == 4 ? 77777 : 1000 * k;
		outside += k;
		own_ns += 100 + k;
		rss = rss > own_rss ? rss : own_rss;
	}
	assert_int_equal(t.blocks, to - from);
	assert_int_equal(t.from_ns, begin_of(from));
	assert_int_equal(t.to_ns, begin_of(to));
	assert_int_equal(t.outside, outside);
	assert_int_equal(t.own_cpu_ns, own_ns);
	assert_int_equal(t.own_rss, rss);
	for (unsigned c = 0; c < CPUS; c++) {
		bool is = false;
		for (unsigned k = from; k < to; k++)
			is |= written[k][c].fired > 0;
		if (!is)
			continue;
		assert_true(n < t.n_cpus);
		assert_int_equal(t.cpu[n].cpu, 2 * c); /* by number */
		check_totals(&t.cpu[n++], from, to, c, c);
	}
	assert_int_equal(t.n_cpus, n);
	check_totals(&t.all, from, to, 0, CPUS - 1);
	account_forget_cpus(&t);
	assert_int_equal(t.n_cpus, 0);
	check_totals(&t.all, from, to, 0, CPUS - 1);
	account_fini(&t);
}

static void test_sums(void **state)
{
	(void)state;
	char dir[] = "/tmp/test_account.XXXXXX", path[64], command[80];
	struct err err = { 0 };
	struct store_writer *w;
	struct store *s;
	struct store_options o;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	store_options_default(&o);
	assert_int_equal(store_writer_open_with(&w, path, &meta, &o, &err), 0);
	write_windows(w);
	store_writer_close(w);
	assert_int_equal(store_open(&s, path, &err), 0);
	for (unsigned from = 0; from < WINDOWS; from++)
		for (unsigned to = from + 1; to <= WINDOWS; to++)
			check_range(s, from, to);
	struct account none = { 0 };
	assert_int_equal(account_sum(&none, s, begin_of(WINDOWS), INT64_MAX, &err), 0);
	assert_int_equal(none.blocks + none.n_cpus + none.from_ns + none.to_ns, 0);
	account_fini(&none);
	store_close(s);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
}

/* ---- of how many samples a flag speaks ---- */

static void test_base(void **state)
{
	(void)state;
	/* 100 are stored, 30 of them waits */
	const uint64_t flagged[N_FLAGGED] = { 5, 30, 35, 7 }, many[N_FLAGGED] = { 0, 101, 0, 0 };
	assert_int_equal(account_base(&meta, flagged, 100, "unlabelled"), 70);
	assert_int_equal(account_base(&meta, flagged, 100, "waits_saved"), 70);
	assert_int_equal(account_base(&meta, flagged, 100, "wait_summed"), 30);
	assert_int_equal(account_base(&meta, flagged, 100, "wait_python"), 30);
	assert_int_equal(account_base(&meta, flagged, 100, "wait_parts_full"), 0);
	assert_int_equal(account_base(&meta, flagged, 100, "blame_cut"), 0);
	assert_int_equal(account_base(&meta, flagged, 100, "names_late"), 100);
	/* Labels of waits are late, too. */
	assert_int_equal(account_base(&meta, flagged, 100, "labels_late"), 100);
	assert_int_equal(account_base(&meta, flagged, 30, "unlabelled"), 0);
	/* More waits than samples: such counters are wrong, and all are taken */
	assert_int_equal(account_base(&meta, many, 100, "unlabelled"), 100);
	assert_true(account_without_waits(&meta, flagged, 100) == 0.5);
	assert_true(account_without_waits(&meta, flagged, 65) == 1);
	assert_true(account_without_waits(&meta, flagged, 60) == 1);
	assert_true(account_without_waits(&meta, flagged, 30) == 0);
	assert_true(account_without_waits(&meta, many, 100) == 0);
}

/* A store of a version that does not count waits. */
static void test_base_of_old(void **state)
{
	(void)state;
	static const char *const names[] = { "unlabelled", "wait_summed" };
	const struct store_meta old = { .flagged_names = names, .n_flagged = 2 };
	const uint64_t flagged[] = { 5, 7 };
	assert_int_equal(account_base(&old, flagged, 100, "unlabelled"), 100);
	assert_int_equal(account_base(&old, flagged, 100, "wait_summed"), 100);
	assert_int_equal(account_base(&old, flagged, 100, "blame_cut"), 0);
	assert_true(account_without_waits(&old, flagged, 100) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_base),
		cmocka_unit_test(test_base_of_old),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
