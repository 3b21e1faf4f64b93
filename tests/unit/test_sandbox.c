/* SPDX-License-Identifier: Apache-2.0 */
/* The child that parses: what its death, its silence and its end cost, and what it knows. */
#include "sandboxed.h"
#include "secret.h"

static void test_requests(void **state)
{
	struct fixture *f = *state;
	char name[] = "/tmp/ascribe-sandbox-XXXXXX", *big = malloc(SANDBOX_REQUEST_MAX + 1);
	int fds[2] = { mkstemp(name), -1 };
	assert_true(fds[0] >= 0);
	assert_int_equal(write(fds[0], "file", 4), 4);
	fds[1] = open("/proc/self/comm", O_RDONLY); /* ours, though a child reads it */
	assert_int_equal(ask(f, READ_FDS, NULL, 0, fds, 2), 0);
	f->reply.data[f->reply.len] = 0;
	assert_string_equal((char *)f->reply.data, "filetest_sandbox\n");
	memset(big, 'x', SANDBOX_REQUEST_MAX + 1);
	assert_int_equal(ask(f, ECHO, big, SANDBOX_REQUEST_MAX, NULL, 0), 0);
	assert_int_equal(f->reply.len, SANDBOX_REQUEST_MAX);
	assert_memory_equal(f->reply.data, big, SANDBOX_REQUEST_MAX);
	assert_int_equal(ask(f, ECHO, big, SANDBOX_REQUEST_MAX + 1, NULL, 0), -E2BIG);
	assert_int_equal(ask(f, BIG, NULL, 0, NULL, 0), 0);
	assert_int_equal(f->reply.len, 3u << 20);
	struct sandbox_call small = { .op = BIG, .deadline_ms = 10000, .max_reply = 1000 };
	assert_int_equal(run(f, &small), -E2BIG);
	expect_alive(f);
	close(fds[0]);
	close(fds[1]);
	unlink(name);
	free(big);
}

static void test_recycled(void **state)
{
	struct fixture *f = *state;
	for (int i = 0; i < 24; i++)
		expect_alive(f);
	assert_int_equal(spawned(f), 3);
}

static void sleep_ms(unsigned ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000l };
	nanosleep(&ts, NULL);
}

/*
 * One that goes on for ever is late by its own doing; on a busy machine that may not be seen the
 * first time.
 */
static void expect_late(struct fixture *f, unsigned deadline_ms)
{
	struct sandbox_call hang = { .op = HANG, .deadline_ms = deadline_ms, .max_reply = 100 };
	int rc;
	while ((rc = run(f, &hang)) == -EAGAIN || rc == -EBUSY)
		sleep_ms(20);
	assert_int_equal(rc, -ETIMEDOUT);
}

static void test_deaths(void **state)
{
	struct fixture *f = *state;
	struct sandbox_stats st;
	for (int i = 0; i < 3; i++) {
		expect_late(f, 100);
		expect_alive(f);
	}
	if (CONFINED) {
		assert_int_equal(ask(f, CRASH, NULL, 0, NULL, 0), -ECHILD);
		expect_alive(f);
	}
	sandbox_stats(f->s, &st);
	assert_int_equal(st.late - st.stalled, 3);
	/* Asked once more of a new one, which had served nobody */
	assert_int_equal(st.died, 2 * CONFINED);
}

static int ask_soon(struct fixture *f)
{
	struct sandbox_call c = {
		.op = ECHO, .bytes = "x", .len = 1, .deadline_ms = 200, .max_reply = 100
	};
	return run(f, &c);
}

/* Then one that had no time answers again, without another start of ours. */
static void expect_recovery(struct fixture *f)
{
	int rc;
	while ((rc = ask_soon(f)) == -EAGAIN || rc == -EBUSY)
		sleep_ms(20);
	assert_int_equal(rc, 0);
}

/*
 * A worker that is not given the time has not failed: what it was asked is not refused, and others
 * are not kept waiting.
 */
static void test_stalled_worker(void **state)
{
	struct fixture *f = *state;
	struct sandbox_stats st;
	expect_alive(f);
	pid_t worker = child_of(child_of(getpid()));
	assert_true(worker > 0);
	assert_int_equal(kill(worker, SIGSTOP), 0);
	assert_int_equal(ask_soon(f), -EAGAIN);
	sandbox_stats(f->s, &st);
	assert_int_equal(st.late, 1);
	assert_int_equal(st.stalled, 1);
	expect_recovery(f);
}

