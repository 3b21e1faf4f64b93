/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/rights.h"

#include <inttypes.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CAPABILITY(name) "securityContext.capabilities.add: [" name "]"
#define NO_NAMES "samples have the ids of pods and containers, not their names"

const struct right_info right_info[N_RIGHTS] = {
	[RIGHT_BPF] = { "CAP_BPF", "nothing is recorded", CAPABILITY("BPF") },
	[RIGHT_PERFMON] = { "CAP_PERFMON", "nothing is recorded", CAPABILITY("PERFMON") },
	[RIGHT_SYS_PTRACE] = { "CAP_SYS_PTRACE",
			       "processes of other users have no function names and no labels",
			       CAPABILITY("SYS_PTRACE") },
	[RIGHT_DAC_READ_SEARCH] = { "CAP_DAC_READ_SEARCH",
				    "binaries that only their owner may read have no function "
				    "names; processes that end early have no container",
				    CAPABILITY("DAC_READ_SEARCH") },
	[RIGHT_CHECKPOINT_RESTORE] = { "CAP_CHECKPOINT_RESTORE",
				       "binaries that were deleted or replaced since their start "
				       "have no function names",
				       CAPABILITY("CHECKPOINT_RESTORE") },
	[RIGHT_SYSLOG] = { "CAP_SYSLOG", "kernel functions have no names", CAPABILITY("SYSLOG") },
	[RIGHT_SYS_ADMIN] = { "perf_event_paranoid", "nothing is recorded",
			      CAPABILITY("SYS_ADMIN") },
	[RIGHT_SECCOMP] = { "seccomp", "nothing is recorded",
			    "securityContext.seccompProfile: {type: Localhost, localhostProfile: "
			    "ascribe.json}" },
	[RIGHT_HOST_PID] = { "PID namespace",
			     "other pods have no exe, no user frames, no waits and no labels of "
			     "their own: pod, comm and kernel frames alone",
			     "hostPID: true" },
	[RIGHT_CGROUP] = { "cgroups",
			   "processes that end early have no container; cgroup and exclude-cgroup "
			   "find nothing",
			   "- {name: cgroup, mountPath: /sys/fs/cgroup, readOnly: true}" },
	[RIGHT_TRACING] = { "tracefs", "tracepoints cannot be events",
			    "- {name: tracing, mountPath: /sys/kernel/tracing, readOnly: true}" },
	[RIGHT_STORE] = { "store", "the daemon cannot start",
			  "- {name: store, mountPath: /var/lib/ascribe}" },
	[RIGHT_NODE_NAME] = { "NODE_NAME", NO_NAMES,
			      "- {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: "
			      "spec.nodeName}}}" },
	[RIGHT_TOKEN] = { "service account", NO_NAMES, "automountServiceAccountToken: true" },
	[RIGHT_READ_PODS] = { "names of pods", NO_NAMES,
			      "- {apiGroups: [\"\"], resources: [pods], verbs: [get, list, "
			      "watch]}" },
};

const struct capability_info capability_info[N_CAPABILITIES] = {
	[RIGHT_BPF] = { 39, "to load the sampling program", true },
	[RIGHT_PERFMON] = { 38, "to open events on all CPUs", true },
	[RIGHT_SYS_PTRACE] = { 19, "to find label slots and the files of other users' processes",
			       false },
	[RIGHT_DAC_READ_SEARCH] = { 2, "to read files that only their owner may read", false },
	[RIGHT_CHECKPOINT_RESTORE] = { 40,
				       "to open deleted and upgraded binaries through map_files",
				       false },
	[RIGHT_SYSLOG] = { 34, "to see the kernel's symbols", false },
};

/* A line of /proc/self/status; 0: there is none. */
static uint64_t read_status(const char *format)
{
	char line[256];
	uint64_t v = 0;
	FILE *f = fopen("/proc/self/status", "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, format, &v) == 1)
			break;
	if (f)
		fclose(f);
	return v;
}

uint64_t rights_capabilities(void)
{
	return read_status("CapEff: %" SCNx64);
}

bool rights_in_pod(void)
{
	return getenv("KUBERNETES_SERVICE_HOST");
}

bool rights_filtered(void)
{
	return read_status("Seccomp: %" SCNu64) == 2; /* SECCOMP_MODE_FILTER */
}

bool rights_see_cgroups(void)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	bool whole = false;
	for (struct mntent *m; f && !whole && (m = getmntent(f));) {
		struct stat st;
		/* The root of kernfs is inode 1; a cgroup namespace shows another cgroup there. */
		whole = !strcmp(m->mnt_type, "cgroup2") && !stat(m->mnt_dir, &st) && st.st_ino == 1;
	}
	if (f)
		endmntent(f);
	return whole;
}
