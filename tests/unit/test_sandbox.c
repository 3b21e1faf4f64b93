/* SPDX-License-Identifier: Apache-2.0 */
/* The child that parses: what it may do, what it may not, and what its death costs. */
#include "sandbox/sandbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define CONFINED 0 /* see confine.c */
#else
#define CONFINED 1
#endif

enum { ECHO, READ_FDS, HANG, CRASH, ALLOCATE, FORBIDDEN, PATHS, BIG, OPS };

static int op_echo(const struct sandbox_request *q, struct buf *out)
{
	return buf_add(out, q->bytes, q->len);
}

static int op_read_fds(const struct sandbox_request *q, struct buf *out)
{
	char b[64];
	for (size_t i = 0; i < q->n_fds; i++) {
		ssize_t n = pread(q->fds[i], b, sizeof(b), 0);
		if (n < 0 || buf_add(out, b, (size_t)n))
			return -EIO;
	}
	return 0;
}

static int op_hang(const struct sandbox_request *q, struct buf *out)
{
	(void)q, (void)out;
	for (volatile int forever = 1; forever;)
		;
	return 0;
}

static int op_crash(const struct sandbox_request *q, struct buf *out)
{
	(void)q, (void)out;
	raise(SIGSEGV);
	return 0;
}

static int op_allocate(const struct sandbox_request *q, struct buf *out)
{
	(void)out;
	size_t n = (size_t)atoi((const char *)q->bytes) << 20;
	char *p = malloc(n);
	if (!p)
		return -ENOMEM;
	memset(p, 1, n);
	free(p);
	return 0;
}

/* Each is a way out of a parser that an attacker has taken over. */
static int op_forbidden(const struct sandbox_request *q, struct buf *out)
{
	char *argv[] = { NULL };
	(void)out;
	switch (q->bytes[0]) {
	case 0: return socket(AF_UNIX, SOCK_STREAM, 0);
	case 1: return (int)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	case 2: return execve("/bin/true", argv, argv);
	case 3: return kill(getppid(), 0);
	case 4: return (int)write(q->fds[0], "x", 1);
	case 5: return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
	case 6: return (int)syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0);
	case 7: return ftruncate(q->fds[0], 0);
	default: return (int)syscall(SYS_ptrace, 0, 0, 0, 0);
	}
}
#define N_FORBIDDEN 9

static int op_paths(const struct sandbox_request *q, struct buf *out)
{
	(void)q, (void)out;
	return open("/etc/passwd", O_RDONLY) < 0 && errno == EACCES && openat(AT_FDCWD, "/", O_PATH) < 0 &&
			       access("/etc", F_OK) < 0
		       ? 0
		       : -EEXIST;
}


static int op_big(const struct sandbox_request *q, struct buf *out)
{
	(void)q;
	int rc = buf_reserve(out, 3u << 20);
	if (!rc) {
		memset(out->data, 'b', 3u << 20);
		out->len = 3u << 20;
	}
	return rc;
}

static const sandbox_op ops[OPS] = { op_echo, op_read_fds, op_hang, op_crash, op_allocate, op_forbidden, op_paths,
				     op_big };

struct fixture {
	struct sandbox *s;
	struct buf reply;
};

static int set_up(void **state)
{
	static struct fixture f;
	struct err err;
	struct sandbox_config cfg = { .ops = ops, .n_ops = OPS, .memory = 64u << 20, .serves = 8 };
	f = (struct fixture){ 0 };
	*state = &f;
	return sandbox_new(&f.s, &cfg, &err);
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	sandbox_free(f->s);
	buf_fini(&f->reply);
	return 0;
}

static int ask(struct fixture *f, unsigned op, const void *bytes, size_t len, const int *fds, size_t n_fds)
{
	struct sandbox_call c = { .op = op, .bytes = bytes, .len = len, .fds = fds, .n_fds = n_fds, .deadline_ms = 10000,
				  .max_reply = 4u << 20 };
	return sandbox_run(f->s, &c, &f->reply);
}

static void expect_alive(struct fixture *f)
{
	assert_int_equal(ask(f, ECHO, "alive", 5, NULL, 0), 0);
	assert_int_equal(f->reply.len, 5);
	assert_memory_equal(f->reply.data, "alive", 5);
}

