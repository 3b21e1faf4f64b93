/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox whose worker does what the tests ask for: answer, hang, crash, allocate, try what is
 * forbidden.
 */
#ifndef TESTS_SANDBOXED_H
#define TESTS_SANDBOXED_H

#include "sandbox/channel.h"
#include "sandbox/sandbox.h"

#include "confined.h"
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

enum {
	ECHO,
	READ_FDS,
	HANG,
	CRASH,
	ALLOCATE,
	FORBIDDEN,
	PATHS,
	BIG,
	KEEP,
	BURN,
	RESULT,
	CLAIM,
	OPS
};

static inline int op_echo(const struct sandbox_request *q, struct buf *out)
{
	return buf_add(out, q->bytes, q->len);
}

static inline int op_read_fds(const struct sandbox_request *q, struct buf *out)
{
	char b[64];
	for (size_t i = 0; i < q->n_fds; i++) {
		ssize_t n = pread(q->fds[i], b, sizeof(b), 0);
		if (n < 0 || buf_add(out, b, (size_t)n))
			return -EIO;
	}
	return 0;
}

static inline int op_hang(const struct sandbox_request *q, struct buf *out)
{
	(void)q, (void)out;
	for (volatile int forever = 1; forever;)
		;
	return 0;
}

static inline int op_crash(const struct sandbox_request *q, struct buf *out)
{
	(void)q, (void)out;
	raise(SIGSEGV);
	return 0;
}

static inline void *allocate(const struct sandbox_request *q)
{
	size_t n = (size_t)atoi((const char *)q->bytes) << 20;
	void *p = malloc(n);
	return p ? memset(p, 1, n) : NULL;
}

static inline int op_allocate(const struct sandbox_request *q, struct buf *out)
{
	(void)out;
	void *p = allocate(q);
	free(p);
	return p ? 0 : -ENOMEM;
}

static inline int op_keep(const struct sandbox_request *q, struct buf *out)
{
	static void *volatile kept;
	(void)out;
	kept = allocate(q);
	return kept ? 0 : -ENOMEM;
}

/* Each is a way out of a parser that an attacker has taken over. */
static inline int op_forbidden(const struct sandbox_request *q, struct buf *out)
{
	char *argv[] = { NULL };
	(void)out;
	switch (q->bytes[0]) {
	case 0:
		return socket(AF_UNIX, SOCK_STREAM, 0);
	case 1:
		return (int)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	case 2:
		return execve("/bin/true", argv, argv);
	case 3:
		return kill(getppid(), 0);
	case 4:
		return (int)write(q->fds[0], "x", 1);
	case 5:
		return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0) == MAP_FAILED;
	case 6:
		return (int)syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0);
	case 7:
		return ftruncate(q->fds[0], 0);
	default:
		return (int)syscall(SYS_ptrace, 0, 0, 0, 0);
	}
}
#define N_FORBIDDEN 9

static inline int op_paths(const struct sandbox_request *q, struct buf *out)
{
	(void)q, (void)out;
	return open("/etc/passwd", O_RDONLY) < 0 && errno == EACCES &&
			       openat(AT_FDCWD, "/", O_PATH) < 0 && access("/etc", F_OK) < 0
		       ? 0
		       : -EEXIST;
}

static inline int op_big(const struct sandbox_request *q, struct buf *out)
{
	(void)q;
	int rc = buf_reserve(out, 3u << 20);
	if (!rc) {
		memset(out->data, 'b', 3u << 20);
		out->len = 3u << 20;
	}
	return rc;
}

static inline int op_burn(const struct sandbox_request *q, struct buf *out)
{
	(void)out;
	for (volatile int i = atoi((const char *)q->bytes); i > 0; i--)
		;
	return 0;
}

/* A parser that was taken over answers what no op does. */
static inline int op_result(const struct sandbox_request *q, struct buf *out)
{
	(void)out;
	return atoi((const char *)q->bytes);
}

/* A parser that was taken over says that what it did took no time. */
static inline int op_claim(const struct sandbox_request *q, struct buf *out)
{
	const struct channel_head none = { 0 };
	op_burn(q, out);
	for (int fd = 0; fd < 32; fd++)
		if (!channel_send_head(fd, &none, NULL, 0))
			_exit(0);
	return -EIO;
}

static const sandbox_op ops[OPS] = { op_echo,	  op_read_fds,	op_hang,   op_crash,
				     op_allocate, op_forbidden, op_paths,  op_big,
				     op_keep,	  op_burn,	op_result, op_claim };

struct fixture {
	struct sandbox *s;
	struct buf reply;
};

static inline int set_up(void **state)
{
	static struct fixture f;
	struct err err;
	struct sandbox_config cfg = { .ops = ops, .n_ops = OPS, .memory = 64u << 20, .serves = 8 };
	f = (struct fixture){ 0 };
	*state = &f;
	return sandbox_new(&f.s, &cfg, &err);
}

static inline int tear_down(void **state)
{
	struct fixture *f = *state;
	sandbox_free(f->s);
	buf_fini(&f->reply);
	return 0;
}

static inline uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline int await(struct fixture *f, struct sandbox_job **job)
{
	uint64_t cpu_ns;
	int rc;
	while ((rc = sandbox_take(job, &f->reply, &cpu_ns)) == -EINPROGRESS)
		assert_true(sandbox_wait(f->s, now_ns() + 1000000000u));
	assert_null(*job);
	return rc;
}

static inline int run(struct fixture *f, const struct sandbox_call *c)
{
	struct sandbox_job *job = NULL;
	int rc = sandbox_submit(f->s, c, &job);
	return rc ? rc : await(f, &job);
}

static inline int ask(struct fixture *f, unsigned op, const void *bytes, size_t len, const int *fds,
		      size_t n_fds)
{
	struct sandbox_call c = { .op = op,
				  .bytes = bytes,
				  .len = len,
				  .fds = fds,
				  .n_fds = n_fds,
				  .deadline_ms = 10000,
				  .max_reply = 4u << 20 };
	return run(f, &c);
}

static inline void expect_alive(struct fixture *f)
{
	assert_int_equal(ask(f, ECHO, "alive", 5, NULL, 0), 0);
	assert_int_equal(f->reply.len, 5);
	assert_memory_equal(f->reply.data, "alive", 5);
}

static inline uint64_t spawned(struct fixture *f)
{
	struct sandbox_stats st;
	sandbox_stats(f->s, &st);
	return st.spawned;
}

/* The only child of a process, or of ours. */
static inline pid_t child_of(pid_t parent)
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

static inline uint64_t since_ms(const struct timespec *begin)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)((now.tv_sec - begin->tv_sec) * 1000 +
			  (now.tv_nsec - begin->tv_nsec) / 1000000);
}

#endif
