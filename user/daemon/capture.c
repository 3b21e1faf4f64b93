/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture.h"

#include "sandbox/kept.h"
#include "store/file/tree.h"
#include "util/clock.h"
#include "util/own.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MORE_S 30 /* to begin, and to write what was recorded */
#define LOOK_NS 100000000ull
#define STORE_MAX "64MiB"
#define N_MORE 5 /* arguments besides those of the daemon */
#define HOUR_S 3600
#define KILLED_MS 1000 /* that the end of one that was killed is waited for */

void capture_init(struct capture *c, const char *store)
{
	*c = (struct capture){ .out = -1 };
	if (snprintf(c->dir, sizeof(c->dir), "%s/" CAPTURE_DIR, store) >= (int)sizeof(c->dir))
		c->dir[0] = 0;
}

/* ---- in the keeper ---- */

/* A capture is none of the daemon's own children for systemd. */
static char **make_environment(void)
{
	extern char **environ;
	size_t n = 0, k = 0;
	while (environ[n])
		n++;
	char **v = calloc(n + 1, sizeof(*v));
	for (size_t i = 0; v && i < n; i++)
		if (strncmp(environ[i], "NOTIFY_SOCKET=", 14) &&
		    strncmp(environ[i], "WATCHDOG_", 9))
			v[k++] = environ[i];
	return v;
}

struct capture_question {
	unsigned seconds, hz;
	uint64_t memory; /* 0: no limit */
};

struct arguments {
	char text[N_MORE][600];
	char *v[2 + KEEPER_ARGUMENTS_MAX + N_MORE + 1];
};

/* Those of the daemon, and what differs: the command line has the last word, its end above all. */
static void make_arguments(const struct capture_question *c, struct arguments *a)
{
	char *const *from = keeper_arguments();
	size_t n = 0;
	snprintf(a->text[0], sizeof(a->text[0]), "--capture=%us", c->seconds);
	snprintf(a->text[1], sizeof(a->text[1]), "--frequency=%u", c->hz);
	snprintf(a->text[2], sizeof(a->text[2]), "--store=%s/" CAPTURE_DIR, *from++);
	snprintf(a->text[3], sizeof(a->text[3]), "--store-max=" STORE_MAX);
	snprintf(a->text[4], sizeof(a->text[4]), "--memory-max=%" PRIu64, c->memory);
	a->v[n++] = (char *)(uintptr_t)"ascribe";
	a->v[n++] = (char *)(uintptr_t)"daemon";
	while (*from)
		a->v[n++] = *from++;
	for (size_t i = 0; i < N_MORE; i++)
		a->v[n++] = a->text[i];
	a->v[n] = NULL;
}

static int spawn(char *const *argv, char *const *environment, int out, pid_t *ret)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t all;
	sigfillset(&all); /* the keeper ignores some */
	int rc = posix_spawn_file_actions_init(&files);
	if (rc)
		return -rc;
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
	rc = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	rc = rc ? rc : posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	rc = rc ? rc : posix_spawn_file_actions_adddup2(&files, out, STDERR_FILENO);
	rc = rc ? rc : posix_spawn(ret, "/proc/self/exe", &files, &attributes, argv, environment);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	return -rc;
}

int capture_op(const struct keeper_question *q, struct keeper_answer *ret, struct err *err)
{
	struct capture_question c;
	static struct arguments a;
	if (q->len != sizeof(c) || q->n_fds != 1)
		return err_set(err, -EBADMSG, "a capture that cannot be");
	memcpy(&c, q->bytes, sizeof(c));
	char **environment = make_environment();
	make_arguments(&c, &a);
	pid_t pid;
	int rc = environment ? spawn(a.v, environment, q->fds[0], &pid) : -ENOMEM;
	free(environment);
	if (rc)
		return err_sys(err, rc, "starting the capture");
	return kept_started(ret, pid, err);
}

/* ---- the process ---- */

static int start(struct capture *c, const struct http_capture *asked, struct err *err)
{
	const struct capture_question what = { asked->seconds, asked->hz, c->memory };
	int ends[2];
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return err_sys(err, -errno, "starting the capture");
	const struct keeper_question q = { &what, sizeof(what), &ends[1], 1 };
	int rc = kept_start(capture_op, &q, &c->pid, err);
	close(ends[1]);
	if (rc) {
		close(ends[0]);
		return rc;
	}
	c->out = ends[0];
	own_leave_out(OWN_CAPTURE, c->pid);
	return 0;
}

/* Keep the end of what the process says. True: it closed its output. */
static bool read_output(struct capture *c)
{
	for (;;) {
		if (c->n_said > CAPTURE_SAID_MAX / 2) { /* the last words count */
			memmove(c->said, c->said + CAPTURE_SAID_MAX / 4,
				c->n_said - CAPTURE_SAID_MAX / 4);
			c->n_said -= CAPTURE_SAID_MAX / 4;
		}
		ssize_t got = read(c->out, c->said + c->n_said, CAPTURE_SAID_MAX - 1 - c->n_said);
		if (got <= 0)
			return !got || errno != EAGAIN;
		c->n_said += (size_t)got;
		c->said[c->n_said] = 0;
	}
}

