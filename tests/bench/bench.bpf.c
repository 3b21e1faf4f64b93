/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the sampling program is compared with. That is nothing at all, or the usual way: stack ids
 * and a hash map of counts, as most BPF profilers. Or it is a hash map with one entry for each
 * sample, to be drained by batches. And how deep the stacks are.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define TYPE_HASH 1 /* include/uapi/linux/bpf.h */
#define TYPE_STACK_TRACE 7
#define MAX_FRAMES 127

char LICENSE[] SEC("license") = "Dual BSD/GPL";

__u64 ran;	   /* samples that reached on_count or on_entry */
__u64 frames[128]; /* by depth: user stacks that on_depth saw */

SEC("perf_event")
int on_empty(void *ctx)
{
	return 0;
}

SEC("tp_btf/sched_switch")
int on_nothing(void *ctx)
{
	return 0;
}

SEC("perf_event")
int on_count(void *ctx)
{
	__sync_fetch_and_add(&ran, 1);
	return 0;
}

struct stack {
	__u64 ip[MAX_FRAMES];
};

struct {
	__uint(type, TYPE_STACK_TRACE);
	__uint(max_entries, 16384);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct stack));
} stacks SEC(".maps");

struct key {
	__u32 tgid, tid;
	__s32 user, kernel;
	char comm[16];
};

struct {
	__uint(type, TYPE_HASH);
	__uint(max_entries, 40960);
	__type(key, struct key);
	__type(value, __u64);
} counts SEC(".maps");

SEC("perf_event")
int on_stackid(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid(), one = 1;
	struct key k = { .tgid = id >> 32, .tid = (__u32)id };
	bpf_get_current_comm(k.comm, sizeof(k.comm));
	k.user = (__s32)bpf_get_stackid(ctx, &stacks, BPF_F_USER_STACK);
	k.kernel = (__s32)bpf_get_stackid(ctx, &stacks, 0);
	__u64 *n = bpf_map_lookup_elem(&counts, &k);
	if (n)
		__sync_fetch_and_add(n, 1);
	else
		bpf_map_update_elem(&counts, &k, &one, 1 /* BPF_NOEXIST */);
	return 0;
}

struct entry {
	__u64 task, ns;
};

struct {
	__uint(type, TYPE_HASH);
	__uint(max_entries, 40960);
	__type(key, struct entry);
	__type(value, __u64);
} entries SEC(".maps");

SEC("perf_event")
int on_entry(void *ctx)
{
	struct entry e = { bpf_get_current_pid_tgid(), bpf_ktime_get_ns() };
	__u64 one = 1;
	__sync_fetch_and_add(&ran, 1);
	bpf_map_update_elem(&entries, &e, &one, 0);
	return 0;
}

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack);
} room SEC(".maps");

SEC("perf_event")
int on_depth(struct bpf_perf_event_data *ctx)
{
	__u32 zero = 0;
	char comm[16];
	/* Of our load only. */
	if (bpf_get_current_comm(comm, sizeof(comm)) || comm[0] != 'b' || comm[1] != 'e' ||
	    comm[5] != '_' || comm[6] != 'l')
		return 0;
	struct stack *s = bpf_map_lookup_elem(&room, &zero);
	long len = s ? bpf_get_stack(ctx, s, sizeof(*s), BPF_F_USER_STACK) : 0;
	if (len > 0 && len < 128 * 8)
		__sync_fetch_and_add(&frames[len / 8 & 127], 1);
	return 0;
}
