/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server takes sockets from the process before it: those that listen at an address that is
 * configured, and nothing else. A recorder that was taken over may have given it anything. Sockets
 * that an accomplice has shut are bound anew, as far as that goes.
 */
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
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/ascribe-adopt-XXXXXX";

static const char *in_dir(const char *name)
{
	static char text[8][200];
	static unsigned at;
	char *to = text[at++ % 8];
	snprintf(to, sizeof(text[0]), "unix:%s/%s", dir, name);
	return to;
}

static int bound(const char *text)
{
	struct listen_at at;
	char name[128];
	int fd;
	assert_int_equal(listen_parse(&at, text, NULL), 0);
	assert_int_equal(listen_open(&at, 0660, &fd, name, sizeof(name), NULL), 0);
	return fd;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static bool has_socket(const char *text)
{
	struct stat st;
	return !lstat(text + strlen("unix:"), &st) && S_ISSOCK(st.st_mode);
}

static void test_junk(void **state)
{
	int pair[2], shut = bound(in_dir("shut"));
	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(shutdown(shut, SHUT_RDWR), 0);
	const int fd[] = { open("/etc/passwd", O_RDONLY),
			   socket(AF_INET, SOCK_DGRAM, 0),
			   socket(AF_INET, SOCK_STREAM, 0),
			   pair[0],
			   pair[1],
			   shut,
			   10000 };
	struct http_sockets *s;
	http_sockets_adopt(&s, fd, sizeof(fd) / sizeof(fd[0]));
	assert_null(s);
	for (size_t i = 0; i < sizeof(fd) / sizeof(fd[0]); i++)
		assert_false(is_open(fd[i]));
}

static void test_choice(void **state)
{
	const char *kept = in_dir("kept"), *other = in_dir("other"), *more = in_dir("more");
	const int fd[] = { bound(kept), bound(other) };
	const char *const listen[] = { kept, more };
	const struct http_config cfg = { .listen = (const char **)(uintptr_t)listen,
					 .n_listen = 2 };
	struct http_sockets *s;
	(void)state;
	http_sockets_adopt(&s, fd, 2);
	assert_int_equal(s->n, 2);
	assert_int_equal(http_sockets_open(&s, &cfg, NULL), 0);
	assert_int_equal(s->v[0].fd, fd[0]);
	assert_true(s->changed && is_open(fd[0]) && !is_open(fd[1]));
	assert_true(fcntl(fd[0], F_GETFD) & FD_CLOEXEC && fcntl(fd[0], F_GETFL) & O_NONBLOCK);
	assert_true(has_socket(other)); /* what its path leads to now is not known */
	http_sockets_leave(s);
	assert_true(has_socket(kept) && has_socket(more));
}

/* An address twice has one socket, and the other one fails, as it does without adoption. */
static void test_twice(void **state)
{
	struct listen_at at;
	char name[128];
	int fd;
	(void)state;
	assert_int_equal(listen_parse(&at, "127.0.0.1:0", NULL), 0);
	assert_int_equal(listen_open(&at, 0660, &fd, name, sizeof(name), NULL), 0);
	char same[160];
	snprintf(same, sizeof(same), "localhost%s", strchr(name, ':'));
	const char *const listen[] = { name, same };
	const struct http_config cfg = { .listen = (const char **)(uintptr_t)listen,
					 .n_listen = 2 };
	struct http_sockets *s;
	http_sockets_adopt(&s, &fd, 1);
	assert_int_equal(http_sockets_open(&s, &cfg, NULL), -EADDRINUSE);
	assert_true(s && s->n == 1 && is_open(fd));
	const struct http_config one = { .listen = (const char **)(uintptr_t)&listen[1],
					 .n_listen = 1 };
	assert_int_equal(http_sockets_open(&s, &one, NULL), 0);
	assert_int_equal(s->v[0].fd, fd);
	http_sockets_close(s);
	assert_false(is_open(fd));
}

/* An accomplice of a server that was taken over holds the port: the other address is served. */
static void test_held(void **state)
{
	const char *other = in_dir("held");
	struct listen_at at;
	char name[128];
	int fd;
	assert_int_equal(listen_parse(&at, "127.0.0.1:0", NULL), 0);
	assert_int_equal(listen_open(&at, 0660, &fd, name, sizeof(name), NULL), 0);
	close(fd); /* the port is free: one that the kernel chose would be given back when shut */
	const char *const listen[] = { name, other };
	const struct http_config cfg = { .listen = (const char **)(uintptr_t)listen,
					 .n_listen = 2 };
	struct http_sockets *s = NULL;
	int off = 0;
	(void)state;
	assert_int_equal(http_sockets_open(&s, &cfg, NULL), 0);
	const int accomplice = dup(s->v[0].fd), theirs = dup(s->v[1].fd);
	setsockopt(accomplice, SOL_SOCKET, SO_REUSEADDR, &off, sizeof(off));
	assert_int_equal(shutdown(accomplice, SHUT_RDWR), 0);
	assert_int_equal(shutdown(theirs, SHUT_RDWR), 0);
	s->changed = false;
	assert_int_equal(http_sockets_mend(s, NULL), -EADDRINUSE);
	assert_true(s->changed && s->v[0].fd < 0 && s->v[1].fd >= 0);
	assert_int_equal(http_sockets_open_n(s), 1);
	close(accomplice);
	assert_int_equal(http_sockets_mend(s, NULL), 0);
	assert_int_equal(http_sockets_open_n(s), 2);
	close(theirs);
	http_sockets_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_junk),
					    cmocka_unit_test(test_choice),
					    cmocka_unit_test(test_twice),
					    cmocka_unit_test(test_held) };
	char command[100];
	if (!mkdtemp(dir))
		return 1;
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command) ? 1 : rc;
}
