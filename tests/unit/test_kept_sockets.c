/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that asks a server was taken over, and spoils the socket that the next one has, too. It
 * may no longer block: this setting is the file's, so the next process inherits it. Others are
 * refused (test_client_rights).
 */
#include "pods/pods.h"
#include "sql/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The only socket of a process, which is another descriptor of it from here on. -1: none. */
static int socket_of(pid_t pid)
{
	char path[64], link[64];
	const int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int found = -1;
	for (int fd = 0; found < 0 && fd < 1024; fd++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
		const ssize_t n = readlink(path, link, sizeof(link) - 1);
		if (n > 0 && !strncmp(link, "socket:", 7))
			found = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	}
	close(pidfd);
	return found;
}

/* The child of a process that has this name; 0: there is none. */
static pid_t child_of(pid_t parent, const char *name)
{
	char command[96];
	int pid = 0;
	snprintf(command, sizeof(command), "pgrep -n -x %s -P %d", name, (int)parent);
	FILE *f = popen(command, "r"); /* NOLINT */
	if (f && fscanf(f, "%d", &pid) != 1)
		pid = 0;
	if (f)
		pclose(f);
	return pid;
}

static pid_t await_child(pid_t parent, const char *name, pid_t other_than)
{
	pid_t pid = 0;
	for (unsigned i = 0; i < 200 && (!pid || pid == other_than); i++) {
		usleep(20000);
		pid = child_of(parent, name);
	}
	assert_true(pid > 0 && pid != other_than);
	return pid;
}

static bool blocks(int fd)
{
	return !(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

static void expect_answer(const struct sql_asker *a, uint64_t number)
{
	const struct sql_question q = { .number = number, .n = 1, .id = { 42 } };
	static struct sql_answer answer;
	assert_int_equal(send(a->fd, &q, sizeof(q), MSG_NOSIGNAL), sizeof(q));
	assert_true(recv(a->fd, &answer, sizeof(answer), 0) > 0);
	assert_true(answer.number == number && answer.error[0]); /* nobody is at that port */
}

/* While it asks, as whoever was taken over by the server does. */
static void test_sql(void **state)
{
	struct sql_asker a = SQL_ASKER_NONE;
	struct err err = { 0 };
	(void)state;
	assert_int_equal(sql_asker_start(&a, "host=127.0.0.1 port=1", &err), 0);
	expect_answer(&a, 1);
	const int its = socket_of(a.pid);
	if (its < 0)
		skip(); /* without the right to have it */
	assert_int_equal(fcntl(its, F_SETFL, O_RDWR | O_NONBLOCK), 0);
	/* The next question was awaited before, so this one ends with the setting. */
	expect_answer(&a, 2);
	for (unsigned i = 0; i < 100 && !blocks(its); i++)
		usleep(20000);
	assert_true(blocks(its));
	expect_answer(&a, 3);
	assert_int_equal(waitpid(a.pid, NULL, WNOHANG), 0);
	close(its);
	sql_asker_stop(&a);
}

static void test_pods(void **state)
{
	const struct pods_config c = { .source = PODS_CRI, .socket = "/nowhere" };
	struct pods *p;
	struct err err = { 0 };
	(void)state;
	assert_int_equal(pods_open(&p, &c, &err), 0);
	const pid_t keeper = await_child(getpid(), "ascribe-podkeep", 0),
		    first = await_child(keeper, "ascribe-pods", 0);
	const int its = socket_of(keeper);
	if (its < 0)
		skip();
	assert_int_equal(fcntl(its, F_SETFL, O_RDWR | O_NONBLOCK), 0);
	kill(first, SIGKILL);
	await_child(keeper, "ascribe-pods", first);
	assert_true(blocks(its));
	close(its);
	pods_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_sql),
					    cmocka_unit_test(test_pods) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
