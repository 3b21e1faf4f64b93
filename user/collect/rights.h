/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What recorders take capabilities for. `record` and `top` give up theirs here, the daemon in
 * daemon/rights.h.
 */
#ifndef ASCRIBE_COLLECT_RIGHTS_H
#define ASCRIBE_COLLECT_RIGHTS_H

#include "collect/collector.h"
#include "proc/links.h"
#include "sampler/loader.h"
#include "sandbox/kept.h"
#include "stacks/jvm_helper.h"
#include "stacks/kernel_frames.h"

/* In the table of every keeper of a recorder. */
#define COLLECTOR_OPS \
	LOADER_OPS, procs_cgroup_op, proc_link_op, kernel_frames_op, collector_nursery_op, \
		jvm_helper_op, kept_op

/* Start a keeper with these ops, while this process has capabilities. */
int collector_keep_rights(struct err *err);

/*
 * Give up all capabilities but CAP_DAC_OVERRIDE, and write nowhere but into this store, which is
 * there.
 */
int collector_drop_rights(const char *store, struct err *err);

#endif
