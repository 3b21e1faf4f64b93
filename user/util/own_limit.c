/* SPDX-License-Identifier: Apache-2.0 */
#include "util/own.h"

#include <fts.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CGROUPS_MAX 4000	     /* that are looked at */
#define NO_LIMIT (UINT64_C(1) << 60) /* v1 has a number near 2^63 for it */

static FILE *open_in(const char *dir, const char *file)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/%s", dir, file);
	return n > 0 && (size_t)n < sizeof(path) ? fopen(path, "re") : NULL;
}

/* Read a limit; 0: none. v2 has "max" for none. */
static uint64_t read_limit(const char *dir, const char *file)
{
	unsigned long long v = 0;
	FILE *f = open_in(dir, file);
	if (f && fscanf(f, "%llu", &v) != 1)
		v = 0;
	if (f)
		fclose(f);
	return v < NO_LIMIT ? v : 0;
}

static bool lists_us(const char *dir)
{
	long pid = 0;
	bool found = false;
	FILE *f = open_in(dir, "cgroup.procs");
	while (f && !found && fscanf(f, "%ld", &pid) == 1)
		found = pid == getpid();
	if (f)
		fclose(f);
	return found;
}

/*
 * Find our cgroup below a mount; "": not found. Where a container has a namespace of cgroups and
 * the tree of the host, it is told "/".
 */
static void search_cgroup(char *mount, char ret[static PATH_MAX])
{
	char *const roots[] = { mount, NULL };
	FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	const FTSENT *e;
	*ret = 0;
	for (unsigned n = 0; tree && !*ret && n < CGROUPS_MAX && (e = fts_read(tree));)
		if (e->fts_info == FTS_D && ++n && lists_us(e->fts_path))
			snprintf(ret, PATH_MAX, "%s", e->fts_path + strlen(mount));
	if (tree)
		fts_close(tree);
}

/* The least limit of a cgroup and of those above it, as far as they are there. */
static uint64_t least_limit(const char *mount, const char *cgroup, const char *file)
{
	char dir[PATH_MAX];
	uint64_t least = 0;
	int n = snprintf(dir, sizeof(dir), "%s%s", mount, cgroup);
	if (n < 0 || (size_t)n >= sizeof(dir))
		return 0;
	for (char *end = dir + n; end; end = strrchr(dir + strlen(mount), '/')) {
		*end = 0;
		uint64_t v = read_limit(dir, file);
		least = v && (!least || v < least) ? v : least;
	}
	return least;
}

/* Write the path of our cgroup, of v2 (controller: "") or of a v1 controller. "": not found. */
static void find_cgroup(const char *controller, char ret[static PATH_MAX])
{
	char line[PATH_MAX + 256];
	FILE *f = fopen("/proc/self/cgroup", "re");
	*ret = 0;
	while (f && !*ret && fgets(line, sizeof(line), f)) {
		char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = 0;
		path[strcspn(path, "\n")] = 0;
		if (!strcmp(names + 1, controller))
			snprintf(ret, PATH_MAX, "%s", path);
	}
	if (f)
		fclose(f);
}

uint64_t own_memory_limit(void)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	const struct mntent *m;
	uint64_t least = 0;
	while (mounts && (m = getmntent(mounts))) {
		char cgroup[PATH_MAX];
		bool v2 = !strcmp(m->mnt_type, "cgroup2");
		if (!v2 && (strcmp(m->mnt_type, "cgroup") || !hasmntopt(m, "memory")))
			continue;
		find_cgroup(v2 ? "" : "memory", cgroup);
		if (!strcmp(cgroup, "/") && !lists_us(m->mnt_dir))
			search_cgroup(m->mnt_dir, cgroup);
		uint64_t v = least_limit(m->mnt_dir, cgroup,
					 v2 ? "memory.max" : "memory.limit_in_bytes");
		least = v && (!least || v < least) ? v : least;
	}
	if (mounts)
		endmntent(mounts);
	return least;
}
