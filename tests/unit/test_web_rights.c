/* SPDX-License-Identifier: Apache-2.0 */
/* What a server that was taken over can do to the files that it is given. */
#include "sandbox/confine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#define CONFINED 0 /* see confine.c */
#else
#define CONFINED 1
#endif

static const char first[] = "first line\n";

/* The line of what should have been otherwise, or 0. */
#define SHOULD(x) \
	do { \
		if (!(x)) \
			_exit(__LINE__ & 0xff); \
	} while (0)

static _Noreturn void overwrite(int fd)
{
	const struct confine_given given = { .memory = 64 << 20 };
	SHOULD(!confine_reach(ROLE_WEB, &given));
	SHOULD(fcntl(fd, F_SETFL, 0) < 0 && errno == EPERM);
	SHOULD(ftruncate(fd, 0) < 0 && errno == EPERM);
	SHOULD(lseek(fd, 0, SEEK_SET) == 0 && write(fd, "other", 5) == 5);
	SHOULD(pwrite(fd, "other", 5, 0) == 5);
	_exit(0);
}

/* It adds lines to the log of requests, and changes none. */
static void test_log(void **state)
{
	char path[] = "/tmp/ascribe-log-XXXXXX", text[64] = "";
	int made = mkstemp(path), status;
	(void)state;
	if (!CONFINED)
		skip();
	assert_int_equal(write(made, first, strlen(first)), strlen(first));
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	pid_t p = fork();
	if (p == 0)
		overwrite(fd);
	assert_int_equal(waitpid(p, &status, 0), p);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_true(pread(made, text, sizeof(text) - 1, 0) > 0);
	assert_string_equal(text, "first line\notherother");
	close(fd);
	close(made);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_log) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
