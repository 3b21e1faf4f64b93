/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/jvm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define STEP_MS 10
#define LIBRARY "/libjvm.so"

bool jvm_is(const struct proc_image *im)
{
	for (uint32_t i = 0; i < im->n_maps; i++) {
		const char *path = im->maps[i].file->path;
		size_t len = strlen(path), n = strlen(LIBRARY);
		if (len > n && !strcmp(path + len - n, LIBRARY))
			return true;
	}
	return false;
}

static int64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* By default SIGQUIT kills: only who catches it gets it. */
static bool catches_sigquit(uint32_t tgid)
{
	char path[64], line[256];
	unsigned long long caught = 0;
	snprintf(path, sizeof(path), "/proc/%u/status", tgid);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "SigCgt: %llx", &caught) == 1)
			break;
	if (f)
		fclose(f);
	return caught >> (SIGQUIT - 1) & 1;
}

/* The socket itself, of the process's user, whatever else that name may lead to. */
static int connect_to(const struct proc_root *root, int tmp)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct stat st;
	char name[64];
	snprintf(name, sizeof(name), ".java_pid%u", root->inner);
	int at = openat(tmp, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (at < 0)
		return -errno;
	int fd = -1, rc = fstat(at, &st) ? -errno : !S_ISSOCK(st.st_mode) || st.st_uid != root->uid ? -EPERM : 0;
	if (!rc) {
		snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d", at);
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		rc = fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) ? -errno : 0;
	}
	close(at);
	if (!rc)
		return fd;
	if (fd >= 0)
		close(fd);
	return rc;
}

/* Have the JVM open its socket. */
static int wake_up(const struct proc_root *root, uint32_t tgid, int tmp, int64_t until)
{
	char name[64];
	if (!catches_sigquit(tgid))
		return -EPERM;
	snprintf(name, sizeof(name), ".attach_pid%u", root->inner);
	int fd = openat(tmp, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	close(fd);
	int rc = kill((pid_t)tgid, SIGQUIT) ? -errno : -ETIMEDOUT;
	while (rc == -ETIMEDOUT && now_ms() < until) {
		poll(NULL, 0, STEP_MS);
		rc = connect_to(root, tmp);
		if (rc == -ENOENT || rc == -ECONNREFUSED)
			rc = -ETIMEDOUT;
	}
	unlinkat(tmp, name, 0);
	return rc;
}

static int wait_for(int fd, short what, int64_t until)
{
	int64_t left = until - now_ms();
	struct pollfd p = { .fd = fd, .events = what };
	return left > 0 && poll(&p, 1, (int)left) > 0 ? 0 : -ETIMEDOUT;
}

/* The answer begins with a number and a newline: 0 for done. It ends when the map is written. */
static int read_answer(int fd, int64_t until)
{
	char head[16] = "", rest[1024];
	size_t len = 0;
	for (;;) {
		int rc = wait_for(fd, POLLIN, until);
		if (rc)
			return rc;
		ssize_t n = read(fd, rest, sizeof(rest));
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (n == 0)
			break;
		for (ssize_t i = 0; i < n && len < sizeof(head) - 1; i++)
			head[len++] = rest[i];
	}
	return !strncmp(head, "0\n", 2) ? 0 : -EOPNOTSUPP;
}

static int open_tmp(uint32_t tgid)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%u/root/tmp", tgid);
	return open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int jvm_write_map(const struct proc_root *root, uint32_t tgid, unsigned timeout_ms)
{
	static const char request[] = "1\0jcmd\0Compiler.perfmap\0\0"; /* and the NUL of the literal: three arguments */
	int64_t until = now_ms() + timeout_ms;
	int tmp = open_tmp(tgid);
	int fd = tmp < 0 ? -ENOTDIR : connect_to(root, tmp);
	if (fd == -ENOENT || fd == -ECONNREFUSED)
		fd = wake_up(root, tgid, tmp, until);
	if (tmp >= 0)
		close(tmp);
	if (fd < 0)
		return fd;
	int rc = send(fd, request, sizeof(request), MSG_NOSIGNAL) == sizeof(request) ? 0 : -EIO;
	rc = rc ? rc : read_answer(fd, until);
	close(fd);
	return rc;
}
