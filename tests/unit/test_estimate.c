/* SPDX-License-Identifier: Apache-2.0 */
/* Estimated stacks of waits: sums stay exact, and the mean over many draws is the truth. */
#include "collect/estimate.h"
#include "collect/waits.h"
#include "store/store.h"
#include "store/writer.h"
#include "store/write/writer_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SETS 6
#define STACKS 5 /* [0] is "[no stack]" */

static char dir[64];
static struct store_writer *w;
static uint32_t event, set[SETS], stack[STACKS];
static struct estimate e;

static uint32_t make_stack(const char *name)
{
	struct store_frame f = { .kind = FRAME_KERNEL };
	uint32_t frame, id;
	assert_int_equal(store_add_string(w, name, strlen(name), &f.function), 0);
	assert_int_equal(store_add_string(w, "[kernel]", 8, &f.module), 0);
	assert_int_equal(store_add_frame(w, &f, &frame), 0);
	assert_int_equal(store_add_stack(w, 0, frame, &id), 0);
	return id;
}

static void make_sets(void)
{
	static const char *const value[] = { "a", "b", "c", "d", "e", "f" };
	for (unsigned i = 0; i < SETS; i++) {
		struct label l = { .key = "tenant",
				   .key_len = 6,
				   .str = value[i],
				   .str_len = 1,
				   .type = LABEL_STRING };
		assert_int_equal(store_add_set(w, &l, 1, &set[i]), 0);
	}
}

static int set_up(void **state)
{
	static const char *const name[STACKS] = { "[no stack]", "f1", "f2", "f3", "f4" };
	struct err err = { 0 };
	struct store_options o;
	const struct store_meta meta = { .host = "h", .os = "o", .what = "w", .created_ns = 1 };
	struct store_event ev = { .name = "off-cpu", .unit = "nanoseconds" };
	(void)state;
	strcpy(dir, "/tmp/test_estimate.XXXXXX");
	assert_non_null(mkdtemp(dir));
	strcat(dir, "/s");
	store_options_default(&o);
	assert_int_equal(store_writer_open_with(&w, dir, &meta, &o, &err), 0);
	assert_int_equal(store_add_event(w, &ev, &event), 0);
	for (unsigned i = 0; i < STACKS; i++)
		stack[i] = make_stack(name[i]);
	make_sets();
	return 0;
}

