/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/freeze.h"

#include "store/ops/copy.h"
#include "util/clock.h"
#include "util/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define SAME_SECOND 9 /* freezes of one second */
#define DEPTH 2	      /* of the directories of a store */

static uint64_t bytes_below(int at, const char *name, unsigned depth)
{
	DIR *d = dir_open(at, name);
	uint64_t bytes = 0;
	struct stat st;
	for (struct dirent *e; d && (e = readdir(d));) {
		if (e->d_name[0] == '.' || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (S_ISREG(st.st_mode))
			bytes += (uint64_t)st.st_size;
		else if (S_ISDIR(st.st_mode) && depth)
			bytes += bytes_below(dirfd(d), e->d_name, depth - 1);
	}
	if (d)
		closedir(d);
	return bytes;
}

static int dir_of(const char *store, char ret[static 512], struct err *err)
{
	return snprintf(ret, 512, "%s/" FREEZE_DIR, store) >= 512
		       ? err_set(err, -ENAMETOOLONG, "the name of the store is too long")
		       : 0;
}

int freeze_may(const char *store, const struct freeze_limits *l, struct err *err)
{
	char dir[512];
	int rc = dir_of(store, dir, err);
	DIR *d = rc ? NULL : dir_open(AT_FDCWD, dir);
	uint64_t bytes = 0;
	unsigned n = 0;
	for (struct dirent *e; d && (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		n++;
		bytes += bytes_below(dirfd(d), e->d_name, DEPTH - 1);
	}
	if (d)
		closedir(d);
	if (rc)
		return rc;
	if (n >= l->keep)
		return err_set(err, -EDQUOT,
			       "%u stores are in %s, as many as freeze-keep allows: move or remove "
			       "some",
			       n, dir);
	if (bytes >= l->bytes)
		return err_set(err, -EDQUOT,
			       "the stores in %s take %.1f MiB, more than freeze-max: move or "
			       "remove some",
			       dir, (double)bytes / (1 << 20));
	return 0;
}

static void choose_name(char ret[static FREEZE_NAME_SIZE], unsigned i)
{
	time_t now = (time_t)(clock_ns(CLOCK_REALTIME) / 1000000000u);
	struct tm tm;
	gmtime_r(&now, &tm);
	size_t n = strftime(ret, FREEZE_NAME_SIZE, "%Y%m%dT%H%M%SZ", &tm);
	if (i)
		snprintf(ret + n, FREEZE_NAME_SIZE - n, "-%u", i + 1);
}

int freeze_store(const char *store, int64_t since_ns, struct freeze_made *ret, struct err *err)
{
	struct snapshot_result made;
	char dir[512], path[600];
	int rc = dir_of(store, dir, err);
	if (!rc && mkdir(dir, 0750) && errno != EEXIST)
		rc = err_sys(err, -errno, "cannot make the directory %s", dir);
	for (unsigned i = 0; !rc && i < SAME_SECOND; i++) {
		choose_name(ret->name, i);
		snprintf(path, sizeof(path), "%s/%s", dir, ret->name);
		rc = store_freeze(store, path, since_ns, &made, err);
		if (rc != -EEXIST)
			break;
		rc = i + 1 < SAME_SECOND ? 0 : rc;
	}
	if (rc)
		return rc;
	ret->windows = made.windows;
	ret->bytes = bytes_below(AT_FDCWD, path, DEPTH - 1);
	return 0;
}
