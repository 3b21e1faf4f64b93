/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ascribe's own metrics: what was measured, by threads that come first together, and the text that
 * Prometheus reads.
 */
#include "unit/hist_model.h"

#include "hist/metrics.h"

#include <pthread.h>
#include <time.h>

#define THREADS 8

static pthread_barrier_t start;

static void *work(void *arg)
{
	pthread_barrier_wait(&start);
	for (unsigned i = 0; i < 1000; i++)
		metric_record(METRIC_bpf_run, 1000 + (uintptr_t)arg);
	metric_add(METRIC_stack_depth, 20, 1000);
	return NULL;
}

static uint64_t total(enum metric m)
{
	struct hist_snapshot s;
	struct err err = { 0 };
	hist_snapshot_init(&s, 6);
	assert_int_equal(metric_snapshot(m, &s, &err), 0);
	uint64_t n = s.total;
	hist_snapshot_fini(&s);
	return n;
}

static char *text(void)
{
	struct buf b = BUF_INIT;
	struct err err = { 0 };
	assert_int_equal(metrics_prometheus(&b, &err), 0);
	assert_int_equal(buf_add_u8(&b, 0), 0);
	return (char *)b.data;
}

static void test_nothing(void **state)
{
	(void)state;
	char *t = text();
	assert_string_equal(t, "");
	free(t);
	assert_int_equal(total(METRIC_drain), 0);
}

static void test_threads(void **state)
{
	(void)state;
	pthread_t t[THREADS];
	pthread_barrier_init(&start, NULL, THREADS);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, work, (void *)i), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(total(METRIC_bpf_run), THREADS * 1000);
	assert_int_equal(total(METRIC_stack_depth), THREADS * 1000);
	assert_int_equal(metrics_lost(), 0);
	pthread_barrier_destroy(&start);
}

static int leave_early(bool early)
{
	METRIC_TIME(query);
	nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	if (early)
		return 1;
	return 0;
}

/* At least as long as it slept, at most as long as we saw it take. */
static void test_time(void **state)
{
	(void)state;
	struct hist_snapshot s;
	struct err err = { 0 };
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	leave_early(false);
	leave_early(true);
	clock_gettime(CLOCK_MONOTONIC, &b);
	uint64_t took = (uint64_t)(b.tv_sec - a.tv_sec) * 1000000000ull + (uint64_t)b.tv_nsec -
			(uint64_t)a.tv_nsec;
	hist_snapshot_init(&s, 6);
	assert_int_equal(metric_snapshot(METRIC_query, &s, &err), 0);
	assert_int_equal(s.total, 2);
	assert_true(hist_snapshot_at(&s, 0).high >= 20000000);
	assert_true(hist_snapshot_at(&s, 1).low <= took);
	hist_snapshot_fini(&s);
}

/* Metrics that have a value, each whole. */
static void test_text(void **state)
{
	(void)state;
	char *t = text(), *p = strstr(t, "# HELP ascribe_stack_depth_frames ");
	assert_non_null(p);
	assert_non_null(strstr(t, "# TYPE ascribe_bpf_run_seconds histogram\n"));
	assert_null(strstr(t, "ascribe_drain_seconds"));
	p = strchr(p, '\n');
	assert_string_equal(p, "\n# TYPE ascribe_stack_depth_frames histogram\n"
			       "ascribe_stack_depth_frames_bucket{le=\"1\"} 0\n"
			       "ascribe_stack_depth_frames_bucket{le=\"5\"} 0\n"
			       "ascribe_stack_depth_frames_bucket{le=\"10\"} 0\n"
			       "ascribe_stack_depth_frames_bucket{le=\"25\"} 8000\n"
			       "ascribe_stack_depth_frames_bucket{le=\"50\"} 8000\n"
			       "ascribe_stack_depth_frames_bucket{le=\"100\"} 8000\n"
			       "ascribe_stack_depth_frames_bucket{le=\"250\"} 8000\n"
			       "ascribe_stack_depth_frames_bucket{le=\"+Inf\"} 8000\n"
			       "ascribe_stack_depth_frames_sum 160000\n"
			       "ascribe_stack_depth_frames_count 8000\n");
	free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_time),
		cmocka_unit_test(test_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