static uint64_t spawned(struct fixture *f)
{
	struct sandbox_stats st;
	sandbox_stats(f->s, &st);
	return st.spawned;
}

static void test_requests(void **state)
{
	struct fixture *f = *state;
	char name[] = "/tmp/ascribe-sandbox-XXXXXX", *big = malloc(SANDBOX_REQUEST_MAX + 1);
	int fds[2] = { mkstemp(name), -1 };
	assert_true(fds[0] >= 0);
	assert_int_equal(write(fds[0], "file", 4), 4);
	fds[1] = open("/proc/self/comm", O_RDONLY); /* ours, though a child reads it */
	assert_int_equal(ask(f, READ_FDS, NULL, 0, fds, 2), 0);
	f->reply.data[f->reply.len] = 0;
	assert_string_equal((char *)f->reply.data, "filetest_sandbox\n");
	memset(big, 'x', SANDBOX_REQUEST_MAX + 1);
	assert_int_equal(ask(f, ECHO, big, SANDBOX_REQUEST_MAX, NULL, 0), 0);
	assert_int_equal(f->reply.len, SANDBOX_REQUEST_MAX);
	assert_memory_equal(f->reply.data, big, SANDBOX_REQUEST_MAX);
	assert_int_equal(ask(f, ECHO, big, SANDBOX_REQUEST_MAX + 1, NULL, 0), -E2BIG);
	assert_int_equal(ask(f, BIG, NULL, 0, NULL, 0), 0);
	assert_int_equal(f->reply.len, 3u << 20);
	struct sandbox_call small = { .op = BIG, .deadline_ms = 10000, .max_reply = 1000 };
	assert_int_equal(sandbox_run(f->s, &small, &f->reply), -E2BIG);
	expect_alive(f);
	close(fds[0]);
	close(fds[1]);
	unlink(name);
	free(big);
}

static void test_recycled(void **state)
{
	struct fixture *f = *state;
	for (int i = 0; i < 24; i++)
		expect_alive(f);
	assert_int_equal(spawned(f), 3);
}

static void sleep_ms(unsigned ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000l };
	nanosleep(&ts, NULL);
}

/* One that goes on for ever is late by its own doing; on a busy machine that may not be seen the first time. */
static void expect_late(struct fixture *f, unsigned deadline_ms)
{
	struct sandbox_call hang = { .op = HANG, .deadline_ms = deadline_ms, .max_reply = 100 };
	int rc;
	while ((rc = sandbox_run(f->s, &hang, &f->reply)) == -EAGAIN || rc == -EBUSY)
		sleep_ms(20);
	assert_int_equal(rc, -ETIMEDOUT);
}

static void test_deaths(void **state)
{
	struct fixture *f = *state;
	struct sandbox_stats st;
	for (int i = 0; i < 3; i++) {
		expect_late(f, 100);
		expect_alive(f);
	}
	if (CONFINED) {
		assert_int_equal(ask(f, CRASH, NULL, 0, NULL, 0), -ECHILD);
		expect_alive(f);
	}
	sandbox_stats(f->s, &st);
	assert_int_equal(st.late - st.stalled, 3);
	assert_int_equal(st.died, 2 * CONFINED); /* asked once more of a new one, which had served nobody */
}

/* The only child of a process, or of ours. */
static pid_t child_of(pid_t parent)
{
	char path[64];
	int child = 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
	FILE *p = fopen(path, "r");
	if (!p)
		skip(); /* this kernel does not say */
	if (fscanf(p, "%d", &child) != 1)
		child = 0;
	fclose(p);
	return child;
}

static int ask_soon(struct fixture *f)
{
	struct sandbox_call c = { .op = ECHO, .bytes = "x", .len = 1, .deadline_ms = 200, .max_reply = 100 };
	return sandbox_run(f->s, &c, &f->reply);
}

static uint64_t since_ms(const struct timespec *begin)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)((now.tv_sec - begin->tv_sec) * 1000 + (now.tv_nsec - begin->tv_nsec) / 1000000);
}

/* Then one that had no time answers again, without another start of ours. */
static void expect_recovery(struct fixture *f)
{
	int rc;
	while ((rc = ask_soon(f)) == -EAGAIN || rc == -EBUSY)
		sleep_ms(20);
	assert_int_equal(rc, 0);
}

