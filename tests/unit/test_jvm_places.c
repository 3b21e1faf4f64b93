/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of one user look like JVMs, and that user stops each helper that asks them. The JVMs of
 * others are asked all the same, and no helper stays.
 */
#include "proc/reader.h"
#include "sandbox/kept.h"
#include "stacks/jvm.h"
#include "stacks/jvm_helper.h"
#include "util/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 20
#define ANSWER_MS 1500
#define USER 47110u

static struct jvm {
	pid_t pid;
	struct proc_root root;
	struct jvm_map map;
	int rc;
} jvms[MANY + 1]; /* the last one is another user's */

/* The helper, executed anew: this program. It is stopped as soon as it has that user. */
__attribute__((constructor(101))) static void begin(int argc, char **argv)
{
	(void)argc;
	if (strcmp(argv[0], "ascribe-jvm") != 0)
		return;
	prctl(PR_SET_NAME, "ascribe-jvm");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	raise(SIGSTOP);
	_exit(1);
}

static void start_jvm(struct jvm *j, uid_t user)
{
	int rc;
	j->pid = fork();
	if (!j->pid) {
		if (setresgid(user, user, user) || setresuid(user, user, user) ||
		    prctl(PR_SET_PDEATHSIG, SIGKILL))
			_exit(1);
		prctl(PR_SET_DUMPABLE, 1);
		for (;;)
			pause();
	}
	do { /* until it has that user */
		poll(NULL, 0, 5);
	} while (proc_user((uint32_t)j->pid) != user);
	while ((rc = proc_root_open(&j->root, (uint32_t)j->pid)) == -EINPROGRESS)
		poll(NULL, 0, 1);
	assert_int_equal(rc, 0);
}

static int ask(struct jvm *j)
{
	return jvm_write_map(&j->root, (uint32_t)j->pid, ANSWER_MS, &j->map);
}

static size_t helpers(void)
{
	char command[64], line[32];
	size_t n = 0;
	snprintf(command, sizeof(command), "pgrep -x ascribe-jvm -P %d", (int)keeper_pid());
	FILE *f = popen(command, "r"); /* NOLINT */
	while (f && fgets(line, sizeof(line), f))
		n++;
	if (f)
		pclose(f);
	return n;
}

static void test_stopped(void **state)
{
	size_t asked = 0;
	(void)state;
	if (geteuid())
		skip();
	for (size_t i = 0; i <= MANY; i++)
		start_jvm(&jvms[i], USER + i / MANY);
	for (size_t i = 0; i < MANY; i++) {
		jvms[i].rc = ask(&jvms[i]);
		assert_true(jvms[i].rc == -EINPROGRESS || jvms[i].rc == -EBUSY);
		asked += jvms[i].rc == -EINPROGRESS;
	}
	print_message("%zu of one user at a time\n", asked);
	assert_true(asked > 1 && asked < MANY);
	assert_int_equal(ask(&jvms[MANY]), -EINPROGRESS);
	assert_true(helpers() >= 2);

	poll(NULL, 0, 2 * ANSWER_MS);
	for (size_t i = 0; i <= MANY; i++)
		if (i == MANY || jvms[i].rc == -EINPROGRESS)
			assert_int_equal(ask(&jvms[i]), -ETIMEDOUT);
	for (unsigned i = 0; i < 100 && helpers(); i++) { /* they were killed, and are reaped */
		jvm_finish(10);
		poll(NULL, 0, 20);
	}
	assert_int_equal(helpers(), 0);
	for (size_t i = 0; i <= MANY; i++) {
		proc_root_close(&jvms[i].root);
		kill(jvms[i].pid, SIGKILL);
		waitpid(jvms[i].pid, NULL, 0);
	}
}

int main(void)
{
	static keeper_op *const ops[] = { jvm_helper_op, kept_op };
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_stopped) };
	char store[] = "store", *const arguments[] = { store, NULL };
	struct err err = { 0 };
	if (keeper_start(ops, sizeof(ops) / sizeof(ops[0]), arguments, &err)) {
		printf("%s\n", err.text);
		return 1;
	}
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	keeper_end();
	return rc;
}
