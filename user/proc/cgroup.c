/* SPDX-License-Identifier: Apache-2.0 */
/* Find the path of a v2 cgroup id, and the container (also of LXC), pod and unit in a path. */
#include "proc/proc_int.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static char *look_up(int mount, uint64_t id)
{
	union {
		struct file_handle h;
		char room[sizeof(struct file_handle) + sizeof(id)];
	} u = { .h = { .handle_bytes = sizeof(id), .handle_type = FILEID_KERNFS } };
	char link[64], path[PATH_MAX], root[PATH_MAX];
	memcpy(u.h.f_handle, &id, sizeof(id));
	int fd = open_by_handle_at(mount, &u.h, O_RDONLY | O_CLOEXEC | O_PATH);
	if (fd < 0)
		return NULL;
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

/* 64 hexadecimal digits; or 32, '-' and a number (tasks of Amazon's ECS). */
size_t proc_container_id(const char *cgroup, const char **ret)
{
	for (const char *s = cgroup; *s;) {
		size_t n = 0, m = 0;
		while (isxdigit((unsigned char)s[n]))
			n++;
		while (n == 32 && s[n] == '-' && isdigit((unsigned char)s[n + 1 + m]))
			m++;
		if (n == 64 || m) {
			*ret = s;
			return m ? n + 1 + m : n;
		}
		s += n ? n : 1;
	}
	return 0;
}

/*
 * ".../podUID/..." (cgroupfs) or "...-podUID.slice/..." (systemd, with '_' for '-'): 36 characters,
 * or the 32 digits of a static pod. Behind a container's id it is a name that this container chose.
 */
size_t proc_pod_uid(const char *cgroup, char *out, size_t cap)
{
	const char *container = NULL;
	proc_container_id(cgroup, &container);
	for (const char *s = strstr(cgroup, "pod"); s; s = strstr(s + 1, "pod")) {
		size_t n = 0;
		const char *id = s + 3;
		if (container && s > container)
			return 0;
		while (isxdigit((unsigned char)id[n]) || id[n] == '-' || id[n] == '_')
			n++;
		if ((n != 36 && n != 32) || cap <= n)
			continue;
		for (size_t i = 0; i < n; i++)
			out[i] = id[i] == '_' ? '-' : id[i];
		out[n] = 0;
		return n;
	}
	return 0;
}

size_t proc_lxc_name(const char *cgroup, const char **ret)
{
	/* Since LXC 4.0, in 3.1, and before: src/lxc/cgroups/cgfsng.c. */
	static const char *const before[] = { "/lxc.payload.", "/lxc.payload/", "/lxc/" };
	for (const char *s = strchr(cgroup, '/'); s; s = strchr(s + 1, '/'))
		for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
			size_t skip = strlen(before[i]);
			size_t n = strncmp(s, before[i], skip) ? 0 : strcspn(s + skip, "/");
			if (n) {
				*ret = s + skip;
				return n;
			}
		}
	return 0;
}

static int ends_with(const char *s, size_t n, const char *end)
{
	size_t m = strlen(end);
	return n > m && !memcmp(s + n - m, end, m);
}

size_t proc_unit(const char *cgroup, const char **ret)
{
	size_t found = 0;
	for (const char *s = cgroup; *s;) {
		size_t n = strcspn(s, "/");
		if (ends_with(s, n, ".service") || ends_with(s, n, ".scope")) {
			*ret = s;
			found = n;
		}
		s += n + (s[n] == '/');
	}
	return found;
}
