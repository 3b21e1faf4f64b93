/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: lines of /proc/TGID/maps, and paths of cgroups: units, containers, pods.
 *
 * Covers: proc/cgroup.c
 */
#include "fuzz/input.h"
#include "proc/proc_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	while (in.left) {
		char *line = take_line(&in), *path = NULL, uid[40];
		const char *part, *end = line + strlen(line);
		struct proc_line l;
		size_t n;
		n = proc_unit(line, &part);
		require(!n || (part >= line && part + n <= end));
		n = proc_container_id(line, &part);
		require(!n || (part >= line && part + n <= end));
		n = proc_lxc_name(line, &part);
		require(!n || (part >= line && part + n <= end));
		require(proc_pod_uid(line, uid, sizeof(uid)) < sizeof(uid));
		if (proc_parse_line(line, &l, &path))
			require(path >= line && path <= end);
		free(line);
	}
	return 0;
}
