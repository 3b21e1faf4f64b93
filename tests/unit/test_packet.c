/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that nobody asked for: a receiver that takes none neither opens nor closes them. */
#include "util/packet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whether another process sees a lock on it: any close of the file by us takes ours away. */
static bool is_locked(int fd)
{
	struct flock l = { .l_type = F_WRLCK };
	int status;
	pid_t p = fork();
	if (p == 0)
		_exit(fcntl(fd, F_GETLK, &l) || l.l_type == F_UNLCK);
	assert_int_equal(waitpid(p, &status, 0), p);
	return !status;
}

static void test_unasked(void **state)
{
	char path[] = "/tmp/ascribe-packet-XXXXXX", byte = 0;
	struct flock l = { .l_type = F_WRLCK };
	int fd = mkstemp(path), pair[2];
	size_t len, n;
	(void)state;
	assert_int_equal(fcntl(fd, F_SETLK, &l), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	assert_int_equal(packet_send(pair[0], &byte, 1, NULL, 0, &fd, 1), 0);
	assert_int_equal(packet_recv(pair[1], &byte, 1, &len, NULL, 0, &n, 0), -EBADMSG);
	assert_true(is_locked(fd));
	assert_int_equal(packet_send(pair[0], &byte, 1, NULL, 0, NULL, 0), 0);
	assert_int_equal(packet_recv(pair[1], &byte, 1, &len, NULL, 0, &n, 0), 0);
	assert_true(len == 1 && n == 0);
	close(pair[0]);
	close(pair[1]);
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_unasked) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
