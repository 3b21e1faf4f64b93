/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What tests/bpf/hist.bpf.c and tests/unit/test_hist_bpf.c exchange: one value of the map `work`.
 */
#ifndef TESTS_BPF_HIST_H
#define TESTS_BPF_HIST_H

#define HIST_WORK_VALUES 1000
#define HIST_WORK_BITS 6 /* of counts */

struct hist_work {
	__u32 bits; /* of index, low, high */
	__u32 pad;
	__u64 values[HIST_WORK_VALUES];
	__u32 index[HIST_WORK_VALUES];
	__u64 low[HIST_WORK_VALUES];
	__u64 high[HIST_WORK_VALUES];
	__u64 counts[HIST_BUCKETS(HIST_WORK_BITS)];
};

#endif