static const char *last_line(char *said)
{
	size_t n = strlen(said);
	while (n && said[n - 1] == '\n')
		said[--n] = 0;
	const char *line = strrchr(said, '\n');
	return line ? line + 1 : said;
}

static double seconds_of(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

/* The process has ended: nothing of it is left but its store. */
static void forget_process(struct capture *c, const struct rusage *used)
{
	c->used_s += seconds_of(used->ru_utime) + seconds_of(used->ru_stime);
	c->memory = 0;
	if (c->out >= 0)
		close(c->out);
	c->out = -1;
	c->pid = 0;
	own_leave_out(OWN_CAPTURE, 0);
}

static void remove_store(struct capture *c)
{
	tree_remove(c->dir);
	c->busy = false;
}

/* ---- one at a time ---- */

/* Is there CPU time and memory for one? */
static int look_at_budget(struct capture *c, const struct capture_budget *b, struct err *err)
{
	const uint64_t now = clock_ns(CLOCK_MONOTONIC);
	const double most = b->cpu * HOUR_S, worn = b->cpu * (double)(now - c->worn_ns) / 1e9;
	c->used_s = c->used_s > worn ? c->used_s - worn : 0;
	c->worn_ns = now;
	if (b->cpu > 0 && c->used_s >= most)
		return err_set(
			err, -EBUSY,
			"captures used %.1f s of CPU, and may use %.1f s an hour by cpu-max: "
			"the next one may begin in %.0f s",
			c->used_s, most, (c->used_s - most) / b->cpu + 1);
	if (b->memory < b->memory_least)
		return err_set(err, -EBUSY,
			       "the daemon leaves %.0f MiB of memory-max, and a capture needs "
			       "%.0f MiB at least: give it more memory-max",
			       (double)b->memory / (1 << 20), (double)b->memory_least / (1 << 20));
	c->memory = b->memory == UINT64_MAX ? 0 : b->memory;
	return 0;
}

int capture_start(struct capture *c, uint64_t id, const struct http_capture *asked,
		  const struct capture_budget *budget, struct err *err)
{
	if (c->busy)
		return err_set(err, -EBUSY, "another capture is running");
	if (!asked->hz || asked->hz > HTTP_CAPTURE_HZ_MAX || !asked->seconds ||
	    asked->seconds > HTTP_CAPTURE_S_MAX)
		return err_set(err, -EINVAL, "a capture of %u s at %u Hz", asked->seconds,
			       asked->hz);
	if (!c->dir[0])
		return err_set(err, -ENAMETOOLONG, "the store has too long a name");
	tree_remove(c->dir); /* of a daemon that was killed */
	c->id = id;
	c->seconds = asked->seconds;
	c->n_said = 0;
	c->said[0] = 0;
	c->late = c->unwanted = false;
	c->until_ns = clock_ns(CLOCK_MONOTONIC) + (asked->seconds + MORE_S) * 1000000000ull;
	int rc = look_at_budget(c, budget, err);
	rc = rc ? rc : start(c, asked, err);
	c->busy = !rc;
	return rc;
}

int capture_look(struct capture *c, uint64_t *ret_id, struct err *err)
{
	struct kept_end end;
	if (!c->pid)
		return -EAGAIN;
	if (!c->late && clock_ns(CLOCK_MONOTONIC) > c->until_ns) {
		c->late = true;
		kept_kill(c->pid);
	}
	if (!read_output(c) || !kept_has_ended(c->pid, &end))
		return -EAGAIN;
	const double memory = (double)c->memory / (1 << 20);
	forget_process(c, &end.used);
	if (c->unwanted) {
		remove_store(c);
		return -EAGAIN;
	}
	*ret_id = c->id;
	if (!c->late && WIFEXITED(end.status) && !WEXITSTATUS(end.status))
		return 0;
	remove_store(c);
	if (c->late)
		return err_set(err, -EIO, "the capture took longer than %u s", c->seconds + MORE_S);
	return memory > 0 ? err_set(err, -EIO,
				    "the capture failed with the %.0f MiB that the daemon leaves "
				    "of memory-max: %s",
				    memory, last_line(c->said))
			  : err_set(err, -EIO, "the capture failed: %s", last_line(c->said));
}

uint64_t capture_wait_ns(const struct capture *c)
{
	return c->pid ? LOOK_NS : UINT64_MAX;
}

void capture_end(struct capture *c)
{
	c->unwanted = true;
	if (c->pid)
		kept_kill(c->pid);
	else if (c->busy)
		remove_store(c);
}

void capture_fini(struct capture *c)
{
	if (c->pid) {
		kept_kill(c->pid);
		const struct rusage used = { 0 };
		kept_await(c->pid, KILLED_MS);
		forget_process(c, &used);
	}
	if (c->busy)
		remove_store(c);
}
