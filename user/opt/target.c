/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/target.h"

#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL /* Linux 6.9; older ones refuse it */
#endif
#include <fcntl.h>

static int parse_id(const char *text, uint32_t *ret, struct err *err)
{
	char *end;
	errno = 0;
	unsigned long v = strtoul(text, &end, 10);
	if (errno || *end || end == text || text[0] == '-' || !v || v > INT_MAX)
		return err_set(err, -EINVAL, "'%s' is not a process or thread id", text);
	*ret = (uint32_t)v;
	return 0;
}

static int check_tgid(uint32_t id, struct err *err)
{
	char path[64], line[256];
	unsigned tgid = 0;
	snprintf(path, sizeof(path), "/proc/%u/status", id);
	FILE *f = fopen(path, "re");
	if (!f)
		return err_set(err, -ESRCH, "there is no process %u", id);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "Tgid: %u", &tgid) == 1)
			break;
	fclose(f);
	if (tgid != id)
		return err_set(err, -ESRCH, "%u is a thread of process %u: use -t %u or -p %u", id,
			       tgid, id, tgid);
	return 0;
}

static int check_tid(uint32_t id, struct err *err)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%u", id);
	return access(path, F_OK) ? err_set(err, -ESRCH, "there is no thread %u", id) : 0;
}

static int add_ids(struct target *t, char **v, size_t n, enum selection selection, struct err *err)
{
	if (n > TARGET_FDS_MAX - 2)
		return err_set(err, -E2BIG, "%zu ids are more than the %d at a time", n,
			       TARGET_FDS_MAX - 2);
	t->ids = calloc(n, sizeof(*t->ids));
	t->fds = calloc(n, sizeof(*t->fds));
	if (!t->ids || !t->fds)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		int rc = parse_id(v[i], &t->ids[i], err);
		rc = rc				    ? rc
		     : selection == SELECTION_TGIDS ? check_tgid(t->ids[i], err)
						    : check_tid(t->ids[i], err);
		if (rc)
			return rc;
		/*
		 * A thread that is no leader cannot be watched before Linux 6.9: recording then
		 * goes on without it.
		 */
		t->fds[i] = (int)syscall(SYS_pidfd_open, t->ids[i],
					 selection == SELECTION_TIDS ? PIDFD_THREAD : 0);
		t->n_ids = i + 1;
	}
	t->selection = selection;
	return 0;
}

int target_tgids(struct target *t, char **v, size_t n, struct err *err)
{
	return add_ids(t, v, n, SELECTION_TGIDS, err);
}

int target_tids(struct target *t, char **v, size_t n, struct err *err)
{
	return add_ids(t, v, n, SELECTION_TIDS, err);
}

/* The mount of that type that holds path, or the first one. */
static int find_mount_of(const char *type, const char *path, char *out, size_t cap)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	int rc = -ENOENT;
	for (struct mntent *m; f && (m = getmntent(f));) {
		size_t len = strlen(m->mnt_dir);
		if (strcmp(m->mnt_type, type))
			continue;
		bool holds =
			path && !strncmp(path, m->mnt_dir, len) && (path[len] == '/' || !path[len]);
		if (path && !holds)
			continue;
		snprintf(out, cap, "%s", m->mnt_dir);
		rc = 0;
		break;
	}
	if (f)
		endmntent(f);
	return rc;
}

static int find_mount(const char *path, char *out, size_t cap)
{
	return find_mount_of("cgroup2", path, out, cap);
}

static int no_hierarchy(struct err *err)
{
	char mount[PATH_MAX];
	if (find_mount_of("cgroup", NULL, mount, sizeof(mount)))
		return err_set(
			err, -ENOENT,
			"no cgroup v2 hierarchy is mounted: mount -t cgroup2 none /sys/fs/cgroup");
	return err_set(
		err, -ENOENT,
		"cgroups of v1 (%s) cannot be chosen, and no cgroup v2 hierarchy is mounted: "
		"boot with systemd.unified_cgroup_hierarchy=1, or record all, and ask for "
		"{cgroup=\"...\"} afterwards",
		mount);
}

