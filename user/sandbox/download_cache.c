/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/download_cache.h"

#include "sandbox/confine.h"
#include "util/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ENTRIES_MAX 65536 /* looked at, to trim */
#define BROKEN_OFF_S 3600 /* a file under another name is not being written any more */
#define FILE_NAME "debuginfo"
#define FILES_FEW 8 /* of one download */

/* ---- opening ---- */

static int make_parents(const char *dir)
{
	char path[PATH_MAX];
	if (snprintf(path, sizeof(path), "%s", dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	for (char *p = path + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(path, 0755) && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	return mkdir(path, 0700) && errno != EEXIST ? -errno : 0;
}

/* Open a directory that is ours, with this mode. One of `other` stays as it is. */
static int open_dir(int at, const char *name, mode_t mode, uid_t other)
{
	struct stat st;
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int rc = fstat(fd, &st) ? -errno : 0;
	if (!rc && st.st_uid != geteuid())
		rc = st.st_uid == other ? 0 : -EPERM;
	else if (!rc && fchmod(fd, mode))
		rc = -errno;
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

static int cannot_use(const char *dir, const char *below, int rc, struct err *err)
{
	return err_set(err, rc, "cannot use %s%s as a cache: %s%s", dir, below, strerror(-rc),
		       rc == -EPERM ? " (it belongs to somebody else: remove it)" : "");
}

int download_cache_open(const char *dir, int *ret_fd, struct err *err)
{
	int rc = make_parents(dir);
	int outer = rc ? rc : open_dir(AT_FDCWD, dir, 0700, geteuid());
	if (outer < 0)
		return cannot_use(dir, "", outer, err);
	rc = mkdirat(outer, "files", 0700) && errno != EEXIST ? -errno : 0;
	/* Who downloads has no other way to it than our descriptor, nor has anybody else. */
	int files = rc ? rc : open_dir(outer, "files", 0777, CONFINE_DOWNLOADER);
	close(outer);
	if (files < 0)
		return cannot_use(dir, "/files", files, err);
	*ret_fd = files;
	return 0;
}

/* ---- trimming ---- */

struct entry {
	char dir[DOWNLOAD_HEX_MAX], name[32];
	uint64_t bytes;
	time_t used;
	bool gone;
};

struct entries {
	struct entry *v;
	size_t n, cap;
};

static bool is_id(const char *name)
{
	size_t n = strlen(name);
	return n && n < DOWNLOAD_HEX_MAX && strspn(name, "0123456789abcdef") == n;
}

static int add_entry(struct entries *e, const char *dir, const char *name, const struct stat *st)
{
	if (e->n == e->cap) {
		size_t cap = e->cap ? 2 * e->cap : 64;
		struct entry *v = cap > ENTRIES_MAX ? NULL : realloc(e->v, cap * sizeof(*v));
		if (!v)
			return -ENOMEM;
		e->v = v;
		e->cap = cap;
	}
	struct entry *x = &e->v[e->n++];
	*x = (struct entry){ .bytes = (uint64_t)st->st_blocks * 512,
			     .used = st->st_atime > st->st_mtime ? st->st_atime : st->st_mtime };
	snprintf(x->dir, sizeof(x->dir), "%s", dir);
	snprintf(x->name, sizeof(x->name), "%s", name);
	return 0;
}

static void list_one(int files, const char *id, struct entries *e)
{
	DIR *d = dir_open(files, id);
	struct dirent *f;
	struct stat st;
	while (d && (f = readdir(d)))
		if (strlen(f->d_name) < sizeof(e->v->name) &&
		    !fstatat(dirfd(d), f->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
		    S_ISREG(st.st_mode) && add_entry(e, id, f->d_name, &st))
			break;
	if (d)
		closedir(d);
}

static void list_all(int files, struct entries *e)
{
	DIR *d = dir_open(files, ".");
	struct dirent *f;
	while (d && (f = readdir(d)))
		if (is_id(f->d_name))
			list_one(files, f->d_name, e);
	if (d)
		closedir(d);
}

static void remove_entry(int files, struct entry *x)
{
	char path[sizeof(x->dir) + sizeof(x->name) + 1];
	snprintf(path, sizeof(path), "%s/%s", x->dir, x->name);
	unlinkat(files, path, 0);
	unlinkat(files, x->dir, AT_REMOVEDIR); /* unless there is something else in it */
	x->gone = true;
}

static int by_use(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	return x->used < y->used ? -1 : x->used > y->used;
}

void download_cache_trim(int files, uint64_t max_bytes, unsigned age_s)
{
	struct entries e = { 0 };
	time_t now = time(NULL);
	uint64_t bytes = 0;
	list_all(files, &e);
	for (size_t i = 0; i < e.n; i++) {
		time_t age = now - e.v[i].used;
		if (age > (time_t)age_s || (strcmp(e.v[i].name, FILE_NAME) && age > BROKEN_OFF_S))
			remove_entry(files, &e.v[i]);
		else
			bytes += e.v[i].bytes;
	}
	if (e.n)
		qsort(e.v, e.n, sizeof(*e.v), by_use);
	for (size_t i = 0; i < e.n && bytes > max_bytes; i++) {
		if (e.v[i].gone)
			continue;
		remove_entry(files, &e.v[i]);
		bytes -= e.v[i].bytes;
	}
	free(e.v);
}

/* ---- one file ---- */

int download_cache_file(int files, const char *hex, int *ret_fd)
{
	char path[DOWNLOAD_HEX_MAX + sizeof(FILE_NAME) + 1];
	struct stat st;
	snprintf(path, sizeof(path), "%s/" FILE_NAME, hex);
	int fd = openat(files, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -ENOENT;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || !st.st_size) {
		/* An empty file: servers were asked in vain */
		close(fd);
		return -ENOENT;
	}
	const struct timespec used[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_OMIT } };
	futimens(fd, used);
	*ret_fd = fd;
	return 0;
}

void download_cache_remove(int files, const char *hex)
{
	struct entry x = { .name = FILE_NAME };
	snprintf(x.dir, sizeof(x.dir), "%s", hex);
	remove_entry(files, &x);
}

/* ---- while one is written ---- */

const char *const download_settings[DOWNLOAD_SETTINGS] = { "cache_clean_interval_s", "cache_miss_s",
							   "max_unused_age_s" };

int download_cache_begin(int files, const char *hex)
{
	for (size_t i = 0; i < DOWNLOAD_SETTINGS; i++) {
		int fd = openat(files, download_settings[i],
				O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
				0600);
		if (fd < 0)
			return -errno;
		close(fd);
	}
	return mkdirat(files, hex, 0700) && errno != EEXIST ? -errno : 0;
}

bool download_cache_fits(int files, const char *hex, uint64_t bytes)
{
	DIR *d = dir_open(files, hex);
	uint64_t sum = 0;
	unsigned n = 0;
	struct dirent *f;
	struct stat st;
	while (d && n <= FILES_FEW && (f = readdir(d))) {
		if (f->d_name[0] == '.' && (!f->d_name[1] || f->d_name[1] == '.'))
			continue;
		n++;
		if (!fstatat(dirfd(d), f->d_name, &st, AT_SYMLINK_NOFOLLOW))
			sum += (uint64_t)st.st_blocks * 512;
	}
	if (d)
		closedir(d);
	return n <= FILES_FEW && sum <= bytes;
}

void download_cache_end(int files, const char *hex)
{
	DIR *d = dir_open(files, hex);
	struct dirent *f;
	while (d && (f = readdir(d)))
		if (strcmp(f->d_name, FILE_NAME))
			unlinkat(dirfd(d), f->d_name, 0);
	if (d)
		closedir(d);
	unlinkat(files, hex, AT_REMOVEDIR); /* unless the file is there */
}
