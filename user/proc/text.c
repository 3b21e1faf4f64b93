/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parse the texts of /proc/TGID: status, stat, cgroup, a line of maps; and find the unit, container
 * and pod in the path of a cgroup. Processes choose parts of them: their comm, names of cgroups,
 * paths of files.
 */
#include "proc/proc_int.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

/*
 * Return the last number of the line that begins with key (NSpid: the innermost). False without
 * such a line.
 */
static bool last_number(const char *text, const char *key, unsigned skip_to, uint32_t *ret)
{
	const char *p = strstr(text, key);
	unsigned long v;
	char *end;
	if (!p)
		return false;
	p += strlen(key);
	for (unsigned i = 0; *p && *p != '\n' && i < skip_to; i++) {
		v = strtoul(p, &end, 10);
		if (end == p || v > UINT32_MAX)
			return false;
		*ret = (uint32_t)v;
		p = end + strspn(end, " \t");
	}
	return true;
}

bool proc_parse_status(const char *text, uint32_t tgid, uint32_t *ret_inner, uint32_t *ret_uid)
{
	uint32_t inner = tgid, uid = 0;
	/* Missing in kernels without PID namespaces */
	last_number(text, "\nNSpid:", UINT32_MAX, &inner);
	if (!last_number(text, "\nUid:", 2, &uid)) /* real, effective */
		return false;
	*ret_inner = inner;
	*ret_uid = uid;
	return true;
}

bool proc_parse_stat(char *text, struct proc_stat *ret)
{
	unsigned long long ticks = 0;
	char *open = strchr(text, '('), *close = strrchr(text, ')');
	if (!open || !close || close < open)
		return false;
	*close = 0;
	ret->comm = open + 1;
	/* The state, the parent (field 4), the number of threads (20) and the start time (22) */
	if (sscanf(close + 1,
		   " %c %u %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %u %*s %llu",
		   &ret->state, &ret->parent, &ret->n_threads, &ticks) != 4)
		return false;
	ret->start_ns = ticks * PROC_TICK_NS;
	return true;
}

const char *proc_parse_cgroups(char *text)
{
	char *save = NULL, *best = NULL;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *cg = strchr(line, ':');
		cg = cg ? strchr(cg + 1, ':') : NULL;
		if (!cg)
			continue;
		cg++;
		if (!strncmp(line, "0::", 3) && strcmp(cg, "/"))
			return cg;
		if (!best || strlen(cg) > strlen(best))
			best = cg;
	}
	return best;
}

void proc_path_unmark(char *path)
{
	static const char mark[] = " (deleted)";
	size_t len = strlen(path), n = sizeof(mark) - 1;
	if (len > n && !strcmp(path + len - n, mark))
		path[len - n] = 0;
}

bool proc_parse_line(char *line, struct proc_line *ret, char **ret_path)
{
	unsigned maj, min;
	char prot[5];
	int at = 0;
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &ret->start, &ret->end, prot, &ret->pgoff, &maj, &min, &ret->ino, &at) < 7)
		return false;
	ret->dev = makedev(maj, min);
	ret->exec = prot[2] == 'x';
	ret->shared = prot[3] == 's';
	ret->name[0] = 0;
	*ret_path = line + at;
	return true;
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
