/* SPDX-License-Identifier: Apache-2.0 */
/* Whom to profile: processes, threads or a cgroup, checked to exist, and watched until they end. */
#ifndef ASCRIBE_OPT_TARGET_H
#define ASCRIBE_OPT_TARGET_H

#include "opt/options.h"
#include "sampler/sampler.h"
#include "util/err.h"

#define TARGET_FDS_MAX 1024

struct target {
	enum selection selection;
	uint32_t *ids;
	int *fds; /* pidfds, -1 once gone */
	size_t n_ids;
	uint64_t cgroup_id;
	uint32_t cgroup_level;
};

/* -EINVAL: not a number; -ESRCH: there is no such process or thread. */
int target_tgids(struct target *t, char **v, size_t n, struct err *err);
int target_tids(struct target *t, char **v, size_t n, struct err *err);
/* A directory in a cgroup2 mount, or a path from its root. -ENOENT, -EINVAL (not a v2 cgroup). */
int target_cgroup(struct target *t, const char *path, struct err *err);

/* The one of the three that is given, if any (-p, -t, -G; cgroup may be NULL); errors as above. */
int target_choose(struct target *t, const struct opt_list *tgids, const struct opt_list *tids,
		  const char *cgroup, struct err *err);
/* What is to be sampled; ids stay the target's. */
void target_configure(const struct target *t, struct sampler_config *ret);

/*
 * Descriptors that become readable when a process or thread ends; out has room for TARGET_FDS_MAX.
 */
size_t target_fds(const struct target *t, int *out);
void target_gone(struct target *t, int fd);
bool target_all_gone(const struct target *t);
void target_fini(struct target *t);

#endif
