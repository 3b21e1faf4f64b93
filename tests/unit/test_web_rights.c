/* SPDX-License-Identifier: Apache-2.0 */
/* What a server that was taken over can do to the files and sockets that it is given. */
#include "sandbox/confine.h"

#include "confined.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char first[] = "first line\n";

static _Noreturn void overwrite(int fd)
{
	const struct confine_given given = { .memory = 64 << 20 };
	SHOULD(!confine_reach(ROLE_WEB, &given));
	REFUSED(fcntl(fd, F_SETFL, 0));
	REFUSED(syscall(SYS_fcntl, fd, F_SETFL | 1ul << 32,
			0)); /* the kernel drops the upper half */
	SHOULD(ftruncate(fd, 0) < 0 && errno == EPERM);
	SHOULD(lseek(fd, 0, SEEK_SET) == 0 && write(fd, "other", 5) == 5);
	SHOULD(pwrite(fd, "other", 5, 0) == 5);
	_exit(0);
}

/* It adds lines to the log of requests, and changes none. */
static void test_log(void **state)
{
	char path[] = "/tmp/ascribe-log-XXXXXX", text[64] = "";
	int made = mkstemp(path);
	(void)state;
	if (!CONFINED)
		skip();
	assert_int_equal(write(made, first, strlen(first)), strlen(first));
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	pid_t p = fork();
	if (p == 0)
		overwrite(fd);
	expect_no_line(p);
	assert_true(pread(made, text, sizeof(text) - 1, 0) > 0);
	assert_string_equal(text, "first line\notherother");
	close(fd);
	close(made);
	unlink(path);
}

/* The next server has the same sockets: nothing stays with them but shutdown(2). */
static _Noreturn void spoil(int fd)
{
	const struct confine_given given = { .memory = 64 << 20 };
	struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
	const struct sock_fprog drop_all = { 1, &none };
	int one = 1, ends[2];
	SHOULD(!confine_reach(ROLE_WEB, &given));
	SHOULD(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &drop_all, sizeof(drop_all)) < 0 &&
	       errno == EPERM);
	SHOULD(setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &one, sizeof(one)) < 0);
	SHOULD(setsockopt(fd, IPPROTO_IP, IP_MINTTL, &one, sizeof(one)) < 0 && errno == EPERM);
	SHOULD(listen(fd, 0) < 0 && errno == EPERM);
	/* No memory that its limits do not see. */
	SHOULD(memfd_create("", 0) < 0 && errno == EPERM);
	SHOULD(pipe(ends) < 0 && errno == EPERM);
	SHOULD(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0);
	_exit(0);
}

static void test_sockets(void **state)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	(void)state;
	if (!CONFINED)
		skip();
	assert_int_equal(listen(fd, 1), 0);
	pid_t p = fork();
	if (p == 0)
		spoil(fd);
	expect_no_line(p);
	close(fd);
}

/*
 * Where it has the recorder's user, as in a pod, the kernel would send signals for it: whenever a
 * directory of the store changes.
 */
static void test_signals(void **state)
{
	const struct confine_given given = { .memory = 64 << 20 };
	(void)state;
	if (!CONFINED)
		skip();
	int dir = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid_t p = fork();
	if (p == 0) {
		SHOULD(!confine_reach(ROLE_WEB, &given));
		REFUSED(fcntl(dir, F_NOTIFY, DN_CREATE | DN_MULTISHOT));
		REFUSED(fcntl(dir, F_SETSIG, SIGKILL));
		REFUSED(fcntl(dir, F_SETOWN, getppid()));
		SHOULD(fcntl(dir, F_GETFL) >= 0);
		_exit(0);
	}
	expect_no_line(p);
	close(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_log),
					    cmocka_unit_test(test_signals),
					    cmocka_unit_test(test_sockets) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
