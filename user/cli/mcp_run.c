/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child for each answer: a store that is damaged or huge costs one answer, not the server. Its
 * output is read up to the limit. Then it is killed.
 */
#include "cli/mcp_run.h"

#include "cli/cmd.h"
#include "util/buf.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MESSAGES_MAX 4096 /* bytes of what it says on stderr */

struct stream {
	int fd; /* -1: ended */
	size_t max;
	struct buf b;
	bool cut;
};

_Noreturn static void be_child(int (*run)(int, char **), int argc, char **argv, const int out[2],
			       unsigned seconds, pid_t parent)
{
	const struct rlimit cpu = { seconds, seconds }, none = { 0, 0 };
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	setpgid(0, 0);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent || null < 0 ||
	    dup2(null, 0) < 0 || dup2(out[0], 1) < 0 || dup2(out[1], 2) < 0 ||
	    setrlimit(RLIMIT_CPU, &cpu) || setrlimit(RLIMIT_CORE, &none))
		_exit(EXIT_FAILED);
	close_range(3, ~0U, 0);
	exit(cmd_end(run(argc, argv)));
}

static int read_some(struct stream *s)
{
	uint8_t chunk[4096];
	ssize_t n = read(s->fd, chunk, sizeof(chunk));
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	if (!n) {
		close(s->fd);
		s->fd = -1;
		return 0;
	}
	size_t room = s->max - s->b.len;
	s->cut = (size_t)n > room;
	return buf_add(&s->b, chunk, s->cut ? room : (size_t)n);
}

/* Until both streams and the child have ended, the text is cut or the time is over. */
static int read_streams(struct stream s[2], int child, unsigned seconds, bool *ret_late)
{
	const uint64_t end = clock_ns(CLOCK_MONOTONIC) + seconds * 1000000000ull;
	bool ended = false;
	while ((!ended || s[0].fd >= 0 || s[1].fd >= 0) && !s[0].cut && !s[1].cut) {
		struct pollfd p[3] = { { .fd = s[0].fd, .events = POLLIN },
				       { .fd = s[1].fd, .events = POLLIN },
				       { .fd = ended ? -1 : child, .events = POLLIN } };
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		*ret_late = now >= end;
		if (*ret_late)
			return 0;
		if (poll(p, 3, (int)((end - now) / 1000000) + 1) < 0) {
			if (errno != EINTR)
				return -errno;
			continue;
		}
		for (int i = 0; i < 2; i++) {
			int rc = s[i].fd >= 0 && p[i].revents ? read_some(&s[i]) : 0;
			if (rc)
				return rc;
		}
		ended |= p[2].revents != 0;
	}
	return 0;
}

/* The whole lines alone, of what was cut. */
static void drop_part_of_line(struct buf *b)
{
	while (b->len && b->data[b->len - 1] != '\n')
		b->len--;
}

static int make_text(struct stream s[2], const struct mcp_limits *l, bool late, char **ret)
{
	struct buf b = BUF_INIT;
	int rc = 0;
	for (int i = 0; i < 2; i++)
		if (s[i].cut || late)
			drop_part_of_line(&s[i].b);
	rc = buf_add(&b, s[0].b.data, s[0].b.len);
	if (!rc && s[0].cut)
		rc = buf_printf(&b,
				"[cut: the answer has more than %zu bytes; ask for fewer rows "
				"(limit), or narrow it by where, from and to]\n",
				l->bytes);
	rc = rc ? rc : buf_add(&b, s[1].b.data, s[1].b.len);
	if (!rc && s[1].cut)
		rc = buf_printf(&b, "[cut: more messages than %d bytes]\n", MESSAGES_MAX);
	if (!rc && late)
		rc = buf_printf(&b,
				"[stopped: no whole answer within %u s; ask for a shorter range]\n",
				l->seconds);
	rc = rc ? rc : buf_add_u8(&b, 0);
	if (rc)
		buf_fini(&b);
	else
		*ret = (char *)b.data;
	return rc;
}

static int wait_for(pid_t child)
{
	int status;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return status;
}

int mcp_run(int (*run)(int argc, char **argv), int argc, char **argv, const struct mcp_limits *l,
	    char **ret_text, bool *ret_error)
{
	int out[2], err[2];
	struct stream s[2] = { { .max = l->bytes }, { .max = MESSAGES_MAX } };
	bool late = false;
	pid_t self = getpid(), child;
	if (pipe2(out, O_CLOEXEC))
		return -errno;
	if (pipe2(err, O_CLOEXEC)) {
		int rc = -errno;
		close(out[0]);
		close(out[1]);
		return rc;
	}
	fflush(stdout);
	child = fork();
	if (!child)
		be_child(run, argc, argv, (int[]){ out[1], err[1] }, l->seconds, self);
	int rc = child < 0 ? -errno : 0;
	int watch = rc ? -1 : (int)syscall(SYS_pidfd_open, child, 0);
	if (!rc && watch < 0)
		rc = -errno;
	close(out[1]);
	close(err[1]);
	s[0].fd = out[0];
	s[1].fd = err[0];
	rc = rc ? rc : read_streams(s, watch, l->seconds, &late);
	bool whole = !rc && !late && !s[0].cut && !s[1].cut;
	if (child > 0 && !whole) {
		kill(-child, SIGKILL); /* whom it started, too */
		kill(child, SIGKILL);
	}
	int status = child > 0 ? wait_for(child) : 0;
	for (int i = 0; i < 2; i++)
		if (s[i].fd >= 0)
			close(s[i].fd);
	if (watch >= 0)
		close(watch);
	rc = rc ? rc : make_text(s, l, late, ret_text);
	if (!rc)
		*ret_error = late || (whole && status != 0);
	buf_fini(&s[0].b);
	buf_fini(&s[1].b);
	return rc;
}
