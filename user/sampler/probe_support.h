/* SPDX-License-Identifier: Apache-2.0 */
/* What this kernel has for probes. */
#ifndef ASCRIBE_SAMPLER_PROBE_SUPPORT_H
#define ASCRIBE_SAMPLER_PROBE_SUPPORT_H

#include "util/err.h"

#include <stdbool.h>

/* BPF_TRACE_UPROBE_MULTI: enum bpf_attach_type of Linux 6.6, which our headers may not have. */
#define PROBES_ATTACH_MULTI 48

struct probe_support {
	bool multi; /* one link for many places, without a capability */
	bool guard; /* the program can forbid that it is preempted (bpf/sample.bpf.c: on_probe) */
};

/*
 * Must no probe be on a nop of 5 bytes? Since Linux 6.18 x86-64 makes a call of it that is hit,
 * into a page that the child of a fork does not get: it crashes.
 */
bool probe_support_is_deadly(void);

/* -ENOTSUP: this kernel may preempt the program, which has no way to forbid that. */
int probe_support_find(struct probe_support *ret, struct err *err);

#endif
