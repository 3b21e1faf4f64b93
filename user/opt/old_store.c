/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/old_store.h"

#include "opt/message.h"
#include "store/file/tree.h"
#include "store/old/old.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* One per store that the command reads; diff has two sides */
#define COPIES_MAX (2 * STORE_UNION_MAX)

static struct copy {
	char dir[PATH_MAX];
	pid_t cleaner; /* removes dir when the pipe is closed */
	int pipe;
} copies[COPIES_MAX];
static size_t n_copies;

/* Remove the copy when the other end of the pipe is gone: the process has ended, or was killed. */
static void run_cleaner(const char *dir, int pipe)
{
	char c;
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL); /* those of the terminal are not meant for it */
	setsid();
	int null = open("/dev/null", O_RDWR);
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	dup2(pipe, 3);
	close_range(4, ~0u, 0); /* whoever waits for those need not wait for this process */
	while (read(3, &c, 1) < 0 && errno == EINTR)
		;
	tree_remove(dir);
	_exit(0);
}

static int start_cleaner(struct copy *c)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	c->cleaner = fork();
	if (c->cleaner < 0) {
		int rc = -errno;
		close(fds[0]);
		close(fds[1]);
		return rc;
	}
	if (!c->cleaner) {
		close(fds[1]);
		for (size_t i = 0; i < n_copies; i++)
			close(copies[i].pipe); /* of the cleaners before */
		run_cleaner(c->dir, fds[0]);
	}
	close(fds[0]);
	c->pipe = fds[1];
	return 0;
}

static void remove_copies(void)
{
	for (size_t i = 0; i < n_copies; i++)
		close(copies[i].pipe);
	for (size_t i = 0; i < n_copies; i++)
		waitpid(copies[i].cleaner, NULL, 0);
	n_copies = 0;
}

static void report(const struct store_conversion *c, void (*say)(const char *fmt, ...))
{
	if (c->torn[0])
		say("%s", c->torn);
	if (c->parents)
		say("%" PRIu64 " of %" PRIu64
		    " windows are longer ones, of whose time only sums were left",
		    c->parents, c->windows);
	if (c->replaced)
		say("%" PRIu64 " windows are part of those", c->replaced);
	if (c->unlabelled)
		say("%" PRIu64 " samples had lost their labels in the old store", c->unlabelled);
	if (c->without_wide)
		say("%" PRIu64
		    " windows had lost the labels of keys with many values in the old store",
		    c->without_wide);
}

static int make_copy(struct copy *c, const char *from, struct err *err)
{
	struct store_conversion done;
	const char *base = getenv("TMPDIR");
	base = base && base[0] == '/' ? base : "/var/tmp";
	if ((size_t)snprintf(c->dir, sizeof(c->dir), "%s/ascribe-XXXXXX", base) >= sizeof(c->dir))
		return err_set(err, -ENAMETOOLONG, "the path in TMPDIR is too long");
	if (!mkdtemp(c->dir))
		return err_sys(
			err, -errno,
			"cannot make a temporary directory in %s (TMPDIR chooses another place)",
			base);
	int rc = start_cleaner(c);
	if (rc) {
		rmdir(c->dir);
		return err_sys(err, rc, "cannot start a process");
	}
	if (!n_copies++)
		atexit(remove_copies);
	cmd_say("%s was written by an older version: reading a converted copy in %s; `ascribe store "
		"compact %s` rewrites it",
		from, c->dir, from);
	rc = store_convert(from, c->dir, false, &done, err);
	if (!rc)
		report(&done, cmd_warn);
	return rc;
}

int old_store_rewrite(const char *dir, void (*say)(const char *fmt, ...), uint64_t *ret_bytes,
		      struct err *err)
{
	struct store_conversion done;
	*ret_bytes = 0;
	if (!store_is_old(dir)) {
		store_rewrite_clean(dir);
		return 0;
	}
	say("%s was written by an older version: rewriting it, which needs room for both", dir);
	int rc = store_rewrite(dir, &done, err);
	if (rc)
		return rc;
	report(&done, say);
	say("%s: %" PRIu64 " windows rewritten", dir, done.windows);
	*ret_bytes = done.bytes;
	return 0;
}

int old_store_copy(const char **dir, struct err *err)
{
	if (!store_is_old(*dir))
		return 0;
	if (n_copies == COPIES_MAX)
		return err_set(err, -E2BIG, "too many stores of an older version");
	struct copy *c = &copies[n_copies];
	int rc = make_copy(c, *dir, err);
	if (!rc)
		*dir = c->dir;
	return rc;
}

int old_store_copies(const char **dirs, size_t n, struct err *err)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++)
		rc = old_store_copy(&dirs[i], err);
	return rc;
}
