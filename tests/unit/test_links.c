/* SPDX-License-Identifier: Apache-2.0 */
/* Links of /proc of a process that the recorder may not look at: its keeper opens them. */
#include "proc/links.h"
#include "proc/proc.h"
#include "proc/reader.h"
#include "sandbox/confine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OTHER 12345

static keeper_op *const ops[] = { proc_link_op };

/*
 * A process of another user, in a user namespace of its own. We cannot signal it once we have no
 * capability: it ends with our end of *ret_socket.
 */
static bool start_other(pid_t *ret, int *ret_socket)
{
	int pair[2];
	char byte = 0;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	*ret = fork();
	if (!*ret) {
		close(pair[0]);
		if (setgroups(0, NULL) || setresgid(OTHER, OTHER, OTHER) ||
		    setresuid(OTHER, OTHER, OTHER) || unshare(CLONE_NEWUSER))
			_exit(1);
		(void)!write(pair[1], &byte, 1);
		(void)!read(pair[1], &byte, 1);
		_exit(0);
	}
	close(pair[1]);
	*ret_socket = pair[0];
	return read(pair[0], &byte, 1) == 1;
}

static int open_link(pid_t pid, const char *which)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, which);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static void test_links(void **state)
{
	char *const none[] = { NULL };
	struct err err = { 0 };
	struct stat own, other, ns;
	(void)state;
	if (geteuid() != 0)
		skip();
	pid_t pid;
	int life, status;
	if (!start_other(&pid, &life))
		skip(); /* no user namespaces here */
	assert_int_equal(keeper_start(ops, 1, none, &err), 0);
	assert_int_equal(confine_rights(ROLE_RECORDER, CONFINE_KEEP_ALL), 0);
	assert_true(open_link(pid, "exe") < 0 && errno == EACCES);
	assert_true(open_link(pid, "ns/user") < 0 && errno == EACCES);

	int exe = proc_link_open((uint32_t)pid, PROC_LINK_EXE);
	assert_true(exe >= 0 && !fstat(exe, &other) && !stat("/proc/self/exe", &own));
	assert_true(own.st_dev == other.st_dev && own.st_ino == other.st_ino);
	assert_true(fcntl(exe, F_GETFL) & O_PATH); /* nothing can be read by it */

	int space = proc_link_open((uint32_t)pid, PROC_LINK_USER_NAMESPACE);
	assert_true(space >= 0 && !fstat(space, &ns) && !stat("/proc/self/ns/user", &own));
	assert_true(ns.st_ino != own.st_ino);
	assert_int_equal(proc_user((uint32_t)pid), OTHER);
	close(exe);
	close(space);

	assert_int_equal(proc_link_open((uint32_t)getpid() + (1u << 22), PROC_LINK_EXE), -ENOENT);
	keeper_end();
	close(life);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* What is mapped into a user namespace. */
static void test_ids_of_here(void **state)
{
	static const struct {
		const char *map;
		bool same;
	} cases[] = { { "0 12345 1", false },
		      { "0 0 4294967294", false },
		      { "0 0 4294967295", true },
		      { "0 0 1000\n1000 1000 4294966295", false } };
	(void)state;
	assert_true(proc_has_ids_of_here((uint32_t)getpid()));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pid_t pid;
		int life, status;
		char path[64];
		if (geteuid() != 0 || !start_other(&pid, &life))
			skip();
		assert_false(proc_has_ids_of_here((uint32_t)pid)); /* nothing is mapped */
		snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
		const int fd = open(path, O_WRONLY | O_CLOEXEC), len = (int)strlen(cases[i].map);
		assert_int_equal(write(fd, cases[i].map, (size_t)len), len);
		close(fd);
		assert_int_equal(proc_has_ids_of_here((uint32_t)pid), cases[i].same);
		assert_int_equal(proc_user((uint32_t)pid), OTHER);
		close(life);
		assert_int_equal(waitpid(pid, &status, 0), pid);
	}
}

int main(void)
{
	/* The second one gives up all capabilities. */
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_ids_of_here),
					    cmocka_unit_test(test_links) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
