/* SPDX-License-Identifier: Apache-2.0 */
/* The child that parses: how users and lanes share it, what it may do and what it may not. */
#include "sandboxed.h"

#include <limits.h>

/* Submit for a user; the deadline is far. */
static struct sandbox_job *submit(struct fixture *f, unsigned op, uint32_t user, const char *text)
{
	struct sandbox_call c = { .op = op,
				  .user = user,
				  .bytes = text,
				  .len = strlen(text),
				  .deadline_ms = 2000,
				  .max_reply = 100 };
	struct sandbox_job *job = NULL;
	assert_int_equal(sandbox_submit(f->s, &c, &job), 0);
	return job;
}

/* Users who keep all of their workers busy delay nobody else, and nothing waits for them. */
static void test_slow_users(void **state)
{
	struct fixture *f = *state;
	struct sandbox_job *slow[6];
	struct sandbox_stats st;
	struct timespec begin;
	for (unsigned i = 0; i < 6; i++)
		slow[i] = submit(f, HANG, 1, "");
	struct sandbox_job *own = submit(f, ECHO, 1, "own"), *other = submit(f, ECHO, 2, "other");
	clock_gettime(CLOCK_MONOTONIC, &begin);
	assert_int_equal(await(f, &other), 0);
	assert_true(since_ms(&begin) < 3000);
	assert_memory_equal(f->reply.data, "other", 5);
	sandbox_stats(f->s, &st);
	assert_int_equal(st.calls, 3); /* two of the slow ones, and that of the other user */
	uint64_t cpu_ns;
	assert_int_equal(sandbox_take(&own, &f->reply, &cpu_ns), -EINPROGRESS);
	for (unsigned i = 0; i < 6; i++)
		sandbox_cancel(&slow[i]);
	assert_int_equal(await(f, &own), 0); /* when the cancelled ones that run are late */
	assert_memory_equal(f->reply.data, "own", 3);
}

/* What a worker keeps is bounded, and costs no later job its answer. */
static void test_memory_kept(void **state)
{
	struct fixture *f = *state;
	if (!CONFINED)
		skip();
	assert_int_equal(ask(f, KEEP, "20", 3, NULL, 0), 0);
	expect_alive(f);
	assert_int_equal(spawned(f), 1);
	/* Beside the 20 that were kept there was no room: a new one */
	assert_int_equal(ask(f, ALLOCATE, "50", 3, NULL, 0), 0);
	assert_int_equal(ask(f, ALLOCATE, "70", 3, NULL, 0), -ENOMEM); /* there is in none */
	assert_int_equal(spawned(f), 3);
	assert_int_equal(ask(f, KEEP, "50", 3, NULL, 0), 0);
	expect_alive(f);
	/* The one that ran out of memory was replaced, and the one that keeps much */
	assert_int_equal(spawned(f), 5);
}

/* In the lane whose workers keep files, a second worker begins later than elsewhere. */
static void test_keeping_lane(void **state)
{
	struct fixture *f = *state;
	struct sandbox_job *slow = NULL;
	struct timespec begin;
	struct sandbox_call c = { .lane = SANDBOX_KEEPING_LANE,
				  .op = HANG,
				  .deadline_ms = 10000,
				  .user = 1,
				  .max_reply = 100 };
	clock_gettime(CLOCK_MONOTONIC, &begin);
	assert_int_equal(sandbox_submit(f->s, &c, &slow), 0);
	c.op = ECHO;
	assert_int_equal(run(f, &c), 0);
	assert_true(since_ms(&begin) >= SANDBOX_SLOW_KEEPING_MS);
	assert_int_equal(spawned(f), 2);
	sandbox_cancel(&slow);
}

