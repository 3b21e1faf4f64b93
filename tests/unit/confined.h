/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that a test forks, confines, and has try what they may not do. */
#ifndef TESTS_CONFINED_H
#define TESTS_CONFINED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#define CONFINED 0 /* see confine.c */
#else
#define CONFINED 1
#endif

/* In the child: end with the line of what should have been otherwise. */
#define SHOULD(x) \
	do { \
		if (!(x)) \
			_exit(__LINE__ & 0xff); \
	} while (0)
#define REFUSED(x) SHOULD((x) < 0 && errno == EPERM)

/* The child's status is such a line, or 0. */
static inline void expect_no_line(pid_t child)
{
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

#endif
