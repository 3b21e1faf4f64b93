/* SPDX-License-Identifier: Apache-2.0 */
/* Find the path of a v2 cgroup id. */
#include "proc/proc_int.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define CGROUPS_MAX 65536  /* paths in the cache; one more empties it */
#define FILEID_KERNFS 0xfe /* include/linux/exportfs.h: the handle is the 64-bit id itself */

static int open_mount(char *out, size_t cap)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	if (!f)
		return -errno;
	int fd = -ENOENT;
	for (struct mntent *m; (m = getmntent(f));) {
		if (strcmp(m->mnt_type, "cgroup2"))
			continue;
		fd = open(m->mnt_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0) {
			snprintf(out, cap, "%s", m->mnt_dir);
			break;
		}
	}
	endmntent(f);
	return fd;
}

/* To open by id takes CAP_DAC_READ_SEARCH. */
int procs_cgroup_op(const struct keeper_question *q, struct keeper_answer *ret, struct err *err)
{
	uint64_t id;
	union {
		struct file_handle h;
		char room[sizeof(struct file_handle) + sizeof(id)];
	} u = { .h = { .handle_bytes = sizeof(id), .handle_type = FILEID_KERNFS } };
	struct statfs fs;
	if (q->len != sizeof(id) || q->n_fds != 1 || fstatfs(q->fds[0], &fs) ||
	    fs.f_type != CGROUP2_SUPER_MAGIC)
		return err_set(err, -EBADMSG, "a cgroup that cannot be");
	memcpy(u.h.f_handle, q->bytes, sizeof(id));
	int fd = open_by_handle_at(q->fds[0], &u.h, O_RDONLY | O_CLOEXEC | O_PATH);
	if (fd < 0)
		return err_sys(err, -errno, "the directory of a cgroup");
	ret->fds[ret->n_fds++] = fd;
	return 0;
}

static char *look_up(int mount, uint64_t id)
{
	const struct keeper_question q = { &id, sizeof(id), &mount, 1 };
	struct keeper_answer a;
	char link[64], path[PATH_MAX], root[PATH_MAX];
	if (mount < 0 || keeper_ask(procs_cgroup_op, &q, KEEPER_WAIT_MS, &a, NULL))
		return NULL;
	const int fd = a.fds[0];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof(path) - 1);
	close(fd);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", mount);
	ssize_t r = readlink(link, root, sizeof(root) - 1);
	if (n <= 0 || r <= 0 || n < r)
		return NULL;
	path[n] = 0;
	return strdup(path[r] ? path + r : "/");
}

const char *procs_cgroup_path(struct procs *p, uint64_t id)
{
	struct cgroup_name **b = &p->cgroups[id % CGROUP_BUCKETS], *c;
	for (c = *b; c; c = c->next)
		if (c->id == id)
			return c->path;
	if (p->cgroup_mount == -1) {
		char dir[PATH_MAX];
		int fd = open_mount(dir, sizeof(dir));
		p->cgroup_mount = fd >= 0 ? fd : -2;
	}
	if (p->n_cgroups >= CGROUPS_MAX) {
		int mount = p->cgroup_mount;
		p->cgroup_mount = -2;
		proc_cgroups_free(p);
		p->cgroup_mount = mount;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->id = id;
	c->path = p->cgroup_mount >= 0 ? look_up(p->cgroup_mount, id) : NULL;
	c->next = *b;
	*b = c;
	p->n_cgroups++;
	return c->path;
}

bool procs_in_cgroup(struct procs *p, uint64_t id)
{
	const char *path = procs_cgroup_path(p, id);
	return path && strcmp(path, "/") != 0;
}

void proc_cgroups_free(struct procs *p)
{
	for (size_t b = 0; b < CGROUP_BUCKETS; b++) {
		for (struct cgroup_name *c = p->cgroups[b], *next; c; c = next) {
			next = c->next;
			free(c->path);
			free(c);
		}
		p->cgroups[b] = NULL;
	}
	p->n_cgroups = 0;
	if (p->cgroup_mount >= 0)
		close(p->cgroup_mount);
	p->cgroup_mount = -1;
}