/* Where CPUs are busy another worker is no help: it would unpack the same files, and be as late. */
static void test_keeping_lane_starved(void **state)
{
	struct fixture *f = *state;
	struct sandbox_call c = {
		.lane = SANDBOX_KEEPING_LANE, .op = ECHO, .deadline_ms = 10000, .max_reply = 100
	};
	struct sandbox_job *job = NULL;
	struct timespec begin;
	char loops[16] = "10000000";
	assert_int_equal(run(f, &c), 0);
	c.op = BURN;
	c.bytes = loops;
	c.len = sizeof(loops);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	assert_int_equal(run(f, &c), 0);
	snprintf(loops, sizeof(loops), "%.0f", 1e7 * 80 / since_ms(&begin));
	pid_t worker = child_of(child_of(getpid())), loop = starve(worker, 10);
	if (!loop)
		skip();
	clock_gettime(CLOCK_MONOTONIC, &begin);
	assert_int_equal(sandbox_submit(f->s, &c, &job), 0);
	c.op = ECHO;
	int rc = run(f, &c);
	double ms = since_ms(&begin);
	starve_end(loop);
	print_message("80 ms of CPU time took %.0f ms\n", ms);
	assert_int_equal(rc, 0);
	assert_int_equal(await(f, &job), 0);
	assert_true(ms > SANDBOX_SLOW_KEEPING_MS);
	assert_int_equal(spawned(f), 1);
}

/*
 * A lower limit counts for all that comes; there are as many workers as may be, one for each lane
 * at least.
 */
static void test_limits(void **state)
{
	struct fixture *f = *state;
	struct sandbox_job *slow[3];
	struct sandbox_stats st;
	expect_alive(f);
	sandbox_limit(f->s, 16u << 20, 3);
	sandbox_stats(f->s, &st);
	assert_int_equal(st.memory_max, 48u << 20);
	assert_int_equal(ask(f, ALLOCATE, "20", 3, NULL, 0), CONFINED ? -ENOMEM : 0);
	sandbox_stats(f->s, &st);
	uint64_t calls = st.calls, until = now_ns() + 500000000u;
	for (unsigned i = 0; i < 3; i++)
		slow[i] = submit(f, HANG, i, "");
	while (sandbox_wait(f->s, until) && now_ns() < until)
		;
	sandbox_stats(f->s, &st);
	assert_int_equal(st.calls, calls + 2);
	struct sandbox_call c = {
		.lane = 1, .op = ECHO, .bytes = "x", .len = 1, .deadline_ms = 2000, .max_reply = 100
	};
	assert_int_equal(run(f, &c), 0);
	for (unsigned i = 0; i < 3; i++)
		sandbox_cancel(&slow[i]);
}

/* Neither submitting nor ticking waits, whatever a worker does. */
static void test_no_waiting(void **state)
{
	struct fixture *f = *state;
	struct sandbox_job *job[4];
	struct timespec begin;
	expect_alive(f);
	pid_t worker = child_of(child_of(getpid()));
	assert_int_equal(kill(worker, SIGSTOP), 0);
	assert_int_equal(kill(child_of(getpid()), SIGSTOP), 0);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (unsigned i = 0; i < 4; i++)
		job[i] = submit(f, ECHO, i, "x");
	for (unsigned i = 0; i < 1000; i++)
		assert_int_not_equal(sandbox_tick(f->s), -1);
	assert_true(since_ms(&begin) < 1000);
	for (unsigned i = 0; i < 4; i++)
		sandbox_cancel(&job[i]);
}

/* The queue is bounded, that of one user more narrowly. */
static void test_full(void **state)
{
	struct fixture *f = *state;
	struct sandbox_call c = { .op = HANG, .user = 1, .deadline_ms = 60000, .max_reply = 100 };
	static struct sandbox_job *job[SANDBOX_QUEUE_USER + SANDBOX_WORKERS];
	unsigned n = 0;
	while (n < SANDBOX_QUEUE_USER + SANDBOX_WORKERS && !sandbox_submit(f->s, &c, &job[n]))
		n++;
	assert_in_range(n, SANDBOX_QUEUE_USER, SANDBOX_QUEUE_USER + SANDBOX_WORKERS_USER);
	assert_int_equal(sandbox_submit(f->s, &c, &job[n]), -EBUSY);
	struct sandbox_job *other = submit(f, ECHO, 2, "other");
	assert_int_equal(await(f, &other), 0);
	while (n)
		sandbox_cancel(&job[--n]);
}

