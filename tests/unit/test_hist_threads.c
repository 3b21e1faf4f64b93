/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Histograms written by many threads while snapshots are taken: at the end every bucket has exactly
 * what was recorded, and on the way totals never go down. Meant for -fsanitize=thread too.
 */
#include "unit/hist_model.h"

#include "hist/hist_int.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#define THREADS 4
#define PER_THREAD 200000

struct work {
	pthread_t thread;
	struct hist *h;
	struct hist_multi *multi;
	pthread_barrier_t *start, *end;
	uint64_t seed;
	size_t n;
};

static uint64_t next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	uint64_t v = *seed ^ *seed >> 31;
	return v >> (v % 61);
}

static void *record(void *arg)
{
	struct work *w = arg;
	uint64_t seed = w->seed;
	if (w->start)
		pthread_barrier_wait(w->start);
	for (size_t i = 0; i < w->n; i++) {
		if (w->multi)
			hist_multi_record(w->multi, next(&seed));
		else
			hist_record(w->h, next(&seed));
	}
	if (w->end)
		pthread_barrier_wait(w->end);
	return NULL;
}

/* What the threads recorded, by one thread, with plain counters. */
static void check_all(const struct hist_snapshot *s, const struct work *w, size_t n)
{
	uint64_t *want = calloc(HIST_BUCKETS(s->bits), sizeof(*want)), count, total = 0;
	for (size_t t = 0; t < n; t++) {
		uint64_t seed = w[t].seed;
		for (size_t i = 0; i < w[t].n; i++)
			want[hist_bucket_index(s->bits, next(&seed))]++;
		total += w[t].n;
	}
	for (uint32_t i = 0; hist_snapshot_next(s, &i, &count); i++) {
		assert_int_equal(count, want[i]);
		want[i] = 0;
	}
	for (uint32_t i = 0; i < HIST_BUCKETS(s->bits); i++)
		assert_int_equal(want[i], 0);
	assert_int_equal(s->total, total);
	free(want);
}

static void take(const struct work *w, struct hist_snapshot *s)
{
	struct err err = { 0 };
	hist_snapshot_init(s, 6);
	assert_int_equal(w->multi ? hist_multi_snapshot(w->multi, s, &err)
				  : hist_snapshot_add(s, w->h, &err),
			 0);
}

static void watch(const struct work *w, uint64_t all)
{
	struct hist_snapshot s;
	uint64_t last = 0;
	for (unsigned i = 0; i < 100000 && last < all; i++) {
		take(w, &s);
		assert_true(s.total >= last && s.total <= all);
		last = s.total;
		hist_snapshot_fini(&s);
	}
}

static void run(struct hist *h, struct hist_multi *multi)
{
	struct work w[THREADS];
	struct hist_snapshot s;
	pthread_barrier_t start;
	pthread_barrier_init(&start, NULL, THREADS + 1);
	for (unsigned i = 0; i < THREADS; i++) {
		w[i] = (struct work){
			.h = h, .multi = multi, .start = &start, .seed = i + 1, .n = PER_THREAD
		};
		assert_int_equal(pthread_create(&w[i].thread, NULL, record, &w[i]), 0);
	}
	pthread_barrier_wait(&start);
	watch(w, (uint64_t)THREADS * PER_THREAD);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(w[i].thread, NULL);
	take(w, &s);
	check_all(&s, w, THREADS);
	hist_snapshot_fini(&s);
	pthread_barrier_destroy(&start);
}

static void test_shared(void **state)
{
	(void)state;
	struct hist *h;
	assert_int_equal(hist_new(6, &h), 0);
	run(h, NULL);
	hist_free(h);
}

static void test_multi(void **state)
{
	(void)state;
	struct hist_multi *multi;
	assert_int_equal(hist_multi_new(6, &multi), 0);
	run(NULL, multi);
	size_t bytes = hist_multi_bytes(multi);
	assert_true(bytes > sizeof(*multi) && bytes <= sizeof(*multi) + (THREADS + 1) * 16384);
	hist_multi_free(multi);
	hist_multi_free(NULL);
}

