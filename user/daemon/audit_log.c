/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/audit_log.h"

#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_NS 1000000000ull

static int open_file(const char *store, int *ret, struct err *err)
{
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/audit.log", store);
	/* It tells what others ask: not for the group that reads the store. */
	*ret = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
		    0600);
	return *ret < 0 ? err_sys(err, -errno, "cannot write %s", path) : 0;
}

int audit_log_open(struct audit_log *a, const char *store, uint64_t max, struct err *err)
{
	a->max = max;
	if (!max)
		audit_log_close(a);
	return !max || a->fd >= 0 ? 0 : open_file(store, &a->fd, err);
}

bool audit_log_look(struct audit_log *a, const char *store)
{
	char path[PATH_MAX], before[PATH_MAX];
	const uint64_t now = clock_ns(CLOCK_MONOTONIC);
	struct stat st;
	int fd;
	if (a->fd < 0 || now - a->looked_ns < LOOK_NS)
		return false;
	a->looked_ns = now;
	if (fstat(a->fd, &st))
		return false;
	a->grows = (uint64_t)st.st_size > a->bytes;
	a->bytes = (uint64_t)st.st_size;
	if (st.st_nlink && a->bytes < a->max / 4)
		return false;
	snprintf(path, sizeof(path), "%s/audit.log", store);
	snprintf(before, sizeof(before), "%s/audit.log.1", store);
	if ((st.st_nlink && rename(path, before)) || open_file(store, &fd, NULL))
		return false;
	close(a->fd);
	a->fd = fd;
	a->bytes = 0;
	return true;
}

uint64_t audit_log_wait_ns(const struct audit_log *a)
{
	return a->fd >= 0 && a->grows ? LOOK_NS : UINT64_MAX;
}

void audit_log_close(struct audit_log *a)
{
	if (a->fd >= 0)
		close(a->fd);
	a->fd = -1;
}
