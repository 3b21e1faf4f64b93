/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/capture.h"

#include "store/file/tree.h"
#include "util/clock.h"
#include "util/own.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MORE_S 30 /* to begin, and to write what was recorded */
#define LOOK_MS 100
#define STORE_MAX "64MiB"
#define SAID_MAX 400
#define N_MORE 4 /* arguments besides those of the daemon */

void capture_init(struct capture *c, int argc, char *const *argv, const char *store)
{
	*c = (struct capture){ .argc = argc, .argv = argv };
	snprintf(c->store, sizeof(c->store), "%s", store);
	pthread_mutex_init(&c->lock, NULL);
}

/* ---- the process ---- */

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

struct arguments {
	char text[N_MORE][600];
	char **v;
};

/* Those of the daemon, and what differs: the command line has the last word, its end above all. */
static int make_arguments(const struct capture *c, const struct http_capture *asked,
			  const char *dir, struct arguments *a)
{
	size_t n = 0;
	snprintf(a->text[0], sizeof(a->text[0]), "--capture=%us", asked->seconds);
	snprintf(a->text[1], sizeof(a->text[1]), "--frequency=%u", asked->hz);
	snprintf(a->text[2], sizeof(a->text[2]), "--store=%s", dir);
	snprintf(a->text[3], sizeof(a->text[3]), "--store-max=" STORE_MAX);
	a->v = calloc((size_t)c->argc + 2 + N_MORE, sizeof(*a->v));
	if (!a->v)
		return -ENOMEM;
	a->v[n++] = (char *)(uintptr_t)"ascribe";
	a->v[n++] = (char *)(uintptr_t)"daemon";
	for (int i = 1; i < c->argc; i++)
		a->v[n++] = c->argv[i];
	for (size_t i = 0; i < N_MORE; i++)
		a->v[n++] = a->text[i];
	return 0;
}

static int spawn(char *const *argv, char *const *environment, int out, pid_t *ret)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none;
	sigemptyset(&none);
	int rc = posix_spawn_file_actions_init(&files);
	if (rc)
		return -rc;
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none); /* the daemon reads signals otherwise */
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	rc = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	rc = rc ? rc : posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	rc = rc ? rc : posix_spawn_file_actions_adddup2(&files, out, STDERR_FILENO);
	rc = rc ? rc : posix_spawn(ret, "/proc/self/exe", &files, &attributes, argv, environment);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	return -rc;
}

static bool must_stop(struct capture *c)
{
	pthread_mutex_lock(&c->lock);
	bool stop = c->stop;
	pthread_mutex_unlock(&c->lock);
	return stop;
}

/* Keep the end of what the process says, until it closes its output. 0, -EINTR, -ETIME. */
static int listen_to(struct capture *c, int fd, uint64_t until_ns, char said[SAID_MAX])
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t n = 0;
	for (;;) {
		if (must_stop(c))
			return -EINTR;
		if (clock_ns(CLOCK_MONOTONIC) > until_ns)
			return -ETIME;
		if (poll(&p, 1, LOOK_MS) <= 0)
			continue;
		if (n > SAID_MAX / 2) { /* the last words count */
			memmove(said, said + SAID_MAX / 4, n - SAID_MAX / 4);
			n -= SAID_MAX / 4;
		}
		ssize_t got = read(fd, said + n, SAID_MAX - 1 - n);
		if (got <= 0)
			return 0;
		n += (size_t)got;
		said[n] = 0;
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

static int wait_for(struct capture *c, pid_t pid, int fd, unsigned seconds, struct err *err)
{
	char said[SAID_MAX] = "";
	int status = 0;
	int rc = listen_to(c, fd, clock_ns(CLOCK_MONOTONIC) + (seconds + MORE_S) * 1000000000ull,
			   said);
	if (rc)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (rc == -EINTR)
		return err_set(err, rc, "the capture was ended with the server");
	if (rc)
		return err_set(err, -EIO, "the capture took longer than %u s", seconds + MORE_S);
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	return err_set(err, -EIO, "the capture failed: %s", last_line(said));
}

static int record(struct capture *c, const struct http_capture *asked, const char *dir,
		  struct err *err)
{
	struct arguments a = { .v = NULL };
	char **environment = make_environment();
	int ends[2] = { -1, -1 };
	pid_t pid = 0;
	int rc = environment ? make_arguments(c, asked, dir, &a) : -ENOMEM;
	if (!rc && pipe2(ends, O_CLOEXEC))
		rc = -errno;
	rc = rc ? rc : spawn(a.v, environment, ends[1], &pid);
	if (ends[1] >= 0)
		close(ends[1]);
	if (rc) {
		err_sys(err, rc, "starting the capture");
	} else {
		own_leave_out(pid);
		rc = wait_for(c, pid, ends[0], asked->seconds, err);
		own_leave_out(0);
	}
	if (ends[0] >= 0)
		close(ends[0]);
	free(environment);
	free(a.v);
	return rc;
}

/* ---- one at a time ---- */

int capture_record(struct capture *c, const struct http_capture *asked, char ret[static 512],
		   struct err *err)
{
	pthread_mutex_lock(&c->lock);
	bool busy = c->busy, stop = c->stop;
	c->busy = true;
	pthread_mutex_unlock(&c->lock);
	if (busy)
		return err_set(err, -EBUSY, "another capture is running");
	int rc = stop ? err_set(err, -EINTR, "the server ends")
		 : snprintf(ret, 512, "%s/capture", c->store) >= 512
			 ? err_set(err, -ENAMETOOLONG, "%s: too long a name", c->store)
			 : 0;
	if (!rc)
		tree_remove(ret); /* of a daemon that was killed */
	rc = rc ? rc : record(c, asked, ret, err);
	if (rc)
		capture_end(c);
	return rc;
}

void capture_end(struct capture *c)
{
	char dir[512];
	if (snprintf(dir, sizeof(dir), "%s/capture", c->store) < (int)sizeof(dir))
		tree_remove(dir);
	pthread_mutex_lock(&c->lock);
	c->busy = false;
	pthread_mutex_unlock(&c->lock);
}

void capture_stop(struct capture *c, bool stop)
{
	pthread_mutex_lock(&c->lock);
	c->stop = stop;
	pthread_mutex_unlock(&c->lock);
}
