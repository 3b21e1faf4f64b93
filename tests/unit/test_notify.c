/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a recorder that was taken over can have systemd told: nothing that names a process, and no
 * length or noise that ends whoever notifies. systemd is a socket here.
 */
#include "daemon/notify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define WAIT_MS 20000

static int notified;

/* Whatever was told before is told before this. */
static void expect(const char *text)
{
	char got[600] = "";
	struct pollfd p = { .fd = notified, .events = POLLIN };
	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_true(recv(notified, got, sizeof(got) - 1, MSG_DONTWAIT) > 0);
	assert_string_equal(got, text);
}

/* With MAINPID= systemd ends any process of the host when the unit is stopped. */
static void test_orders(void **state)
{
	static const char *const refused[] = {
		"MAINPID=1",	       "READY=1\nMAINPID=1", "STATUS=x\n\nBUSERROR=1",
		"READY=1\n MAINPID=1", "WATCHDOG=trigger",   "FDNAME=other"
	};
	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_true(notify_with(refused[i], NULL, 0));
	assert_true(notify("READY=1\nSTATUS=%s", "x"));
	expect("READY=1\nSTATUS=x");
}

static void test_noise(void **state)
{
	char text[700];
	const int fds[] = { open("/dev/null", O_RDONLY), open("/proc/self/exe", O_RDONLY) };
	(void)state;
	srandom(7);
	for (size_t len = 1; len < sizeof(text); len++) {
		for (size_t i = 0; i < len; i++)
			text[i] = (char)(1 + random() % 255);
		text[len] = 0;
		while (!notify_with(text, fds, len % 3))
			usleep(100);
	}
	while (!notify("STATUS=good"))
		usleep(100);
	expect("STATUS=good");
	close(fds[0]);
	close(fds[1]);
}

/* Descriptors come through, and those are what they were. */
static void test_descriptors(void **state)
{
	char control[CMSG_SPACE(4 * sizeof(int))], text[64];
	struct iovec iov = { text, sizeof(text) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct pollfd p = { .fd = notified, .events = POLLIN };
	int ends[2], got;
	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_true(notify_with("FDSTORE=1\nFDNAME=listen", &ends[1], 1));
	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_true(recvmsg(notified, &m, 0) > 0);
	assert_non_null(CMSG_FIRSTHDR(&m));
	memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(got));
	assert_int_equal(write(got, "y", 1), 1);
	assert_int_equal(read(ends[0], text, 1), 1);
	close(got);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_orders),
					    cmocka_unit_test(test_noise),
					    cmocka_unit_test(test_descriptors) };
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct err err = { 0 };
	snprintf(at.sun_path, sizeof(at.sun_path), "/tmp/ascribe-notify-%d", (int)getpid());
	notified = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (bind(notified, (struct sockaddr *)&at, sizeof(at)) ||
	    setenv("NOTIFY_SOCKET", at.sun_path, 1) || notify_start(&err)) {
		printf("%s\n", err.text);
		return 1;
	}
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(at.sun_path);
	return rc;
}