/* Many new histograms: all threads meet in the first values, where rows are taken. */
static void test_first_values(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 100; round++) {
		struct work w[THREADS];
		struct hist_snapshot s;
		struct hist *h;
		pthread_barrier_t start;
		pthread_barrier_init(&start, NULL, THREADS);
		assert_int_equal(hist_new(6, &h), 0);
		for (unsigned i = 0; i < THREADS; i++) {
			w[i] = (struct work){
				.h = h, .start = &start, .seed = round * THREADS + i, .n = 300
			};
			assert_int_equal(pthread_create(&w[i].thread, NULL, record, &w[i]), 0);
		}
		for (unsigned i = 0; i < THREADS; i++)
			pthread_join(w[i].thread, NULL);
		take(w, &s);
		check_all(&s, w, THREADS);
		hist_snapshot_fini(&s);
		hist_free(h);
		pthread_barrier_destroy(&start);
	}
}

/* More threads at once than slots, then waves of threads that use the slots again. */
static void test_slots(void **state)
{
	(void)state;
	enum { N = HIST_SLOTS + 20, WAVES = 3 };
	static struct work w[WAVES * N];
	struct hist_multi *multi;
	struct hist_snapshot s;
	pthread_barrier_t end;
	pthread_barrier_init(&end, NULL, N);
	assert_int_equal(hist_multi_new(6, &multi), 0);
	for (unsigned wave = 0; wave < WAVES; wave++) {
		struct work *v = w + wave * N;
		for (unsigned i = 0; i < N; i++) {
			v[i] = (struct work){
				.multi = multi, .end = &end, .seed = 1000 * wave + i, .n = 500
			};
			assert_int_equal(pthread_create(&v[i].thread, NULL, record, &v[i]), 0);
		}
		for (unsigned i = 0; i < N; i++)
			pthread_join(v[i].thread, NULL);
	}
	unsigned own = 0;
	for (unsigned i = 0; i < HIST_SLOTS; i++)
		own += multi->own[i] != &hist_none;
	assert_int_equal(own, HIST_SLOTS);
	hist_snapshot_init(&s, 6);
	assert_int_equal(hist_snapshot_add(&s, multi->shared, NULL), 0);
	assert_true(s.total >= 20 * 500);
	hist_snapshot_fini(&s);
	take(w, &s);
	check_all(&s, w, WAVES * N);
	hist_snapshot_fini(&s);
	hist_multi_free(multi);
	pthread_barrier_destroy(&end);
}

/* ---- carries ---- */

static void *add(void *arg)
{
	struct work *w = arg;
	for (size_t i = 0; i < w->n; i++) {
		/* Without the lock, and under it */
		hist_add(w->h, 123456, i % 64 ? 1u << 16 : 3u << 29);
		hist_record(w->h, 123456);
	}
	return NULL;
}

/*
 * One bucket, from all threads, through many carries: never a total that goes down, or by more than
 * what was added.
 */
static void test_carries(void **state)
{
	(void)state;
	struct work w[THREADS];
	struct hist *h;
	size_t n = 20000;
	uint64_t all = THREADS * (n * (1u << 16) + (n + 63) / 64 * ((3u << 29) - (1u << 16)) + n);
	assert_int_equal(hist_new(6, &h), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		w[i] = (struct work){ .h = h, .n = n };
		assert_int_equal(pthread_create(&w[i].thread, NULL, add, &w[i]), 0);
	}
	watch(w, all);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(w[i].thread, NULL);
	struct hist_snapshot s;
	take(w, &s);
	assert_int_equal(s.total, all);
	hist_snapshot_fini(&s);
	hist_free(h);
}

/* The owner carries while others look. */
static void *own_carries(void *arg)
{
	struct work *w = arg;
	for (size_t i = 0; i < w->n; i++)
		hist_record_own(w->h, 99);
	return NULL;
}

