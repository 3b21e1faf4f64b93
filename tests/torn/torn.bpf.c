// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The label resolver of the sampling program, with the sampled thread's log read at the same
 * instant: see torn.c.
 */
#include "common.bpf.h"
#include "labels.bpf.h"
#include "torn.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __u32 torn_tgid = 0;
const volatile __s64 torn_log_at = 0; /* from the thread pointer */
__u64 torn_lost;

SEC("perf_event")
int on_torn(void *ctx)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct torn_sample s = { .head = { .kind = WIRE_TORN,
					   .size = sizeof(s) - sizeof(s.head) } };
	struct image im = { .start_ns = 1, .tgid = torn_tgid, .exec_id = 1 };
	struct label_flags flags = { .flag = 0 };
	if ((__u32)t->tgid != torn_tgid || !t->mm)
		return 0;
	if (bpf_probe_read_user(&s.log, sizeof(s.log), (void *)(thread_pointer(t) + torn_log_at)) ||
	    !s.log.writer)
		return 0;
	s.head.set_id = read_labels(&im, &flags);
	s.flag = flags.flag;
	s.failed = flags.failed;
	if (ring_send(&s, sizeof(s), false))
		__sync_fetch_and_add(&torn_lost, 1);
	return 0;
}
