/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the file of a mapping. The path belongs to the process: it is resolved inside the root of that process, without
 * magic links, and never by following it out of there.
 */
#include "proc/proc_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_PARENTS 4

static int regular(int fd)
{
	struct stat st;
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	return fd;
}

static int open_map_files(const struct proc_image *im, const struct proc_map *m)
{
	char path[96];
	snprintf(path, sizeof(path), "/proc/%u/map_files/%" PRIx64 "-%" PRIx64,
		 proc_thread(im->tgid), m->start, m->end);
	return regular(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

/* tgid 0: our own root. */
int proc_open_in_root(uint32_t tgid, const char *file)
{
	char path[64];
	if (tgid)
		snprintf(path, sizeof(path), "/proc/%u/root", proc_thread(tgid));
	else
		snprintf(path, sizeof(path), "/");
	int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int fd = (int)syscall(SYS_openat2, root, file, &how, sizeof(how));
	int rc = regular(fd);
	close(root);
	return rc;
}

static int open_strictly(int dir, const char *file, uint64_t flags)
{
	struct open_how how = {
		.flags = O_CLOEXEC | O_NOFOLLOW | flags,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS,
	};
	int fd = (int)syscall(SYS_openat2, dir, file, &how, sizeof(how));
	return fd < 0 ? -errno : fd;
}

int proc_root_open(struct proc_root *ret, uint32_t tgid)
{
	struct proc_root r;
	char path[64];
	int rc = proc_identity(tgid, &r.inner, &r.uid);
	if (rc)
		return rc;
	snprintf(path, sizeof(path), "/proc/%u/root", proc_thread(tgid));
	r.fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r.fd < 0)
		return -errno;
	r.tmp = open_strictly(r.fd, "/tmp", O_PATH | O_DIRECTORY);
	*ret = r;
	return 0;
}

static int open_owned(const struct proc_root *r, int dir, const char *file)
{
	struct stat st;
	int fd = open_strictly(dir, file, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return fd;
	fd = regular(fd);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) || (st.st_uid != r->uid && st.st_uid != 0)) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

int proc_root_file(const struct proc_root *r, const char *file)
{
	return open_owned(r, r->fd, file);
}

int proc_root_tmp_file(const struct proc_root *r, const char *name)
{
	return r->tmp < 0 ? -ENOENT : open_owned(r, r->tmp, name);
}

void proc_root_close(struct proc_root *r)
{
	if (r->fd >= 0)
		close(r->fd);
	if (r->tmp >= 0)
		close(r->tmp);
	r->fd = r->tmp = -1;
}

/* Whose root the n-th try looks in: the process, its parents, then 0 (ours) as the last one. -ENOENT past that. */
static int64_t nth_root(struct procs *p, const struct proc_image *im, unsigned n)
{
	for (unsigned i = 0; i < MAX_PARENTS && im; i++) {
		if (n-- == 0)
			return im->tgid;
		im = im->parent > 1 ? proc_newest(p, im->parent) : NULL;
	}
	return n == 0 ? 0 : -ENOENT;
}

int proc_map_open(struct procs *p, const struct proc_image *im, const struct proc_map *m, unsigned *io_try, int *ret_fd)
{
	if (m->file->path[0] != '/')
		return -ENOENT;
	for (;;) {
		unsigned n = (*io_try)++;
		int fd;
		if (n == 0) {
			fd = open_map_files(im, m);
		} else {
			int64_t root = nth_root(p, im, n - 1);
			if (root < 0)
				return -ENOENT;
			fd = proc_open_in_root((uint32_t)root, m->file->path);
		}
		if (fd >= 0) {
			*ret_fd = fd;
			return 0;
		}
	}
}
