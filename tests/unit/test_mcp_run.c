/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that an agent runs: floods, sleepers and crashes end in bounds, and leave no process. */
#include "cli/mcp_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int says(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		puts(argv[i]);
	fputs("a warning\n", stderr);
	return argc > 3 ? 1 : 0;
}

static int floods(int argc, char **argv)
{
	FILE *f = argc > 1 ? stderr : stdout;
	(void)argv;
	for (long i = 0;; i++)
		fprintf(f, "line %ld\n", i);
	return 0;
}

static int sleeps(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	fputs("whole\npart", stdout);
	fflush(stdout);
	for (;;)
		pause();
	return 0;
}

static int closes(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	close(1);
	close(2);
	for (;;)
		pause();
	return 0;
}

static int spins(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	for (volatile unsigned long i = 0;; i++)
		;
	return 0;
}

static int crashes(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	puts("before");
	fflush(stdout);
	raise(SIGKILL);
	return 0;
}

/* Its input is not that of the server, and nothing that was open is. */
static int looks(int argc, char **argv)
{
	char c;
	(void)argc;
	int fd = atoi(argv[1]);
	printf("%zd %d\n", read(0, &c, 1), write(fd, "x", 1) < 0 && errno == EBADF);
	return 0;
}

static const struct mcp_limits limits = { 1000, 2 };

static char *run(int (*f)(int, char **), const char *const *words, bool want_error)
{
	char *argv[8] = { strdup("x") }, *text = NULL;
	int argc = 1;
	bool error = !want_error;
	for (; words && words[argc - 1]; argc++)
		argv[argc] = strdup(words[argc - 1]);
	assert_int_equal(mcp_run(f, argc, argv, &limits, &text, &error), 0);
	assert_int_equal(error, want_error);
	for (int i = 0; i < argc; i++)
		free(argv[i]);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	return text;
}

static void expect(int (*f)(int, char **), const char *const *words, bool error, const char *want)
{
	char *text = run(f, words, error);
	assert_string_equal(text, want);
	free(text);
}

static void output(void **state)
{
	static const char *const two[] = { "one", "two", NULL };
	static const char *const three[] = { "1", "2", "3", NULL };
	(void)state;
	expect(says, two, false, "one\ntwo\na warning\n");
	expect(says, three, true, "1\n2\n3\na warning\n");
	expect(crashes, NULL, true, "before\n");
}

static void flood(void **state)
{
	static const char *const err[] = { "stderr", NULL };
	(void)state;
	char *text = run(floods, NULL, false);
	char *end = strstr(text, "[cut: the answer has more than 1000 bytes");
	assert_non_null(end);
	assert_in_range(end - text, 980, 1000);
	assert_int_equal(end[-1], '\n');
	free(text);
	text = run(floods, err, false);
	assert_non_null(strstr(text, "[cut: more messages than 4096 bytes]\n"));
	assert_true(strlen(text) < 4200);
	free(text);
}

static uint64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void late(void **state)
{
	(void)state;
	int (*const never[])(int, char **) = { sleeps, spins, closes };
	for (int i = 0; i < 3; i++) {
		uint64_t begin = now_ms();
		char *text = run(never[i], NULL, true);
		assert_true(now_ms() - begin < 20000);
		if (!i)
			assert_string_equal(text,
					    "whole\n[stopped: no whole answer within 2 s; ask for "
					    "a shorter range]\n");
		free(text);
	}
}

static void closed(void **state)
{
	(void)state;
	int fd[2];
	char text[16];
	assert_int_equal(pipe(fd), 0);
	snprintf(text, sizeof(text), "%d", fd[1]);
	const char *const words[] = { text, NULL };
	expect(looks, words, false, "0 1\n");
	close(fd[0]);
	close(fd[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(output), cmocka_unit_test(flood),
					    cmocka_unit_test(late), cmocka_unit_test(closed) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
