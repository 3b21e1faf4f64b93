/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For `ascribe check`: what recording needs the host or a pod's manifest to give, and what is lost
 * without it. deploy/kubernetes/base/daemonset.yaml gives all of it.
 */
#ifndef ASCRIBE_CLI_RIGHTS_H
#define ASCRIBE_CLI_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum right {
	RIGHT_BPF,
	RIGHT_PERFMON,
	RIGHT_SYS_PTRACE,
	RIGHT_DAC_READ_SEARCH,
	RIGHT_CHECKPOINT_RESTORE,
	RIGHT_SYSLOG,
	N_CAPABILITIES,
	RIGHT_SYS_ADMIN = N_CAPABILITIES, /* only where perf_event_paranoid is above 2 */
	RIGHT_SECCOMP,
	RIGHT_HOST_PID,
	RIGHT_CGROUP,
	RIGHT_TRACING,
	RIGHT_STORE,
	RIGHT_NODE_NAME,
	RIGHT_TOKEN,
	RIGHT_READ_PODS,
	N_RIGHTS
};

struct right_info {
	const char *name;   /* of the check; of a capability its name */
	const char *effect; /* what is lost without the right */
	const char *yaml;   /* the line of a manifest that gives it */
};
extern const struct right_info right_info[N_RIGHTS];

/* The first N_CAPABILITIES rights. */
struct capability_info {
	int bit; /* include/uapi/linux/capability.h */
	const char *use;
	bool needed; /* nothing is recorded without it */
};
extern const struct capability_info capability_info[N_CAPABILITIES];

/* Effective capabilities of this process, as bits. */
uint64_t rights_capabilities(void);

/* True in a Kubernetes pod. */
bool rights_in_pod(void);
/* True when a seccomp filter is in force. */
bool rights_filtered(void);
/* True when a mounted v2 hierarchy shows the cgroups of the whole host, not only our own. */
bool rights_see_cgroups(void);

#endif
