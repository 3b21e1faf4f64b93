/* SPDX-License-Identifier: Apache-2.0 */
/* How long a program is left alone after looks at it and at others of its user. */
#include "proc/proc.h"
#include "proc/reader.h"
#include "util/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull
#define USERS_IMAGES 100

static struct procs *procs;

/* A process of a user, as the side-band tells of it. */
static struct proc_image *start(uint32_t user)
{
	pid_t pid = fork();
	if (!pid) {
		if (user && setresuid(user, user, user))
			_exit(70);
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when an assertion has failed */
		for (;;)
			pause();
	}
	assert_true(pid > 0);
	while (user && proc_user((uint32_t)pid) != user)
		usleep(1000);
	procs_fork(procs, (uint32_t)pid, 1, proc_now_ns());
	return procs_find(procs, (uint32_t)pid, UINT64_MAX);
}

static void stop(const struct proc_image *im)
{
	kill((pid_t)im->tgid, SIGKILL);
	waitpid((pid_t)im->tgid, NULL, 0);
}

/* Look at an image for so long; return what that took, for as long as it is left alone. */
static uint64_t look(struct proc_image *im, uint64_t ns)
{
	uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID), took;
	while ((took = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin) < ns)
		;
	procs_looked(procs, im, begin);
	return took;
}

static uint64_t pause_of(struct proc_image *im)
{
	uint64_t until = procs_paused_until(procs, im), now = proc_now_ns();
	return until > now ? until - now : 0;
}

static int set_up(void **state)
{
	(void)state;
	return procs_new(&procs, NULL);
}

static int tear_down(void **state)
{
	(void)state;
	procs_free(procs);
	return 0;
}

/* 20 ms at once; then 20 times what it took, so that it gets a twentieth of all time. */
static void test_one_image(void **state)
{
	(void)state;
	struct proc_image *im = start(0);
	assert_int_equal(pause_of(im), 0);
	look(im, 5 * MS);
	assert_int_equal(pause_of(im), 0);
	uint64_t took = look(im, 30 * MS) + 5 * MS;
	assert_in_range(pause_of(im), 100 * MS, 20 * (took - 20 * MS) + 20 * MS);
	stop(im);
}

/*
 * A user's programs may take 100 ms at once, and then a tenth of all time together; the first 1 ms
 * of each is free. Those that take less are looked at all the same, and so are another user's.
 */
static void test_one_user(void **state)
{
	(void)state;
	struct proc_image *v[USERS_IMAGES], *small, *other;
	uint64_t begin = proc_now_ns(), sum = 0, most = 0;
	if (getuid())
		skip();
	for (int i = 0; i < USERS_IMAGES; i++)
		v[i] = start(47301);
	small = start(47301);
	other = start(47302);
	look(other, 10 * MS);
	look(small, MS / 10);
	/* Once each: not so long that it is left alone for its own sake. */
	for (int i = 0; i < USERS_IMAGES && !pause_of(v[0]); i++) {
		most = (100 + USERS_IMAGES + 10) * MS + (proc_now_ns() - begin) / 10;
		sum += look(v[i], 10 * MS);
	}
	assert_true(sum > 100 * MS);
	assert_true(sum < most + 10 * MS);
	assert_true(pause_of(v[0]));
	assert_int_equal(pause_of(small), 0);
	assert_int_equal(pause_of(other), 0);
	usleep(pause_of(v[0]) / 1000 + 50000);
	assert_int_equal(pause_of(v[0]), 0);
	for (int i = 0; i < USERS_IMAGES; i++)
		stop(v[i]);
	stop(small);
	stop(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one_image, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_one_user, set_up, tear_down),
	};
	return cmocka_run_group_tests_name("looks", tests, NULL, NULL);
}