/* A worker that is not given the time has not failed: what it was asked is not refused, and others are not kept waiting. */
static void test_stalled_worker(void **state)
{
	struct fixture *f = *state;
	struct sandbox_stats st;
	struct timespec begin;
	expect_alive(f);
	pid_t worker = child_of(child_of(getpid()));
	assert_true(worker > 0);
	assert_int_equal(kill(worker, SIGSTOP), 0);
	assert_int_equal(ask_soon(f), -EAGAIN);
	sandbox_stats(f->s, &st);
	assert_int_equal(st.late, 1);
	assert_int_equal(st.stalled, 1);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	uint64_t calls = st.calls;
	int rc = ask_soon(f);
	if (since_ms(&begin) < 200) { /* else the pause was over */
		assert_int_equal(rc, -EBUSY);
		sandbox_stats(f->s, &st);
		assert_int_equal(st.calls, calls);
	}
	expect_recovery(f);
}

/* The nursery that is no more answers: another one takes its place, also while a worker serves. */
static void expect_replaced(struct fixture *f, int signal)
{
	struct sandbox_stats st;
	struct timespec begin;
	sandbox_stats(f->s, &st);
	uint64_t restarted = st.restarted;
	pid_t nursery = child_of(getpid());
	assert_true(nursery > 0);
	assert_int_equal(kill(nursery, signal), 0);
	sandbox_retire(f->s, 0);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	expect_recovery(f);
	assert_true(since_ms(&begin) < 10000);
	sandbox_stats(f->s, &st);
	assert_int_equal(st.restarted, restarted + 1);
	assert_int_not_equal(child_of(getpid()), nursery);
	for (int i = 0; i < 20; i++)
		expect_alive(f);
	expect_late(f, 100); /* the worker that is killed is the lane's */
	expect_alive(f);
}

static void test_killed_nursery(void **state)
{
	struct fixture *f = *state;
	for (int i = 0; i < 3; i++) {
		expect_alive(f);
		expect_replaced(f, SIGKILL);
	}
}

/* One that is stopped does not answer: it is replaced as well. */
static void test_stopped_nursery(void **state)
{
	struct fixture *f = *state;
	expect_alive(f);
	expect_replaced(f, SIGSTOP);
}

/* The end does not wait for a nursery that is stopped. */
static void test_end(void **state)
{
	struct fixture *f = *state;
	struct timespec begin;
	expect_alive(f);
	assert_int_equal(kill(child_of(getpid()), SIGSTOP), 0);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	sandbox_free(f->s);
	f->s = NULL;
	assert_true(since_ms(&begin) < 2000);
}

static char secret[] = "ascribe test secret";

/* Does the memory of a process that may be written to, hold the secret? */
static bool holds_secret(pid_t pid)
{
	char path[64], line[512];
	static char page[1 << 16];
	unsigned long start, end;
	bool found = false;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	FILE *maps = fopen(path, "r");
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	int mem = open(path, O_RDONLY);
	assert_true(maps && mem >= 0);
	while (!found && fgets(line, sizeof(line), maps)) {
		char prot[5];
		if (sscanf(line, "%lx-%lx %4s", &start, &end, prot) != 3 || prot[1] != 'w')
			continue;
		for (unsigned long at = start; !found && at < end; at += sizeof(page) / 2) {
			ssize_t n = pread(mem, page, sizeof(page), (off_t)at);
			found = n > 0 && memmem(page, (size_t)n, secret, sizeof(secret) - 1);
		}
	}
	fclose(maps);
	close(mem);
	return found;
}

/* Whenever it was started, a child holds nothing of what we had read before. */
static void test_no_secrets(void **state)
{
	struct fixture *f = *state;
	if (!CONFINED || geteuid() != 0)
		skip();
	for (size_t i = 0; i < sizeof(secret) - 1; i++)
		secret[i] ^= 0x20; /* not what stands in the program's file */
	assert_true(holds_secret(getpid()));
	sandbox_free(f->s);
	struct sandbox_config cfg = { .ops = ops, .n_ops = OPS, .memory = 64u << 20, .serves = 8 };
	assert_int_equal(sandbox_new(&f->s, &cfg, NULL), 0);
	expect_alive(f);
	assert_false(holds_secret(child_of(getpid())));
	assert_false(holds_secret(child_of(child_of(getpid()))));
}

