// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The buckets of include/hist_bucket.h in BPF, as a program would use them: computed, and counted
 * in an array.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "hist_bucket.h"
#include "hist.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct hist_work);
} work SEC(".maps");

SEC("syscall")
int buckets(void *ctx)
{
	__u32 zero = 0;
	struct hist_work *w = bpf_map_lookup_elem(&work, &zero);
	(void)ctx;
	if (!w)
		return 1;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < HIST_WORK_VALUES; i++) {
		__u32 index = hist_bucket_index(w->bits, w->values[i]);
		w->index[i] = index;
		w->low[i] = hist_bucket_low(w->bits, index);
		w->high[i] = hist_bucket_high(w->bits, index);
		/*
		 * The verifier does not know the bound of an index; the compiler might, and leave
		 * the comparison out.
		 */
		index = hist_bucket_index(HIST_WORK_BITS, w->values[i]);
		asm volatile("" : "+r"(index));
		if (index < HIST_BUCKETS(HIST_WORK_BITS))
			__sync_fetch_and_add(&w->counts[index], 1);
	}
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
