/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox with readers, for one test: begin and end it, find its processes, wait for answers. */
#ifndef TESTS_UNIT_READERS_H
#define TESTS_UNIT_READERS_H

#include "proc/proc.h"
#include "proc/reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static struct sandbox *sandbox;

static int no_op(const struct sandbox_request *q, struct buf *out)
{
	return buf_add(out, q->bytes, q->len);
}

static const sandbox_op ops[] = { no_op };

static int set_up(void **state)
{
	struct sandbox_config cfg = {
		.ops = ops, .n_ops = 1, .reader = proc_reader_run, .memory = 16u << 20, .serves = 8
	};
	(void)state;
	int rc = sandbox_new(&sandbox, &cfg, NULL);
	if (!rc)
		proc_reader_start(sandbox);
	return rc;
}

static int tear_down(void **state)
{
	(void)state;
	proc_reader_stop(sandbox);
	sandbox_free(sandbox);
	return 0;
}

static double now_s(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static struct reader_stats stats(void)
{
	struct reader_stats s;
	proc_reader_stats(&s);
	return s;
}

/* The process with this name below ours; 0: there is none. */
static pid_t helper(const char *name)
{
	char cmd[128];
	int pid = 0;
	snprintf(cmd, sizeof(cmd), "pgrep -nx %s -P $(pgrep -x ascribe-nursery -P %d | head -1)",
		 name, (int)getpid());
	FILE *p = popen(cmd, "r");
	assert_non_null(p);
	if (fscanf(p, "%d", &pid) != 1)
		pid = 0;
	pclose(p);
	return pid;
}

/* Let what is on its way come, as the recorder's loop does. */
static void turn(void)
{
	struct pollfd p[2] = { { .fd = proc_reader_fd(), .events = POLLIN },
			       { .fd = sandbox_fd(sandbox), .events = POLLIN } };
	int ms = proc_reader_tick();
	poll(p, 2, ms < 0 || ms > 10 ? 10 : ms);
	sandbox_tick(sandbox);
	proc_reader_tick();
}

/* Ask again until there is an answer, at most 5 s. */
#define ANSWER(call) \
	({ \
		int rc_; \
		double until_ = now_s() + 5; \
		while ((rc_ = (call)) == -EINPROGRESS && now_s() < until_) \
			turn(); \
		rc_; \
	})

#endif
