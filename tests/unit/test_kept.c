/* SPDX-License-Identifier: Apache-2.0 */
/* A recorder that was taken over cannot have its keeper start processes without end. */
#include "sandbox/kept.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define WAIT_MS 20000u

static int op(const struct keeper_question *q, struct keeper_answer *ret, struct err *err)
{
	(void)q;
	pid_t pid = fork();
	while (!pid)
		pause();
	return kept_started(ret, pid, err);
}

static int start(pid_t *ret)
{
	static const struct keeper_question nothing;
	struct err err = { 0 };
	return kept_start(op, &nothing, ret, &err);
}

static void test_limit(void **state)
{
	pid_t pid[KEPT_MAX], more;
	(void)state;
	for (unsigned i = 0; i < KEPT_MAX; i++)
		assert_int_equal(start(&pid[i]), 0);
	assert_int_equal(start(&more), -EAGAIN);
	kept_kill(pid[0]);
	kept_await(pid[0], WAIT_MS);
	assert_int_equal(start(&pid[0]), 0);
	assert_int_equal(start(&more), -EAGAIN);
	for (unsigned i = 0; i < KEPT_MAX; i++) {
		kept_kill(pid[i]);
		kept_await(pid[i], WAIT_MS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_limit) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
