/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/temp_store.h"

#include "store/file/tree.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* One per store that a command reads; diff has two sides */
#define TEMPS_MAX (2 * STORE_UNION_MAX)

static struct temp_dir {
	char dir[PATH_MAX];
	pid_t cleaner; /* removes dir when the pipe is closed */
	int pipe;
} temps[TEMPS_MAX];
static size_t n_temps;

/* Remove the directory when the other end of the pipe is closed: the process has ended. */
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

static int start_cleaner(struct temp_dir *c)
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
		for (size_t i = 0; i < n_temps; i++)
			close(temps[i].pipe); /* of the cleaners before */
		run_cleaner(c->dir, fds[0]);
	}
	close(fds[0]);
	c->pipe = fds[1];
	return 0;
}

static void remove_temps(void)
{
	for (size_t i = 0; i < n_temps; i++)
		close(temps[i].pipe);
	for (size_t i = 0; i < n_temps; i++)
		waitpid(temps[i].cleaner, NULL, 0);
	n_temps = 0;
}

int temp_store_new(const char **ret, struct err *err)
{
	struct temp_dir *c = &temps[n_temps];
	const char *base = getenv("TMPDIR");
	base = base && base[0] == '/' ? base : "/var/tmp";
	if (n_temps == TEMPS_MAX)
		return err_set(err, -E2BIG, "more than %d temporary stores", TEMPS_MAX);
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
	if (!n_temps++)
		atexit(remove_temps);
	*ret = c->dir;
	return 0;
}
