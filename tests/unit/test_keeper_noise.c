/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recorder that was taken over sends its keeper noise: each of its questions with every length,
 * zeros, ones and random bytes, with and without descriptors. The keeper lives, answers the next
 * honest question, and has few children. With a real keeper that has all its rights; as root.
 */
#include "collect/rights.h"
#include "daemon/notify.h"
#include "http/listen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LENGTHS 700u
#define WAIT_MS 60000u

static keeper_op *const ops[] = { COLLECTOR_OPS, notify_op, listen_op, listen_stale_op };
#define N_OPS (sizeof(ops) / sizeof(ops[0]))
static int notified;

static uint32_t next_random(void)
{
	static uint64_t state = 88172645463325252ull;
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 16);
}

static size_t count_children(pid_t of)
{
	char command[100];
	size_t n = 0;
	snprintf(command, sizeof(command), "ps -o pid= --ppid %d | wc -l", (int)of);
	FILE *f = popen(command, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%zu", &n), 1);
	pclose(f);
	return n;
}

static void fill(uint8_t *bytes, size_t len, unsigned how)
{
	memset(bytes, how ? 0xff : 0, len);
	for (size_t i = 0; how == 2 && i < len; i++)
		bytes[i] = (uint8_t)next_random();
}

static int say(const char *text)
{
	const struct keeper_question q = { .bytes = text, .len = strlen(text) + 1 };
	struct keeper_answer a;
	return keeper_ask(notify_op, &q, WAIT_MS, &a, NULL);
}

/* With MAINPID= systemd ends any process of the host when the unit is stopped. */
static void test_notify(void **state)
{
	char got[100] = "";
	(void)state;
	assert_int_equal(say("READY=1\nSTATUS=x"), 0);
	assert_int_equal(say("MAINPID=1"), -EBADMSG);
	assert_int_equal(say("READY=1\nMAINPID=1"), -EBADMSG);
	assert_int_equal(say("STATUS=x\n\nBUSERROR=1"), -EBADMSG);
	assert_int_equal(say("READY=1\n MAINPID=1"), -EBADMSG);
	assert_int_equal(say("WATCHDOG=trigger"), -EBADMSG);
	assert_true(recv(notified, got, sizeof(got) - 1, MSG_DONTWAIT) > 0);
	assert_string_equal(got, "READY=1\nSTATUS=x");
	assert_true(recv(notified, got, sizeof(got), MSG_DONTWAIT) < 0);
}

static int have_bound(int type, int option)
{
	struct listen_at at;
	struct keeper_answer a;
	int on = 1, fd = socket(AF_INET, type, 0);
	assert_true(fd >= 0);
	assert_int_equal(listen_parse(&at, "127.0.0.1:0", NULL), 0);
	if (option)
		assert_int_equal(setsockopt(fd, SOL_SOCKET, option, &on, sizeof(on)), 0);
	const struct keeper_question q = { &at, sizeof(at), &fd, 1 };
	int rc = keeper_ask(listen_op, &q, WAIT_MS, &a, NULL);
	close(fd);
	return rc;
}

/* The keeper binds ports below 1024: those of a server of TCP alone, and none that it shares. */
static void test_listen(void **state)
{
	(void)state;
	assert_int_equal(have_bound(SOCK_STREAM, 0), 0);
	assert_int_equal(have_bound(SOCK_STREAM, SO_REUSEADDR), 0);
	assert_int_equal(have_bound(SOCK_STREAM, SO_REUSEPORT), -EBADMSG);
	assert_int_equal(have_bound(SOCK_DGRAM, 0), -EBADMSG);
}

static void test_noise(void **state)
{
	static uint8_t bytes[KEEPER_QUESTION_MAX];
	const int fds[] = { open("/dev/null", O_RDONLY), open("/proc/self/exe", O_RDONLY) };
	const pid_t pid = keeper_pid();
	size_t asked = 0, good = 0;
	uint64_t id = 0;
	(void)state;
	for (size_t op = 0; op < N_OPS; op++)
		for (size_t len = 0; len < LENGTHS; len++)
			for (unsigned how = 0; how < 3; how++) {
				struct keeper_question q = { bytes, len, fds,
							     next_random() % 40 ? 0 : 2 };
				struct keeper_answer a;
				fill(bytes, len, how);
				int rc = keeper_ask(ops[op], &q, WAIT_MS, &a, NULL);
				if (rc == -EPIPE || rc == -ETIMEDOUT)
					fail_msg("question %zu of %zu bytes: %d", op, len, rc);
				for (size_t i = 0; !rc && i < a.n_fds; i++)
					close(a.fds[i]);
				asked++;
				good += !rc;
			}
	print_message("%zu questions, %zu answered\n", asked, good);
	assert_false(keeper_is_lost());
	assert_int_equal(keeper_pid(), pid);
	assert_true(count_children(pid) <= KEPT_MAX);
	const int rc = tracepoint_id("sched:sched_switch", &id);
	assert_true(rc == -ENOENT || (!rc && id));
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_notify),
					    cmocka_unit_test(test_listen),
					    cmocka_unit_test(test_noise) };
	char *const none[] = { NULL };
	struct err err = { 0 };
	if (geteuid()) {
		printf("needs root\n");
		return 77;
	}
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	snprintf(at.sun_path, sizeof(at.sun_path), "/tmp/ascribe-notify-%d", (int)getpid());
	notified = socket(AF_UNIX, SOCK_DGRAM, 0);
	if (bind(notified, (struct sockaddr *)&at, sizeof(at)) ||
	    setenv("NOTIFY_SOCKET", at.sun_path, 1))
		return 1;
	if (keeper_start(ops, N_OPS, none, &err)) {
		printf("%s\n", err.text);
		return 1;
	}
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	keeper_end();
	unlink(at.sun_path);
	return rc;
}
