/* SPDX-License-Identifier: Apache-2.0 */
/* Whom to profile: processes, threads or cgroups, checked to exist, and watched until they end. */
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
	struct selected_cgroup cgroups[CGROUPS_MAX]; /* the deepest first */
	size_t n_cgroups;
};

/* -EINVAL: not a number; -ESRCH: there is no such process or thread. */
int target_tgids(struct target *t, char **v, size_t n, struct err *err);
int target_tids(struct target *t, char **v, size_t n, struct err *err);
/*
 * What runs in one of these cgroups or below it, and not in an excluded one; the deepest cgroup
 * that is named decides. Without `in`: everything that is not excluded. Each is a directory in a
 * cgroup2 mount, or a path from its root. -ENOENT; -EINVAL: not a v2 cgroup; -E2BIG: too many.
 */
int target_cgroups(struct target *t, const struct opt_list *in, const struct opt_list *excluded,
		   struct err *err);

/* Options that choose whom to profile. */
struct target_options {
	struct opt_list tgids, tids, cgroups, excluded;
};

/* The one of the three that is given, if any (-p, -t, cgroups); errors as above. */
int target_choose(struct target *t, const struct target_options *o, struct err *err);
/* -p, -t and -G that are given: more than one of them is a mistake. */
unsigned target_kinds(const struct target_options *o);
/* For people: "all processes", "selected cgroups", ... */
const char *target_text(const struct target *t);
/* Do both name the same cgroups? */
bool target_same(const struct target *a, const struct target *b);
/* What is to be sampled; ids and cgroups stay the target's. */
void target_configure(const struct target *t, struct sampler_config *ret);

/*
 * Descriptors that become readable when a process or thread ends; out has room for TARGET_FDS_MAX.
 */
size_t target_fds(const struct target *t, int *out);
void target_gone(struct target *t, int fd);
bool target_all_gone(const struct target *t);
void target_fini(struct target *t);

#endif