/* Submit a job of this user and priority. */
static struct sandbox_job *submit_of(struct fixture *f, uint32_t user, unsigned priority)
{
	const struct sandbox_call c = { .op = ECHO,
					.user = user,
					.priority = priority,
					.bytes = "x",
					.len = 1,
					.deadline_ms = 60000,
					.max_reply = 100 };
	struct sandbox_job *job;
	assert_int_equal(sandbox_submit(f->s, &c, &job), 0);
	return job;
}

/* A job of a higher priority goes before those of its user that were queued earlier. */
static void test_priority(void **state)
{
	struct fixture *f = *state;
	struct sandbox_job *job[30], *urgent, *none;
	const struct sandbox_call higher = { .op = ECHO, .priority = SANDBOX_PRIORITY_MAX + 1 };
	uint64_t cpu_ns;
	assert_int_equal(sandbox_submit(f->s, &higher, &none), -EINVAL);
	for (unsigned i = 0; i < 30; i++)
		job[i] = submit_of(f, 1, 0);
	urgent = submit_of(f, 1, 1);
	assert_int_equal(await(f, &urgent), 0);
	assert_int_equal(sandbox_take(&job[29], &f->reply, &cpu_ns), -EINPROGRESS);
	for (unsigned i = 0; i < 30; i++)
		assert_int_equal(await(f, &job[i]), 0);
}

/* A user's urgent jobs go before another's of a lower priority, but only few of them. */
static void test_priority_of_others(void **state)
{
	struct fixture *f = *state;
	struct sandbox_job *urgent[300], *other;
	uint64_t cpu_ns;
	for (unsigned i = 0; i < 300; i++)
		urgent[i] = submit_of(f, 1, SANDBOX_PRIORITY_MAX);
	other = submit_of(f, 2, 0);
	assert_int_equal(await(f, &urgent[1]), 0);
	assert_int_equal(sandbox_take(&other, &f->reply, &cpu_ns), -EINPROGRESS);
	assert_int_equal(await(f, &other), 0);
	assert_int_equal(sandbox_take(&urgent[100], &f->reply, &cpu_ns), -EINPROGRESS);
	for (unsigned i = 0; i < 300; i++)
		if (urgent[i])
			assert_int_equal(await(f, &urgent[i]), 0);
}

/* However many jobs one user has, the first one of another has its turn at once. */
static void test_turns(void **state)
{
	struct fixture *f = *state;
	struct sandbox_job *job[300], *other[3];
	uint64_t cpu_ns;
	for (unsigned i = 0; i < 300; i++)
		job[i] = submit(f, ECHO, 1, "many");
	for (unsigned i = 0; i < 3; i++)
		other[i] = submit(f, ECHO, 2, "few");
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(await(f, &other[i]), 0);
	assert_int_equal(sandbox_take(&job[50], &f->reply, &cpu_ns), -EINPROGRESS);
	for (unsigned i = 0; i < 300; i++)
		assert_int_equal(await(f, &job[i]), 0);
}

static void test_confined(void **state)
{
	struct fixture *f = *state;
	char name[] = "/tmp/ascribe-sandbox-XXXXXX";
	if (!CONFINED)
		skip();
	int fd = mkstemp(name);
	assert_int_equal(write(fd, "ab", 2), 2);
	for (uint8_t way = 0; way < N_FORBIDDEN; way++) {
		int rc = ask(f, FORBIDDEN, &way, 1, &fd, 1);
		if (rc != -ECHILD)
			fail_msg("way %u: %d", way, rc);
	}
	assert_int_equal(lseek(fd, 0, SEEK_END), 2);
	close(fd);
	unlink(name);
	assert_int_equal(ask(f, PATHS, NULL, 0, NULL, 0), 0);
	assert_int_equal(ask(f, ALLOCATE, "32", 3, NULL, 0), 0);
	assert_int_equal(ask(f, ALLOCATE, "80", 3, NULL, 0), -ENOMEM);
	expect_alive(f);
}