static void test_carry_own(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 20; round++) {
		struct work w = { .n = 100000 };
		struct hist_snapshot s;
		uint64_t before = (1u << 31) - w.n / 2;
		assert_int_equal(hist_new(6, &w.h), 0);
		hist_add(w.h, 99, before);
		assert_int_equal(pthread_create(&w.thread, NULL, own_carries, &w), 0);
		watch(&w, before + w.n);
		pthread_join(w.thread, NULL);
		take(&w, &s);
		assert_int_equal(s.total, before + w.n);
		hist_snapshot_fini(&s);
		hist_free(w.h);
	}
}

/* ---- the lock, held by us ---- */

static uint32_t count_of(struct hist *h, uint64_t v)
{
	return __atomic_load_n(hist_counter(h, v), __ATOMIC_RELAXED);
}

static void check_total(const struct hist *h, uint64_t want)
{
	struct hist_snapshot s;
	model_snapshot(&s, h);
	assert_int_equal(s.total, want);
	hist_snapshot_fini(&s);
}

/*
 * Who records does not wait for a snapshot: the carry comes later, and what is added meanwhile
 * finds room.
 */
static void test_late_carry(void **state)
{
	(void)state;
	struct hist *h;
	uint64_t n = 0;
	assert_int_equal(hist_new(6, &h), 0);
	hist_lock(h);
	for (; n < (3u << 30) - (1u << 17); n += 1u << 16)
		hist_add(h, 500, 1u << 16);
	hist_record(h, 500);
	n++;
	assert_int_equal(count_of(h, 500), n);
	hist_unlock(h);
	check_total(h, n);
	hist_add(h, 500, (1u << 31) - 1);
	n += (1u << 31) - 1;
	check_total(h, n);
	hist_record(h, 500);
	check_total(h, n + 1);
	hist_free(h);
}

static void *add_much(void *arg)
{
	struct work *w = arg;
	for (size_t i = 0; i < w->n; i++)
		hist_add(w->h, 500, 1u << 16);
	return NULL;
}

/* But it does at 3/4 of the counter, rather than count wrong. */
static void test_full_counter(void **state)
{
	(void)state;
	struct work w = { .n = 1u << 17 };
	assert_int_equal(hist_new(6, &w.h), 0);
	hist_lock(w.h);
	assert_int_equal(pthread_create(&w.thread, NULL, add_much, &w), 0);
	while (count_of(w.h, 500) < 3u << 30)
		sched_yield();
	usleep(20000);
	assert_int_equal(count_of(w.h, 500), 3u << 30);
	hist_unlock(w.h);
	pthread_join(w.thread, NULL);
	check_total(w.h, (uint64_t)w.n << 16);
	hist_free(w.h);
}

static void *take_one(void *arg)
{
	struct work *w = arg;
	check_total(w->h, 7);
	__atomic_store_n(&w->seed, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* A snapshot waits for a carry that is being made. */
static void test_snapshot_waits(void **state)
{
	(void)state;
	struct work w = { .seed = 0 };
	assert_int_equal(hist_new(6, &w.h), 0);
	hist_add(w.h, 1, 7);
	hist_lock(w.h);
	assert_int_equal(pthread_create(&w.thread, NULL, take_one, &w), 0);
	usleep(50000);
	assert_int_equal(__atomic_load_n(&w.seed, __ATOMIC_RELAXED), 0);
	hist_unlock(w.h);
	pthread_join(w.thread, NULL);
	assert_int_equal(w.seed, 1);
	hist_free(w.h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared),	       cmocka_unit_test(test_multi),
		cmocka_unit_test(test_first_values),   cmocka_unit_test(test_slots),
		cmocka_unit_test(test_carries),	       cmocka_unit_test(test_carry_own),
		cmocka_unit_test(test_late_carry),     cmocka_unit_test(test_full_counter),
		cmocka_unit_test(test_snapshot_waits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
