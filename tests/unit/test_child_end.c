/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a child does that was taken over, its parent goes on. */
#include "sandbox/child_end.h"
#include "util/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_S 60u

static int pair[2];

static int set_up(void **state)
{
	(void)state;
	return socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair);
}

static int tear_down(void **state)
{
	(void)state;
	return close(pair[0]) | close(pair[1]);
}

/* It ignores what can be ignored, and goes on. */
static pid_t stubborn(void)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_IGN);
	alarm(0);
	for (;;)
		pause();
}

static void test_deadline(void **state)
{
	const uint64_t began = clock_ns(CLOCK_MONOTONIC);
	int status = 0;
	pid_t pid = stubborn();
	(void)state;
	assert_int_equal(child_end(pid, pair[0], 1, NULL, NULL, &status), -ETIME);
	assert_true(clock_ns(CLOCK_MONOTONIC) - began < LONG_S * 1000000000ull);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), -1); /* it was reaped */
}

static bool never(const void *ctx)
{
	(void)ctx;
	return false;
}

static void test_too_much(void **state)
{
	const uint64_t began = clock_ns(CLOCK_MONOTONIC);
	int status = 0;
	pid_t pid = stubborn();
	(void)state;
	assert_int_equal(child_end(pid, pair[0], 2 * LONG_S, never, NULL, &status), -EFBIG);
	assert_true(clock_ns(CLOCK_MONOTONIC) - began < LONG_S * 1000000000ull);
	assert_int_equal(waitpid(pid, &status, 0), -1);
}

static void test_stopped(void **state)
{
	int status = 0;
	pid_t pid = stubborn();
	(void)state;
	kill(pid, SIGSTOP);
	assert_int_equal(child_end(pid, pair[0], 1, NULL, NULL, &status), -ETIME);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void test_nobody_waits(void **state)
{
	int status = 0;
	pid_t pid = stubborn();
	(void)state;
	shutdown(pair[1], SHUT_RDWR);
	assert_int_equal(child_end(pid, pair[0], LONG_S, NULL, NULL, &status), -EPIPE);
	assert_true(WIFSIGNALED(status));
}

static void test_by_itself(void **state)
{
	int status = 0;
	pid_t pid = fork();
	(void)state;
	if (!pid)
		_exit(7);
	assert_int_equal(child_end(pid, pair[0], LONG_S, NULL, NULL, &status), 0);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = { TEST(test_deadline), TEST(test_too_much),
					    TEST(test_stopped), TEST(test_nobody_waits),
					    TEST(test_by_itself) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