/* What a process has run so far. */
static double cpu_ms(pid_t pid)
{
	unsigned long long ns = 0;
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	FILE *f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%llu", &ns), 1);
	fclose(f);
	return (double)ns / 1e6;
}

/*
 * Time in the run queue does not count: a parse that needs little CPU time ends well, however late.
 */
static void test_starved_worker(void **state)
{
	struct fixture *f = *state;
	struct sandbox_stats st;
	struct timespec begin;
	double ms;
	expect_alive(f);
	char loops[16] = "10000000";
	pid_t worker = child_of(child_of(getpid()));
	double before = cpu_ms(worker);
	assert_int_equal(ask(f, BURN, loops, sizeof(loops), NULL, 0), 0);
	snprintf(loops, sizeof(loops), "%.0f", 1e7 * 60 / (cpu_ms(worker) - before));
	pid_t loop = starve(worker, 10);
	if (!loop)
		skip();
	struct sandbox_call c = {
		.op = BURN, .bytes = loops, .len = sizeof(loops), .deadline_ms = 200, .max_reply = 1
	};
	clock_gettime(CLOCK_MONOTONIC, &begin);
	int rc = run(f, &c);
	ms = since_ms(&begin);
	starve_end(loop);
	sandbox_stats(f->s, &st);
	print_message("60 ms of CPU time took %.0f ms\n", ms);
	assert_int_equal(rc, 0);
	assert_int_equal(st.late, 0);
	assert_true(ms > 200);
}

/* The nursery that is no more answers: another one takes its place, also while a worker serves. */
static void expect_replaced(struct fixture *f, int signal)
{
	struct sandbox_stats st;
	struct timespec begin;
	sandbox_stats(f->s, &st);
	uint64_t restarted = st.restarted;
	pid_t nursery = child_of(getpid());
	assert_true(nursery > 0);
	assert_int_equal(kill(nursery, signal), 0);
	sandbox_retire(f->s, 0);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	expect_recovery(f);
	assert_true(since_ms(&begin) < 10000);
	sandbox_stats(f->s, &st);
	assert_int_equal(st.restarted, restarted + 1);
	for (int i = 0; i < 20; i++)
		expect_alive(f);
	for (int i = 0; child_of(getpid()) == nursery && i < 100; i++) {
		/* Killed, and to be reaped */
		sleep_ms(20);
		expect_alive(f);
	}
	assert_int_not_equal(child_of(getpid()), nursery);
	expect_late(f, 100); /* the worker that is killed is the lane's */
	expect_alive(f);
}

static void test_killed_nursery(void **state)
{
	struct fixture *f = *state;
	for (int i = 0; i < 3; i++) {
		expect_alive(f);
		expect_replaced(f, SIGKILL);
	}
}

/* One that is stopped does not answer: it is replaced as well. */
static void test_stopped_nursery(void **state)
{
	struct fixture *f = *state;
	expect_alive(f);
	expect_replaced(f, SIGSTOP);
}

/* The end does not wait for a nursery that is stopped. */
static void test_end(void **state)
{
	struct fixture *f = *state;
	struct timespec begin;
	expect_alive(f);
	assert_int_equal(kill(child_of(getpid()), SIGSTOP), 0);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	sandbox_free(f->s);
	f->s = NULL;
	assert_true(since_ms(&begin) < 2000);
}

/* Whenever it was started, a child holds nothing of what we had read before. */
static void test_no_secrets(void **state)
{
	struct fixture *f = *state;
	if (!CONFINED || geteuid() != 0)
		skip();
	make_secret();
	sandbox_free(f->s);
	struct sandbox_config cfg = { .ops = ops, .n_ops = OPS, .memory = 64u << 20, .serves = 8 };
	assert_int_equal(sandbox_new(&f->s, &cfg, NULL), 0);
	expect_alive(f);
	assert_false(holds_secret(child_of(getpid())));
	assert_false(holds_secret(child_of(child_of(getpid()))));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_requests, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_recycled, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_deaths, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_stalled_worker, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_starved_worker, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_killed_nursery, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_stopped_nursery, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_secrets, set_up, tear_down),
	};
	/*
	 * As the recorder does: a worker that hangs is late only if it ran for half of its time.
	 * Without the right it takes longer.
	 */
	setpriority(PRIO_PROCESS, 0, -20);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
