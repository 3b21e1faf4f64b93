/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: texts of /proc/TGID: the whole input as status, stat and cgroup, each of its lines as
 * one of maps and as the path of a cgroup. What is found is part of the text.
 *
 * Covers: proc/text.c
 */
#include "fuzz/input.h"
#include "proc/proc_int.h"

static void find_part(size_t (*find)(const char *, const char **), const char *path)
{
	const char *part = path;
	const size_t n = find(path, &part);
	require(part >= path && part + n <= path + strlen(path));
}

static void parse_files(const uint8_t *data, size_t size)
{
	char *status = copy_of(data, size), *stat = copy_of(data, size),
	     *cgroups = copy_of(data, size);
	const size_t len = strlen(status);
	struct proc_stat fields;
	uint32_t inner, uid;
	if (proc_parse_status(status, 7, &inner, &uid))
		require(strstr(status, "\nUid:") != NULL);
	if (proc_parse_stat(stat, &fields))
		require(fields.comm > stat && fields.comm + strlen(fields.comm) < stat + len);
	const char *best = proc_parse_cgroups(cgroups);
	require(!best || (best > cgroups + 1 && best + strlen(best) <= cgroups + len));
	free(status);
	free(stat);
	free(cgroups);
}

static void parse_cgroup(const char *path)
{
	char uid[40];
	find_part(proc_unit, path);
	find_part(proc_container_id, path);
	find_part(proc_lxc_name, path);
	require(proc_pod_uid(path, uid, sizeof(uid)) < sizeof(uid));
	require(proc_pod_uid(path, uid, 33) < 33);
}

static void parse_line(char *line)
{
	const char *end = line + strlen(line);
	struct proc_line l;
	char *path;
	if (!proc_parse_line(line, &l, &path))
		return;
	proc_path_unmark(path);
	require(!*path || (path > line && path + strlen(path) <= end));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	parse_files(data, size);
	while (in.left) {
		char *line = take_line(&in);
		parse_cgroup(line);
		parse_line(line);
		free(line);
	}
	return 0;
}
