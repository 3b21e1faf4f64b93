/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/anew.h"

#include "sandbox/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FDS_MAX 4
#define HIGH_FD 32 /* above what the child is given */

bool anew_gains_rights(void)
{
	return getauxval(AT_SECURE) != 0;
}

/*
 * The child may hold no pipe open that somebody waits for the end of. Reports of a sanitizer go to
 * stderr.
 */
static int add_files(posix_spawn_file_actions_t *files, const int *fds, size_t n)
{
	int rc = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDWR, 0);
	rc = rc ? rc : posix_spawn_file_actions_adddup2(files, 0, 1);
	if (!CONFINE_NOT)
		rc = rc ? rc : posix_spawn_file_actions_adddup2(files, 0, 2);
	for (size_t i = 0; !rc && i < n; i++)
		rc = posix_spawn_file_actions_adddup2(files, fds[i], ANEW_FD + (int)i);
	return rc;
}

/* A copy that is in no other one's way. -EMFILE: the limit is below, too. */
static int copy_high(int fd, int command)
{
	int high = fcntl(fd, command, HIGH_FD);
	return high >= 0 ? high : errno == EINVAL ? -EMFILE : -errno;
}

int anew_take(const int *fds, size_t n)
{
	int high[FDS_MAX], null = open("/dev/null", O_RDWR);
	for (size_t k = 0; k < n; k++)
		if ((high[k] = copy_high(fds[k], F_DUPFD)) < 0)
			return high[k];
	for (int i = 0; i < ANEW_FD; i++)
		dup2(null, i);
	for (size_t k = 0; k < n; k++)
		dup2(high[k], ANEW_FD + (int)k);
	return syscall(SYS_close_range, ANEW_FD + (int)n, ~0u, 0) ? -errno : 0;
}

int anew_spawn(char *const argv[], char *const envp[], const int *fds, size_t n, pid_t *ret_pid)
{
	posix_spawn_file_actions_t files;
	int high[FDS_MAX]; /* none of them is in the way of another */
	size_t k = 0;
	pid_t pid;
	if (n > FDS_MAX)
		return -E2BIG;
	int rc = posix_spawn_file_actions_init(&files);
	if (rc)
		return -rc;
	for (; !rc && k < n; k++) {
		high[k] = copy_high(fds[k], F_DUPFD_CLOEXEC);
		rc = high[k] < 0 ? -high[k] : 0;
	}
	k -= rc != 0;
	rc = rc ? rc : add_files(&files, high, n);
	rc = rc ? rc : posix_spawn(&pid, "/proc/self/exe", &files, NULL, argv, envp);
	while (k-- > 0)
		close(high[k]);
	posix_spawn_file_actions_destroy(&files);
	if (!rc)
		*ret_pid = pid;
	return -rc;
}

static const char anchor;

void anew_to_distance(char *out, size_t cap, uintptr_t address)
{
	snprintf(out, cap, "%lld", (long long)(address - (uintptr_t)&anchor));
}

uintptr_t anew_from_distance(const char *text)
{
	return (uintptr_t)&anchor + (uintptr_t)strtoll(text, NULL, 10);
}
