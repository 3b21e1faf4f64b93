/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that parses names of pods was taken over by one of them. Whoever asks for it goes on:
 * it is not kept busy, says nothing that it does not know, and asks the API server no more than it
 * would have.
 */
#include "pods/parser.h"
#include "pods/watcher.h"
#include "sandbox/channel.h"

#include "web_server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SECOND 1000000000ull
#define LISTS_MAX 4 /* that a source begins within RUN_S: it waits longer after each */
#define RUN_S 2
#define PAGES_MAX 64

enum { RECORD = 1, END }; /* as parser.c has them */

/* ---- the parser ---- */

static pid_t start(int fd[2], void (*lie)(int fd, const void *what), const void *what)
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	pid_t pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(fd[0]);
	lie(fd[1], what);
	_exit(0);
}

static void end(pid_t pid, const int fd[2])
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd[0]);
	close(fd[1]);
}

static bool next_document(int fd)
{
	static uint8_t bytes[1 << 16];
	struct channel_head h;
	size_t none;
	return !channel_recv_head(fd, &h, NULL, 0, &none, CHANNEL_FOREVER) &&
	       h.len <= sizeof(bytes) && !channel_recv(fd, bytes, h.len, CHANNEL_FOREVER);
}

/* One record without end. */
static void tell(int fd, const void *what)
{
	const struct channel_head h = { RECORD, sizeof(struct pod_record), 0 };
	while (next_document(fd))
		while (!channel_send(fd, &h, what, NULL, 0, CHANNEL_FOREVER))
			;
}

/* No record, and a further page behind each. */
static void continue_it(int fd, const void *what)
{
	static struct pods_page page;
	const struct channel_head h = { END, sizeof(page), 0 };
	snprintf(page.next, sizeof(page.next), "%s", (const char *)what);
	while (next_document(fd) && !channel_send(fd, &h, &page, NULL, 0, CHANNEL_FOREVER))
		;
}

/* ---- who asks ---- */

static unsigned emitted;

/* The recorder takes records more slowly than they are told. */
static void count(void *ctx, const struct pod_record *r)
{
	(void)ctx, (void)r;
	emitted++;
	usleep(1000);
}

static int parse(const struct pod_record *r)
{
	struct pods_page page;
	int fd[2];
	pid_t pid = start(fd, tell, r);
	emitted = 0;
	int rc = parser_parse(fd[0], PODS_JSON_LIST, (const uint8_t *)"{}", 2, count, NULL, &page);
	end(pid, fd);
	return rc;
}

static void test_endless(void **state)
{
	const struct pod_record r = { .what = POD_SEEN, .uid = "1" };
	const uint64_t begin = channel_now_ns();
	(void)state;
	alarm(30); /* ends the test where the call does not return */
	assert_int_equal(parse(&r), -ETIMEDOUT);
	assert_true(channel_now_ns() - begin < 2 * PARSER_DEADLINE_MS * 1000000ull);
	assert_true(emitted > 10);
	alarm(0);
}

/* Where a list begins and ends, and how it goes, whoever asks says. */
static void test_marks(void **state)
{
	struct pod_record r = { .ok = true, .text = "all is well" };
	static const uint8_t marks[] = { POD_LIST_BEGIN, POD_LIST_END, POD_STATE };
	(void)state;
	alarm(30);
	for (size_t i = 0; i < sizeof(marks); i++) {
		r.what = marks[i];
		assert_int_equal(parse(&r), -ECHILD);
		assert_int_equal(emitted, 0);
	}
	alarm(0);
}

/* Ask for RUN_S seconds, where each page has a next one. Return the number of requests. */
static unsigned ask(const char *next)
{
	char dir[] = "/tmp/ascribe-pods-XXXXXX", token[64];
	struct server s = { 0 };
	struct err err = { 0 };
	int to_parser[2], to_recorder[2], size = 1 << 20;
	assert_non_null(mkdtemp(dir));
	snprintf(token, sizeof(token), "%s/token", dir);
	const int fd = open(token, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, "secret", 6), 6);
	close(fd);
	const pid_t parser = start(to_parser, continue_it, next);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, to_recorder), 0);
	(void)setsockopt(to_recorder[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	start_server(&s, NULL, NULL);
	const pid_t asker = fork();
	if (!asker) {
		const struct pods_config cfg = { .api = s.base, .node = "n", .credentials = dir };
		struct watcher w = { .cfg = &cfg, .out = to_recorder[1], .parser = to_parser[0] };
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!web_new(&w.web, &err))
			source_kubernetes(&w, &err);
		_exit(1);
	}
	sleep(RUN_S);
	kill(asker, SIGKILL);
	waitpid(asker, NULL, 0);
	end(parser, to_parser);
	close(to_recorder[0]);
	close(to_recorder[1]);
	stop_server(&s);
	unlink(token);
	rmdir(dir);
	print_message("%s: %u requests\n", next, s.requests);
	return s.requests;
}

static void test_pages(void **state)
{
	(void)state;
	const unsigned n = ask("eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ%3D%3D");
	assert_true(n >= 2 && n <= LISTS_MAX * PAGES_MAX);
}

/* It becomes a part of an address. */
static void test_address(void **state)
{
	(void)state;
	const unsigned n = ask("1&fieldSelector=&limit=1000000");
	assert_true(n >= 1 && n <= LISTS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_endless),
					    cmocka_unit_test(test_marks),
					    cmocka_unit_test(test_pages),
					    cmocka_unit_test(test_address) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