static int tear_down(void **state)
{
	char command[100];
	(void)state;
	estimate_fini(&e);
	store_writer_close(w);
	dir[strlen(dir) - 2] = 0;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

/* ---- the rows of the open window ---- */

static void begin_window(void)
{
	w->rows.n = 0;
	idhash_clear(&w->row_hash);
	estimate_clear(&e);
}

static struct store_row row_of(unsigned s, unsigned k)
{
	struct store_row sum = { 0 };
	for (size_t i = 0; i < w->rows.n; i++)
		if (w->rows.v[i].set == set[s] && w->rows.v[i].stack == stack[k]) {
			sum.samples += w->rows.v[i].samples;
			sum.value += w->rows.v[i].value;
		}
	return sum;
}

static struct store_row set_sum(unsigned s)
{
	struct store_row sum = { 0 };
	for (unsigned k = 0; k < STACKS; k++) {
		struct store_row r = row_of(s, k);
		sum.samples += r.samples;
		sum.value += r.value;
	}
	return sum;
}

/* All of one program; sets 0 and 1 of one image. */
static struct estimate_key key_of(unsigned s)
{
	return (struct estimate_key){ event, set[s], s < 2 ? 7 : 8, 9 };
}

static void add_samples(unsigned s, unsigned k, unsigned n, uint64_t ns, unsigned thinning)
{
	struct estimate_key key = key_of(s);
	uint64_t others = (1ull << 2 * thinning) - 1;
	assert_int_equal(store_add_row(w, set[s], stack[k], event, n, ns), 0);
	estimate_add_sample(&e, &key, stack[k], n, n * others, others * ns);
}

static void add_sampled(unsigned s, unsigned k, uint64_t ns, unsigned thinning)
{
	add_samples(s, k, 1, ns, thinning);
}

static void add_rest(unsigned s, uint64_t n, uint64_t ns)
{
	struct estimate_key key = key_of(s);
	assert_int_equal(store_add_row(w, set[s], stack[0], event, n, ns), 0);
	estimate_add_rest(&e, &key, n, ns);
}

/* ---- tests ---- */

/*
 * In proportion to what samples stand for, exact to the nanosecond; a wait that is always sampled
 * stands for no other.
 */
static void test_own_set(void **state)
{
	(void)state;
	begin_window();
	add_samples(0, 1, 4, 100, 1); /* for 300 ns */
	add_samples(0, 2, 4, 200, 1); /* for 600 ns */
	add_sampled(0, 3, 5000, 0);
	add_rest(0, 10, 1000);
	assert_int_equal(estimate_divide(&e, w, stack[0], 1), 10);
	assert_int_equal(row_of(0, 0).samples, 0);
	assert_int_equal(row_of(0, 0).value, 0);
	assert_int_equal(row_of(0, 1).value, 100 + 333);
	assert_int_equal(row_of(0, 2).value, 200 + 667);
	assert_int_equal(row_of(0, 3).value, 5000);
	assert_int_equal(set_sum(0).samples, 10 + 4 + 4 + 1);
	assert_int_equal(set_sum(0).value, 6300);
}

/* Without enough samples of its own: those of its image, else of its program, else none. */
static void test_wider(void **state)
{
	(void)state;
	begin_window();
	add_sampled(0, 1, 100, 2);
	add_rest(1, 3, 77);
	add_rest(2, 1, 55);
	assert_int_equal(estimate_divide(&e, w, stack[0], 1), 4);
	assert_int_equal(row_of(1, 1).value, 77);
	assert_int_equal(row_of(1, 1).samples, 3);
	assert_int_equal(row_of(2, 1).value, 55);
	begin_window(); /* what is much longer is no such wait */
	add_sampled(0, 1, 100, 2);
	add_rest(1, 1, 100 * ESTIMATE_ALIKE);
	add_rest(2, 2, 2 * 100 * ESTIMATE_ALIKE + 1);
	assert_int_equal(estimate_divide(&e, w, stack[0], 1), 1);
	assert_int_equal(row_of(1, 1).value, 100 * ESTIMATE_ALIKE);
	assert_int_equal(row_of(2, 0).value, 2 * 100 * ESTIMATE_ALIKE + 1);
	struct estimate_key alien = { event, set[2], 100, 101 };
	begin_window();
	add_sampled(0, 1, 100, 2);
	assert_int_equal(store_add_row(w, set[2], stack[0], event, 5, 50), 0);
	estimate_add_rest(&e, &alien, 5, 50);
	assert_int_equal(estimate_divide(&e, w, stack[0], 1), 0);
	assert_int_equal(row_of(2, 0).value, 50);
}

/* Images and programs come in another order than label sets. */
static void test_wider_order(void **state)
{
	(void)state;
	for (unsigned program = 0; program < 2; program++) {
		begin_window();
		for (unsigned s = 0; s < SETS; s++) {
			/* sets 0 to 2 are sampled, and those behind them take the same stacks */
			unsigned image = 30 - s % 3;
			struct estimate_key key = { event, set[s], image, 9 };
			if (program)
				key = (struct estimate_key){ event, set[s], 100 + s, image };
			if (s < 3) {
				assert_int_equal(
					store_add_row(w, set[s], stack[1 + s], event, 1, 100), 0);
				estimate_add_sample(&e, &key, stack[1 + s], ESTIMATE_ENOUGH, 15,
						    1500);
			} else {
				assert_int_equal(
					store_add_row(w, set[s], stack[0], event, 2, 70 + s), 0);
				estimate_add_rest(&e, &key, 2, 70 + s);
			}
		}
		assert_int_equal(estimate_divide(&e, w, stack[0], 1), 6);
		for (unsigned s = 3; s < SETS; s++) {
			assert_int_equal(row_of(s, s - 2).samples, 2);
			assert_int_equal(row_of(s, s - 2).value, 70 + s);
		}
	}
}

/* A label set takes few stacks from a wider group; each row has samples. */
static void test_wider_is_bounded(void **state)
{
	(void)state;
	for (uint64_t n = 1; n < 40; n++) {
		begin_window();
		for (unsigned k = 1; k < STACKS; k++)
			add_sampled(0, k, 1000 * k, 1);
		add_rest(1, n, 1000 * n + 1);
		assert_int_equal(estimate_divide(&e, w, stack[0], 1), n);
		assert_int_equal(set_sum(1).samples, n);
		assert_int_equal(set_sum(1).value, 1000 * n + 1);
		for (size_t i = 0; i < w->rows.n; i++)
			assert_true(w->rows.v[i].samples || !w->rows.v[i].value);
	}
}

static void note(struct waits *waits, const char *comm, unsigned s, unsigned k, unsigned n)
{
	/* Of threads without a sampled wait sums are known, in rows of another kind. */
	struct row row = { .kind = k ? ROW_TASK : ROW_WAIT,
			   .tgid = 5,
			   .start_ns = 6,
			   .samples = n,
			   .value = 1000ull * n,
			   .thinning = k ? 1 : 0 };
	memcpy(row.comm, comm, strlen(comm));
	assert_int_equal(store_add_row(w, set[s], stack[k], event, n, row.value), 0);
	waits_note_stack(waits, &row, NULL, set[s], stack[k], event);
}

/* A thread takes the stacks of threads of its own kind alone, as their names tell. */
static void test_kinds_of_threads(void **state)
{
	struct waits waits = { .no_stack = stack[0] };
	(void)state;
	begin_window();
	note(&waits, "worker-1", 0, 1, ESTIMATE_ENOUGH);
	note(&waits, "worker-12", 1, 0, 3);
	note(&waits, "GC Thread#0", 2, 0, 4);
	note(&waits, "7", 3, 2, ESTIMATE_ENOUGH);
	note(&waits, "8", 4, 0, 5);
	assert_int_equal(estimate_divide(&waits.estimate, w, stack[0], 1), 3);
	assert_int_equal(row_of(1, 1).samples, 3);
	assert_int_equal(row_of(2, 0).samples, 4);
	assert_int_equal(row_of(4, 0).samples, 5);
	estimate_fini(&waits.estimate);
}

/*
 * Whatever the numbers, of every label set nothing is lost and nothing is added; the store takes
 * the window.
 */
static void test_sums(void **state)
{
	struct err err = { 0 };
	struct store_totals totals = { 0 };
	(void)state;
	srand(1);
	for (unsigned round = 0; round < 2000; round++) {
		uint64_t n[3] = { 0 }, ns[3] = { 0 };
		begin_window();
		for (unsigned i = rand() % 20; i; i--) {
			unsigned s = rand() % 3, k = 1 + rand() % (STACKS - 1);
			uint64_t length = 1 + (uint64_t)rand() % 1000000000;
			add_sampled(s, k, length, rand() % 9);
			n[s]++;
			ns[s] += length;
		}
		for (unsigned i = rand() % 6; i; i--) {
			unsigned s = rand() % 3;
			uint64_t waits = 1 + rand() % 1000, length = (uint64_t)rand()
								     << rand() % 20;
			add_rest(s, waits, length);
			n[s] += waits;
			ns[s] += length;
		}
		estimate_divide(&e, w, stack[0], 1);
		for (unsigned s = 0; s < 3; s++) {
			assert_int_equal(set_sum(s).samples, n[s]);
			assert_int_equal(set_sum(s).value, ns[s]);
		}
	}
	assert_int_equal(store_commit_window(w, 1000, 2000, 3000, &totals, &err), 0);
	make_sets();
}

/*
 * Three kinds of waits, of a length that is drawn and an expectation that is wrong by up to 8. Over
 * many windows the mean of what each stack gets is what its waits really lasted.
 */
static void test_unbiased(void **state)
{
	double truth[STACKS] = { 0 }, got[STACKS] = { 0 };
	(void)state;
	srand(7);
	for (unsigned round = 0; round < 400; round++) {
		uint64_t rest_n = 0, rest_ns = 0;
		begin_window();
		for (unsigned i = 0; i < 3000; i++) {
			unsigned k = 1 + i % 3, wrong = rand() % 4;
			uint64_t length = (uint64_t)(1000 * k * k *
						     -log((rand() + 1.0) / ((double)RAND_MAX + 2)));
			unsigned thinning = 2 + wrong % 3 - (k == 3);
			truth[k] += (double)length;
			if (length && !(rand() % (1 << 2 * thinning))) {
				add_sampled(0, k, length, thinning);
			} else {
				rest_n++;
				rest_ns += length;
			}
		}
		add_rest(0, rest_n, rest_ns);
		estimate_divide(&e, w, stack[0], 1);
		for (unsigned k = 1; k < STACKS; k++)
			got[k] += (double)row_of(0, k).value;
	}
	for (unsigned k = 1; k < 4; k++) {
		printf("stack %u: %.4f of the truth\n", k, got[k] / truth[k]);
		assert_true(fabs(got[k] / truth[k] - 1) < 0.05);
	}
}

/*
 * Each point has the same place in its part of the group's time. The label set's hash says which:
 * its upper half, of 2^32.
 */
static void test_points(void **state)
{
	size_t first = 0, all = 0;
	(void)state;
	for (unsigned n = 1; n <= ESTIMATE_POINTS; n++) {
		begin_window();
		add_samples(0, 1, 8, 100, 1); /* for 2,400 ns */
		add_samples(0, 2, 8, 300, 1); /* for 7,200 ns */
		for (unsigned s = 2; s < SETS; s++)
			add_rest(s, n, n);
		assert_int_equal(estimate_divide(&e, w, stack[0], 1), n * (SETS - 2));
		for (unsigned s = 2; s < SETS; s++) {
			const uint32_t place =
				(uint32_t)((set[s] + 1) * 0x9e3779b97f4a7c15ull >> 32);
			unsigned want = 0;
			for (unsigned p = 0; p < n; p++)
				want += 9600 / n * p + (uint64_t)((double)(9600 / n) * place /
								  4294967296.0) <
					2400;
			assert_int_equal(row_of(s, 1).samples, want);
			assert_int_equal(row_of(s, 2).samples, n - want);
			first += want;
			all += n;
		}
	}
	assert_true(first > 0 && first < all / 2);
}

/* Sums beyond 64 bits, and more samples than there is room for before equal ones are one. */
static void test_large(void **state)
{
	const struct estimate_key key = key_of(0);
	(void)state;
	begin_window();
	for (unsigned k = 1; k < 3; k++) {
		assert_int_equal(store_add_row(w, set[0], stack[k], event, 8, 100), 0);
		estimate_add_sample(&e, &key, stack[k], 8, k == 1 ? 300 : 500,
				    (k == 1 ? 3ull : 5ull) << 61);
	}
	add_rest(0, 1000, 8000);
	assert_int_equal(estimate_divide(&e, w, stack[0], 1), 1000);
	assert_int_equal(row_of(0, 1).value, 100 + 3000);
	assert_int_equal(row_of(0, 2).value, 100 + 5000);
	assert_int_equal(row_of(0, 1).samples, 8 + 375);
	assert_int_equal(row_of(0, 2).samples, 8 + 625);
	begin_window();
	for (unsigned k = 1; k < 3; k++)
		assert_int_equal(store_add_row(w, set[0], stack[k], event, 8, 100), 0);
	for (unsigned i = 0; i < 2 * ESTIMATE_MAX; i++)
		estimate_add_sample(&e, &key, stack[1 + i % 2], 1, 1, 1);
	assert_int_equal(e.samples.n, 2 * ESTIMATE_MAX);
	estimate_add_sample(&e, &key, stack[1], 1, 2 * ESTIMATE_MAX, 2 * ESTIMATE_MAX);
	assert_int_equal(e.samples.n, 3);
	assert_true(e.samples.cap >= 2 * ESTIMATE_MAX);
	add_rest(0, 400, 4000);
	assert_int_equal(estimate_divide(&e, w, stack[0], 1), 400);
	assert_int_equal(row_of(0, 1).value, 100 + 3000);
	assert_int_equal(row_of(0, 2).value, 100 + 1000);
	assert_int_equal(row_of(0, 1).samples, 8 + 300);
	assert_int_equal(row_of(0, 2).samples, 8 + 100);
	/* The memory of a busy window is not kept */
	begin_window();
	assert_int_equal(e.samples.cap, 0);
	assert_null(e.samples.v);
	add_sampled(0, 1, 100, 1);
	assert_true(e.samples.cap > 0);
	begin_window();
	assert_true(e.samples.cap > 0);
	/* Distinct ones beyond the room are left out: those that are there stand for them */
	for (unsigned i = 0; i < 2 * ESTIMATE_MAX + 3; i++)
		estimate_add_sample(&e, &key, i, 1, 1, 1);
	assert_int_equal(e.samples.n, 2 * ESTIMATE_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_set),
		cmocka_unit_test(test_wider),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_points),
		cmocka_unit_test(test_wider),
		cmocka_unit_test(test_wider_order),
		cmocka_unit_test(test_wider_is_bounded),
		cmocka_unit_test(test_kinds_of_threads),
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_unbiased),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