/* "Not done", "ask again": a caller that believed them would wait for a job that is gone. */
static void test_results(void **state)
{
	static const int lies[] = { -EINPROGRESS, -EAGAIN, -EBUSY,  -ECHILD, -ETIMEDOUT,
				    -4096,	  INT_MIN, INT_MAX, 1 };
	struct fixture *f = *state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		char text[16];
		snprintf(text, sizeof(text), "%d", lies[i]);
		assert_int_equal(ask(f, RESULT, text, sizeof(text), NULL, 0), -EBADMSG);
	}
	assert_int_equal(ask(f, RESULT, "-2", 3, NULL, 0), -ENOENT);
	expect_alive(f);
}

/* Users are charged for the CPU time that their parsers took, whatever these say. */
static void test_claims(void **state)
{
	struct fixture *f = *state;
	char loops[16] = "30000000";
	struct sandbox_call c = { .op = CLAIM,
				  .bytes = loops,
				  .len = sizeof(loops),
				  .deadline_ms = 10000,
				  .max_reply = 100 };
	struct sandbox_job *job = NULL;
	struct sandbox_stats st;
	uint64_t cpu_ns = 0;
	int rc;
	if (!CONFINED)
		skip();
	expect_alive(f);
	assert_int_equal(sandbox_submit(f->s, &c, &job), 0);
	while ((rc = sandbox_take(&job, &f->reply, &cpu_ns)) == -EINPROGRESS)
		assert_true(sandbox_wait(f->s, now_ns() + 1000000000u));
	assert_int_equal(rc, 0);
	sandbox_stats(f->s, &st);
	print_message("%.1f ms\n", (double)cpu_ns / 1e6);
	assert_true(cpu_ns > 5000000 && st.cpu_ns >= cpu_ns);
}

static unsigned long long status_of(const char *text, const char *key, int base)
{
	const char *p = strstr(text, key);
	if (!p)
		fail_msg("no %s", key);
	return strtoull(p + strlen(key), NULL, base);
}

/* The kernel's word on what it is. */
static void test_unprivileged(void **state)
{
	struct fixture *f = *state;
	char path[64], text[4096] = "";
	if (!CONFINED)
		skip();
	expect_alive(f);
	snprintf(path, sizeof(path), "/proc/%d/status", (int)child_of(child_of(getpid())));
	FILE *p = fopen(path, "r");
	assert_non_null(p);
	size_t n = fread(text, 1, sizeof(text) - 1, p);
	fclose(p);
	text[n] = 0;
	assert_non_null(strstr(text, "ascribe-parser"));
	assert_int_equal(status_of(text, "CapEff:", 16) | status_of(text, "CapPrm:", 16) |
				 status_of(text, "CapInh:", 16),
			 0);
	assert_int_equal(status_of(text, "NoNewPrivs:", 10), 1);
	assert_int_equal(status_of(text, "Seccomp:", 10), 2);
	if (geteuid() == 0)
		assert_int_equal(status_of(text, "Uid:", 10), 4294836223u); /* that of no account */
	snprintf(path, sizeof(path), "/proc/%llu/fd", status_of(text, "\nPid:", 10));
	assert_int_equal(access(path, F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_slow_users, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_memory_kept, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_keeping_lane, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_keeping_lane_starved, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_limits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_waiting, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_full, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_priority, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_priority_of_others, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_turns, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_confined, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unprivileged, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_results, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_claims, set_up, tear_down),
	};
	/*
	 * As the recorder does: a worker that hangs is late only if it ran for half of its time.
	 * Without the right it takes longer.
	 */
	setpriority(PRIO_PROCESS, 0, -20);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
