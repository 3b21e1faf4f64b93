/* SPDX-License-Identifier: Apache-2.0 */
/* The child that parses: what it may do, what it may not, and what its death costs. */
#include "sandbox/sandbox.h"

#include "starve.h"

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
#include <sys/resource.h>
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

enum { ECHO, READ_FDS, HANG, CRASH, ALLOCATE, FORBIDDEN, PATHS, BIG, KEEP, BURN, OPS };

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

static void *allocate(const struct sandbox_request *q)
{
	size_t n = (size_t)atoi((const char *)q->bytes) << 20;
	void *p = malloc(n);
	return p ? memset(p, 1, n) : NULL;
}

static int op_allocate(const struct sandbox_request *q, struct buf *out)
{
	(void)out;
	void *p = allocate(q);
	free(p);
	return p ? 0 : -ENOMEM;
}

static int op_keep(const struct sandbox_request *q, struct buf *out)
{
	static void *volatile kept;
	(void)out;
	kept = allocate(q);
	return kept ? 0 : -ENOMEM;
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

static int op_burn(const struct sandbox_request *q, struct buf *out)
{
	(void)out;
	for (volatile int i = atoi((const char *)q->bytes); i > 0; i--)
		;
	return 0;
}

static const sandbox_op ops[OPS] = { op_echo, op_read_fds, op_hang, op_crash, op_allocate, op_forbidden, op_paths,
				     op_big,  op_keep, op_burn };

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

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int await(struct fixture *f, struct sandbox_job **job)
{
	uint64_t cpu_ns;
	int rc;
	while ((rc = sandbox_take(f->s, job, &f->reply, &cpu_ns)) == -EINPROGRESS)
		assert_true(sandbox_wait(f->s, now_ns() + 1000000000u));
	assert_null(*job);
	return rc;
}

static int run(struct fixture *f, const struct sandbox_call *c)
{
	struct sandbox_job *job = NULL;
	int rc = sandbox_submit(f->s, c, &job);
	return rc ? rc : await(f, &job);
}

static int ask(struct fixture *f, unsigned op, const void *bytes, size_t len, const int *fds, size_t n_fds)
{
	struct sandbox_call c = { .op = op, .bytes = bytes, .len = len, .fds = fds, .n_fds = n_fds, .deadline_ms = 10000,
				  .max_reply = 4u << 20 };
	return run(f, &c);
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
	assert_int_equal(run(f, &small), -E2BIG);
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

/*
 * One that goes on for ever is late by its own doing; on a busy machine that may not be seen the
 * first time.
 */
static void expect_late(struct fixture *f, unsigned deadline_ms)
{
	struct sandbox_call hang = { .op = HANG, .deadline_ms = deadline_ms, .max_reply = 100 };
	int rc;
	while ((rc = run(f, &hang)) == -EAGAIN || rc == -EBUSY)
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
	/* Asked once more of a new one, which had served nobody */
	assert_int_equal(st.died, 2 * CONFINED);
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
	return run(f, &c);
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

/*
 * A worker that is not given the time has not failed: what it was asked is not refused, and others
 * are not kept waiting.
 */
static void test_stalled_worker(void **state)
{
	struct fixture *f = *state;
	struct sandbox_stats st;
	expect_alive(f);
	pid_t worker = child_of(child_of(getpid()));
	assert_true(worker > 0);
	assert_int_equal(kill(worker, SIGSTOP), 0);
	assert_int_equal(ask_soon(f), -EAGAIN);
	sandbox_stats(f->s, &st);
	assert_int_equal(st.late, 1);
	assert_int_equal(st.stalled, 1);
	expect_recovery(f);
}

/*
 * Time in the run queue does not count: a parse that needs little CPU time ends well, however late.
 */
static void test_starved_worker(void **state)
{
	struct fixture *f = *state;
	struct sandbox_stats st;
	struct timespec begin;
	double ms;
	expect_alive(f);
	char loops[16] = "10000000";
	clock_gettime(CLOCK_MONOTONIC, &begin);
	assert_int_equal(ask(f, BURN, loops, sizeof(loops), NULL, 0), 0);
	ms = since_ms(&begin);
	snprintf(loops, sizeof(loops), "%.0f", 1e7 * 60 / ms);
	pid_t worker = child_of(child_of(getpid())), loop = starve(worker, 10);
	if (!loop)
		skip();
	struct sandbox_call c = { .op = BURN, .bytes = loops, .len = sizeof(loops), .deadline_ms = 200, .max_reply = 1 };
	clock_gettime(CLOCK_MONOTONIC, &begin);
	int rc = run(f, &c);
	ms = since_ms(&begin);
	starve_end(loop);
	sandbox_stats(f->s, &st);
	print_message("60 ms of CPU time took %.0f ms\n", ms);
	assert_int_equal(rc, 0);
	assert_int_equal(st.late, 0);
	assert_true(ms > 200);
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
	for (int i = 0; i < 20; i++)
		expect_alive(f);
	for (int i = 0; child_of(getpid()) == nursery && i < 100; i++) {
		/* Killed, and to be reaped */
		sleep_ms(20);
		expect_alive(f);
	}
	assert_int_not_equal(child_of(getpid()), nursery);
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

/* Submit for a user; the deadline is far. */
static struct sandbox_job *submit(struct fixture *f, unsigned op, uint32_t user, const char *text)
{
	struct sandbox_call c = { .op = op, .user = user, .bytes = text, .len = strlen(text), .deadline_ms = 2000, .max_reply = 100 };
	struct sandbox_job *job = NULL;
	assert_int_equal(sandbox_submit(f->s, &c, &job), 0);
	return job;
}

/* Users who keep all of their workers busy delay nobody else, and nothing waits for them. */
static void test_slow_users(void **state)
{
	struct fixture *f = *state;
	struct sandbox_job *slow[6];
	struct sandbox_stats st;
	struct timespec begin;
	for (unsigned i = 0; i < 6; i++)
		slow[i] = submit(f, HANG, 1, "");
	struct sandbox_job *own = submit(f, ECHO, 1, "own"), *other = submit(f, ECHO, 2, "other");
	clock_gettime(CLOCK_MONOTONIC, &begin);
	assert_int_equal(await(f, &other), 0);
	assert_true(since_ms(&begin) < 3000);
	assert_memory_equal(f->reply.data, "other", 5);
	sandbox_stats(f->s, &st);
	assert_int_equal(st.calls, 3); /* two of the slow ones, and that of the other user */
	uint64_t cpu_ns;
	assert_int_equal(sandbox_take(f->s, &own, &f->reply, &cpu_ns), -EINPROGRESS);
	for (unsigned i = 0; i < 6; i++)
		sandbox_cancel(f->s, &slow[i]);
	assert_int_equal(await(f, &own), 0); /* when the cancelled ones that run are late */
	assert_memory_equal(f->reply.data, "own", 3);
}

/* What a worker keeps is bounded, and costs no later job its answer. */
static void test_memory_kept(void **state)
{
	struct fixture *f = *state;
	if (!CONFINED)
		skip();
	assert_int_equal(ask(f, KEEP, "20", 3, NULL, 0), 0);
	expect_alive(f);
	assert_int_equal(spawned(f), 1);
	/* Beside the 20 that were kept there was no room: a new one */
	assert_int_equal(ask(f, ALLOCATE, "50", 3, NULL, 0), 0);
	assert_int_equal(ask(f, ALLOCATE, "70", 3, NULL, 0), -ENOMEM); /* there is in none */
	assert_int_equal(spawned(f), 3);
	assert_int_equal(ask(f, KEEP, "50", 3, NULL, 0), 0);
	expect_alive(f);
	/* The one that ran out of memory was replaced, and the one that keeps much */
	assert_int_equal(spawned(f), 5);
}

/* In the lane whose workers keep files, a second worker begins later than elsewhere. */
static void test_keeping_lane(void **state)
{
	struct fixture *f = *state;
	struct sandbox_job *slow = NULL;
	struct timespec begin;
	struct sandbox_call c = { .lane = SANDBOX_KEEPING_LANE, .op = HANG, .deadline_ms = 10000, .user = 1, .max_reply = 100 };
	clock_gettime(CLOCK_MONOTONIC, &begin);
	assert_int_equal(sandbox_submit(f->s, &c, &slow), 0);
	c.op = ECHO;
	assert_int_equal(run(f, &c), 0);
	assert_true(since_ms(&begin) >= SANDBOX_SLOW_KEEPING_MS);
	assert_int_equal(spawned(f), 2);
	sandbox_cancel(f->s, &slow);
}

/* Where CPUs are busy another worker is no help: it would unpack the same files, and be as late. */
static void test_keeping_lane_starved(void **state)
{
	struct fixture *f = *state;
	struct sandbox_call c = { .lane = SANDBOX_KEEPING_LANE, .op = ECHO, .deadline_ms = 10000, .max_reply = 100 };
	struct sandbox_job *job = NULL;
	struct timespec begin;
	char loops[16] = "10000000";
	assert_int_equal(run(f, &c), 0);
	c.op = BURN;
	c.bytes = loops;
	c.len = sizeof(loops);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	assert_int_equal(run(f, &c), 0);
	snprintf(loops, sizeof(loops), "%.0f", 1e7 * 80 / since_ms(&begin));
	pid_t worker = child_of(child_of(getpid())), loop = starve(worker, 10);
	if (!loop)
		skip();
	clock_gettime(CLOCK_MONOTONIC, &begin);
	assert_int_equal(sandbox_submit(f->s, &c, &job), 0);
	c.op = ECHO;
	int rc = run(f, &c);
	double ms = since_ms(&begin);
	starve_end(loop);
	print_message("80 ms of CPU time took %.0f ms\n", ms);
	assert_int_equal(rc, 0);
	assert_int_equal(await(f, &job), 0);
	assert_true(ms > SANDBOX_SLOW_KEEPING_MS);
	assert_int_equal(spawned(f), 1);
}

/*
 * A lower limit counts for all that comes; there are as many workers as may be, one for each lane
 * at least.
 */
static void test_limits(void **state)
{
	struct fixture *f = *state;
	struct sandbox_job *slow[3];
	struct sandbox_stats st;
	expect_alive(f);
	sandbox_limit(f->s, 16u << 20, 3);
	sandbox_stats(f->s, &st);
	assert_int_equal(st.memory_max, 48u << 20);
	assert_int_equal(ask(f, ALLOCATE, "20", 3, NULL, 0), CONFINED ? -ENOMEM : 0);
	sandbox_stats(f->s, &st);
	uint64_t calls = st.calls, until = now_ns() + 500000000u;
	for (unsigned i = 0; i < 3; i++)
		slow[i] = submit(f, HANG, i, "");
	while (sandbox_wait(f->s, until) && now_ns() < until)
		;
	sandbox_stats(f->s, &st);
	assert_int_equal(st.calls, calls + 2);
	struct sandbox_call c = { .lane = 1, .op = ECHO, .bytes = "x", .len = 1, .deadline_ms = 2000, .max_reply = 100 };
	assert_int_equal(run(f, &c), 0);
	for (unsigned i = 0; i < 3; i++)
		sandbox_cancel(f->s, &slow[i]);
}

/* Neither submitting nor ticking waits, whatever a worker does. */
static void test_no_waiting(void **state)
{
	struct fixture *f = *state;
	struct sandbox_job *job[4];
	struct timespec begin;
	expect_alive(f);
	pid_t worker = child_of(child_of(getpid()));
	assert_int_equal(kill(worker, SIGSTOP), 0);
	assert_int_equal(kill(child_of(getpid()), SIGSTOP), 0);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (unsigned i = 0; i < 4; i++)
		job[i] = submit(f, ECHO, i, "x");
	for (unsigned i = 0; i < 1000; i++)
		assert_int_not_equal(sandbox_tick(f->s), -1);
	assert_true(since_ms(&begin) < 1000);
	for (unsigned i = 0; i < 4; i++)
		sandbox_cancel(f->s, &job[i]);
}

/* The queue is bounded, that of one user more narrowly. */
static void test_full(void **state)
{
	struct fixture *f = *state;
	struct sandbox_call c = { .op = HANG, .user = 1, .deadline_ms = 60000, .max_reply = 100 };
	static struct sandbox_job *job[SANDBOX_QUEUE_USER + SANDBOX_WORKERS];
	unsigned n = 0;
	while (n < SANDBOX_QUEUE_USER + SANDBOX_WORKERS && !sandbox_submit(f->s, &c, &job[n]))
		n++;
	assert_in_range(n, SANDBOX_QUEUE_USER, SANDBOX_QUEUE_USER + SANDBOX_WORKERS_USER);
	assert_int_equal(sandbox_submit(f->s, &c, &job[n]), -EBUSY);
	struct sandbox_job *other = submit(f, ECHO, 2, "other");
	assert_int_equal(await(f, &other), 0);
	while (n)
		sandbox_cancel(f->s, &job[--n]);
}

/* A job of a higher priority goes before those that were queued earlier. */
static void test_priority(void **state)
{
	struct fixture *f = *state;
	struct sandbox_job *job[30], *urgent;
	const struct sandbox_call c = { .op = ECHO, .user = 1, .priority = 1, .bytes = "now", .len = 3, .deadline_ms = 60000, .max_reply = 100 };
	uint64_t cpu_ns;
	for (unsigned i = 0; i < 30; i++)
		job[i] = submit(f, ECHO, 1, "later");
	assert_int_equal(sandbox_submit(f->s, &c, &urgent), 0);
	assert_int_equal(await(f, &urgent), 0);
	assert_int_equal(sandbox_take(f->s, &job[29], &f->reply, &cpu_ns), -EINPROGRESS);
	for (unsigned i = 0; i < 30; i++)
		assert_int_equal(await(f, &job[i]), 0);
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
		cmocka_unit_test_setup_teardown(test_starved_worker, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_killed_nursery, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_stopped_nursery, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_secrets, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_slow_users, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_memory_kept, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_keeping_lane, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_keeping_lane_starved, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_limits, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_waiting, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_full, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_priority, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_confined, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unprivileged, set_up, tear_down),
	};
	/*
	 * As the recorder does: a worker that hangs is late only if it ran for half of its time.
	 * Without the right it takes longer.
	 */
	setpriority(PRIO_PROCESS, 0, -20);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
