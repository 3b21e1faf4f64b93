/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recorder that was taken over sends its keeper noise: each of its questions with every length,
 * zeros, ones and random bytes, with and without descriptors. The keeper lives, answers the next
 * honest question, and has few children. With a real keeper that has all its rights; as root.
 */
#include "collect/rights.h"
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
#include <unistd.h>

#define LENGTHS 700u
#define WAIT_MS 60000u

static keeper_op *const ops[] = { COLLECTOR_OPS, listen_op, listen_stale_op };
#define N_OPS (sizeof(ops) / sizeof(ops[0]))

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

/* The keeper makes sockets below 1024: those of a server of TCP alone, and none that it shares. */
static void test_listen(void **state)
{
	struct listen_at at;
	struct keeper_answer a;
	int type = 0, shared = 1;
	socklen_t size = sizeof(int);
	(void)state;
	assert_int_equal(listen_parse(&at, "127.0.0.1:0", NULL), 0);
	const struct keeper_question q = { .bytes = &at, .len = sizeof(at) };
	assert_int_equal(keeper_ask(listen_op, &q, WAIT_MS, &a, NULL), 0);
	assert_int_equal(a.n_fds, 1);
	assert_int_equal(getsockopt(a.fds[0], SOL_SOCKET, SO_TYPE, &type, &size), 0);
	assert_int_equal(type, SOCK_STREAM);
	assert_int_equal(getsockopt(a.fds[0], SOL_SOCKET, SO_REUSEPORT, &shared, &size), 0);
	assert_int_equal(shared, 0);
	close(a.fds[0]);
	at.addr.ss_family = AF_UNIX;
	assert_int_equal(keeper_ask(listen_op, &q, WAIT_MS, &a, NULL), -EBADMSG);
	at.addr.ss_family = AF_INET;
	at.len = sizeof(at.addr) + 1;
	assert_int_equal(keeper_ask(listen_op, &q, WAIT_MS, &a, NULL), -EBADMSG);
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
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_listen),
					    cmocka_unit_test(test_noise) };
	char *const none[] = { NULL };
	struct err err = { 0 };
	if (geteuid()) {
		printf("needs root\n");
		return 77;
	}
	if (keeper_start(ops, N_OPS, none, &err)) {
		printf("%s\n", err.text);
		return 1;
	}
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	keeper_end();
	return rc;
}
