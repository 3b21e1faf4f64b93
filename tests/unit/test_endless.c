/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes beside the recorder that were taken over tell it things without end: those that name
 * pods, push, and ask a JVM. It goes on with its own work. Each is a process of its own that sends
 * as fast as it can.
 */
#include "pods/pods.h"
#include "pods/record.h"
#include "push/pusher.h"
#include "sandbox/anew.h"
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
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND 1000000000ull
#define ROW 64 /* packets of one call */

/* ---- who was taken over ---- */

/* The same packet again and again, or these bytes of a pipe. */
static _Noreturn void tell(int fd, const void *bytes, size_t len)
{
	static struct mmsghdr row[ROW];
	static uint8_t many[1 << 16];
	struct iovec v = { (void *)(uintptr_t)bytes, len };
	size_t n = 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (size_t i = 0; i < ROW; i++)
		row[i].msg_hdr = (struct msghdr){ .msg_iov = &v, .msg_iovlen = 1 };
	for (; n + len <= sizeof(many); n += len)
		memcpy(many + n, bytes, len);
	for (;;)
		if (sendmmsg(fd, row, ROW, MSG_NOSIGNAL) < 0 &&
		    (errno != ENOTSOCK || write(fd, many, n) < 0) && errno != EAGAIN)
			_exit(0);
}

/* This program executed anew, before the constructors of its children see their names. */
__attribute__((constructor(101))) static void begin(int argc, char **argv)
{
	static struct push_stats st;
	static const struct jvm_answer a = { .rc = -EINPROGRESS };
	if (!strcmp(argv[0], "ascribe-jvm"))
		tell(ANEW_FD, &a, sizeof(a));
	if (argc > 1 && !strcmp(argv[1], "push")) {
		memset(st.text, 'x', sizeof(st.text));
		tell(ANEW_FD, &st, sizeof(st));
	}
}

/* ---- the recorder ---- */

static void begin_work(void)
{
	signal(SIGALRM, SIG_DFL);
	alarm(30); /* ends the test where a call does not return */
}

static void test_push(void **state)
{
	const struct push_config c = { .url = "http://127.0.0.1:1/x" };
	struct pusher *p;
	struct err err = { 0 };
	(void)state;
	begin_work();
	if (pusher_start(&p, &c, "url: http://127.0.0.1:1/x", &err))
		fail_msg("%s", err.text);
	for (unsigned i = 0; i < 200; i++) {
		const struct push_stats *st = pusher_look(p);
		assert_int_equal(st->text[sizeof(st->text) - 1], 0);
		poll(NULL, 0, 5);
	}
	assert_int_equal(pusher_look(p)->text[0], 'x'); /* it did tell */
	pusher_free(p, 1000);
}

static void test_jvm(void **state)
{
	struct proc_root root = { 0 };
	struct jvm_map map = { 0 };
	const uint64_t begin = clock_ns(CLOCK_MONOTONIC);
	int rc;
	(void)state;
	begin_work();
	while ((rc = proc_root_open(&root, (uint32_t)getpid())) == -EINPROGRESS)
		poll(NULL, 0, 1);
	assert_int_equal(rc, 0);
	while ((rc = jvm_write_map(&root, (uint32_t)getpid(), 500, &map)) == -EINPROGRESS &&
	       clock_ns(CLOCK_MONOTONIC) - begin < 10 * SECOND)
		poll(NULL, 0, 5);
	assert_int_equal(rc, -EPROTO);
	assert_null(map.helper);
	jvm_finish(1000);
	proc_root_close(&root);
}

static pid_t send_pods(int fd)
{
	static struct pod_record r = { .what = POD_SEEN, .n_containers = POD_CONTAINERS_MAX };
	pid_t pid = fork();
	if (pid)
		return pid;
	snprintf(r.uid, sizeof(r.uid), "one");
	for (unsigned i = 0; i < POD_CONTAINERS_MAX; i++)
		snprintf(r.container[i].id, sizeof(r.container[i].id), "%064u", i);
	tell(fd, &r, sizeof(r));
}

/* As the recorder's loop does: another part of it needs the CPU, too. */
static void test_pods(void **state)
{
	const struct pods_config c = { .source = PODS_CRI, .socket = "/nowhere" };
	struct pods *p;
	struct err err = { 0 };
	int pair[2];
	(void)state;
	begin_work();
	assert_int_equal(pods_open(&p, &c, &err), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_true(dup2(pair[0], pods_fd(p)) >= 0); /* in the place of the honest one */
	const pid_t liar = send_pods(pair[1]);
	close(pair[0]);
	close(pair[1]);
	const uint64_t ran = clock_ns(CLOCK_THREAD_CPUTIME_ID), begin = clock_ns(CLOCK_MONOTONIC);
	uint64_t now = begin;
	for (; now < begin + 3 * SECOND; now = clock_ns(CLOCK_MONOTONIC)) {
		struct pollfd f = { .fd = pods_fd(p), .events = POLLIN };
		const int rest = pods_rest_ms(p);
		poll(&f, 1, rest < 0 ? 100 : rest);
		pods_receive(p);
	}
	const double share =
		(double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - ran) / (double)(now - begin);
	print_message("%.0f%% of a CPU, %llu records\n", share * 100,
		      (unsigned long long)pods_changes(p));
	assert_true(pods_changes(p) > 100);
	assert_true(share < 0.25);
	kill(liar, SIGKILL);
	waitpid(liar, NULL, 0);
	pods_close(p);
}

int main(void)
{
	static keeper_op *const ops[] = { pusher_op, jvm_helper_op, kept_op };
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_push), cmocka_unit_test(test_jvm),
					    cmocka_unit_test(test_pods) };
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