struct also {
	int fd;
	unsigned calls, most;
};

static bool take_byte(void *ctx)
{
	struct also *a = ctx;
	char byte;
	a->calls++;
	assert_int_equal(read(a->fd, &byte, 1), 1);
	return a->calls < a->most;
}

/* What else there is to do is done while a worker is waited for, as long as it is wanted, and never when there is nothing. */
static void test_meanwhile(void **state)
{
	struct fixture *f = *state;
	struct sandbox_stats before, after;
	struct also a = { .most = 10 };
	int pair[2];
	assert_int_equal(pipe(pair), 0);
	a.fd = pair[0];
	sandbox_meanwhile(f->s, a.fd, take_byte, &a);
	assert_int_equal(write(pair[1], "abc", 3), 3);
	expect_late(f, 200);
	assert_int_equal(a.calls, 3);
	expect_alive(f);
	assert_int_equal(a.calls, 3);
	a.most = 5;
	assert_int_equal(write(pair[1], "defg", 4), 4);
	sandbox_stats(f->s, &before);
	expect_late(f, 200);
	sandbox_stats(f->s, &after);
	/* On a busy machine it is asked again, and each time takes one of the two bytes that are left. */
	uint64_t again = after.stalled - before.stalled;
	int calls = 5 + (again < 2 ? (int)again : 2);
	assert_int_equal(a.calls, calls);
	sandbox_meanwhile(f->s, -1, NULL, NULL);
	expect_late(f, 200);
	assert_int_equal(a.calls, calls);
	close(pair[0]);
	close(pair[1]);
}

static void test_confined(void **state)
{
	struct fixture *f = *state;
	char name[] = "/tmp/ascribe-sandbox-XXXXXX";
	if (!CONFINED)
		skip();
	int fd = mkstemp(name);
	assert_int_equal(write(fd, "ab", 2), 2);
	for (uint8_t way = 0; way < N_FORBIDDEN; way++) {
		int rc = ask(f, FORBIDDEN, &way, 1, &fd, 1);
		if (rc != -ECHILD)
			fail_msg("way %u: %d", way, rc);
	}
	assert_int_equal(lseek(fd, 0, SEEK_END), 2);
	close(fd);
	unlink(name);
	assert_int_equal(ask(f, PATHS, NULL, 0, NULL, 0), 0);
	assert_int_equal(ask(f, ALLOCATE, "32", 3, NULL, 0), 0);
	assert_int_equal(ask(f, ALLOCATE, "80", 3, NULL, 0), -ENOMEM);
	expect_alive(f);
}

static unsigned long long status_of(const char *text, const char *key, int base)
{
	const char *p = strstr(text, key);
	if (!p)
		fail_msg("no %s", key);
	return strtoull(p + strlen(key), NULL, base);
}

/* The kernel's word on what it is. */
static void test_unprivileged(void **state)
{
	struct fixture *f = *state;
	char path[64], text[4096] = "";
	if (!CONFINED)
		skip();
	expect_alive(f);
	snprintf(path, sizeof(path), "/proc/%d/status", (int)child_of(child_of(getpid())));
	FILE *p = fopen(path, "r");
	assert_non_null(p);
	size_t n = fread(text, 1, sizeof(text) - 1, p);
	fclose(p);
	text[n] = 0;
	assert_non_null(strstr(text, "ascribe-parser"));
	assert_int_equal(status_of(text, "CapEff:", 16) | status_of(text, "CapPrm:", 16) | status_of(text, "CapInh:", 16), 0);
	assert_int_equal(status_of(text, "NoNewPrivs:", 10), 1);
	assert_int_equal(status_of(text, "Seccomp:", 10), 2);
	if (geteuid() == 0)
		assert_int_equal(status_of(text, "Uid:", 10), 4294836223u); /* that of no account */
	snprintf(path, sizeof(path), "/proc/%llu/fd", status_of(text, "\nPid:", 10));
	assert_int_equal(access(path, F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_requests, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_recycled, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_deaths, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_stalled_worker, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_killed_nursery, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_stopped_nursery, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_secrets, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_meanwhile, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_confined, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unprivileged, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