static int find_cgroup(struct selected_cgroup *ret, const char *name, struct err *err)
{
	char mount[PATH_MAX], path[PATH_MAX * 2], real[PATH_MAX];
	struct stat st;
	struct statfs fs;
	snprintf(path, sizeof(path), "%s", name);
	if (name[0] != '/' || statfs(path, &fs) || fs.f_type != CGROUP2_SUPER_MAGIC) {
		if (find_mount(NULL, mount, sizeof(mount)))
			return no_hierarchy(err);
		snprintf(path, sizeof(path), "%s/%s", mount, name[0] == '/' ? name + 1 : name);
	}
	if (!realpath(path, real) || stat(real, &st))
		return err_set(err, -ENOENT, "there is no cgroup '%s' (looked for %s)", name, path);
	if (statfs(real, &fs) || fs.f_type != CGROUP2_SUPER_MAGIC || !S_ISDIR(st.st_mode) ||
	    find_mount(real, mount, sizeof(mount)))
		return err_set(err, -EINVAL, "'%s' is not a directory of the cgroup v2 hierarchy",
			       name);
	ret->level = 0;
	for (const char *s = real + strlen(mount); *s; s++)
		ret->level += *s == '/' && s[1];
	ret->id = st.st_ino;
	return 0;
}

static int add_cgroups(struct target *t, const struct opt_list *names, bool excluded,
		       struct err *err)
{
	for (size_t i = 0; i < names->n; i++) {
		if (t->n_cgroups == CGROUPS_MAX)
			return err_set(err, -E2BIG, "more than %d cgroups", CGROUPS_MAX);
		struct selected_cgroup *c = &t->cgroups[t->n_cgroups++];
		c->excluded = excluded;
		int rc = find_cgroup(c, names->v[i], err);
		if (rc)
			return rc;
	}
	return 0;
}

/* The deepest first; of the same one that which excludes. */
static int compare_cgroups(const void *a, const void *b)
{
	const struct selected_cgroup *x = a, *y = b;
	if (x->level != y->level)
		return x->level < y->level ? 1 : -1;
	return (int)y->excluded - (int)x->excluded;
}

int target_cgroups(struct target *t, const struct opt_list *in, const struct opt_list *excluded,
		   struct err *err)
{
	int rc = add_cgroups(t, in, false, err);
	rc = rc ? rc : add_cgroups(t, excluded, true, err);
	if (rc)
		return rc;
	qsort(t->cgroups, t->n_cgroups, sizeof(t->cgroups[0]), compare_cgroups);
	t->selection = SELECTION_CGROUP;
	return 0;
}

size_t target_fds(const struct target *t, int *out)
{
	size_t n = 0;
	for (size_t i = 0; i < t->n_ids; i++)
		if (t->fds[i] >= 0)
			out[n++] = t->fds[i];
	return n;
}

void target_gone(struct target *t, int fd)
{
	for (size_t i = 0; i < t->n_ids; i++) {
		if (t->fds[i] != fd)
			continue;
		close(fd);
		t->fds[i] = -1;
		t->ids[i] = 0;
	}
}

unsigned target_kinds(const struct target_options *o)
{
	return !!o->tgids.n + !!o->tids.n + (o->cgroups.n || o->excluded.n);
}

int target_choose(struct target *t, const struct target_options *o, struct err *err)
{
	if (o->tgids.n)
		return target_tgids(t, o->tgids.v, o->tgids.n, err);
	if (o->tids.n)
		return target_tids(t, o->tids.v, o->tids.n, err);
	return target_kinds(o) ? target_cgroups(t, &o->cgroups, &o->excluded, err) : 0;
}

const char *target_text(const struct target *t)
{
	static const char *const text[] = {
		[SELECTION_NONE] = "all processes",
		[SELECTION_TGIDS] = "selected processes",
		[SELECTION_TIDS] = "selected threads",
		[SELECTION_CGROUP] = "selected cgroups",
	};
	bool all_but = t->n_cgroups > 0;
	for (size_t i = 0; i < t->n_cgroups; i++)
		all_but &= t->cgroups[i].excluded;
	return all_but ? "all but excluded cgroups" : text[t->selection];
}

bool target_same(const struct target *a, const struct target *b)
{
	return a->n_cgroups == b->n_cgroups &&
	       !memcmp(a->cgroups, b->cgroups, a->n_cgroups * sizeof(a->cgroups[0]));
}

void target_configure(const struct target *t, struct sampler_config *ret)
{
	ret->selection = t->selection;
	ret->ids = t->ids;
	ret->n_ids = t->n_ids;
	ret->cgroups = t->cgroups;
	ret->n_cgroups = t->n_cgroups;
}

bool target_all_gone(const struct target *t)
{
	for (size_t i = 0; i < t->n_ids; i++)
		if (t->ids[i])
			return false;
	return t->n_ids > 0;
}

void target_fini(struct target *t)
{
	for (size_t i = 0; i < t->n_ids; i++)
		if (t->fds[i] >= 0)
			close(t->fds[i]);
	free(t->ids);
	free(t->fds);
	*t = (struct target){ 0 };
}
