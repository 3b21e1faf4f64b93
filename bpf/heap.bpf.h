/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Allocations that a program samples itself: what its probes say (docs/memory.md). Each is a row of
 * its own, since user space pairs it with its free.
 */
#ifndef ASCRIBE_HEAP_BPF_H
#define ASCRIBE_HEAP_BPF_H

#include "ids.bpf.h"
#include "regs.bpf.h"
#include "select.bpf.h"
#include "table.bpf.h"

/* What a hit tells of, in the registers of its first arguments. */
enum heap_hit {
	HEAP_NONE,
	HEAP_ALLOC, /* otel_memory:alloc(ptr, size, weighted_bytes) */
	HEAP_FREED, /* otel_memory:free(ptr) */
};

/* What the allocation stands for, into its row. False: it cannot be; the program may lie. */
static __always_inline bool heap_measure(const struct pt_regs *r, struct row *key)
{
	const __u64 size = REGS_ARG2(r), weighted = REGS_ARG3(r);
	if (!REGS_ARG1(r) || !size || size > HEAP_SIZE_MAX || weighted < size ||
	    weighted - size > HEAP_MEAN_MAX)
		return false;
	key->value = weighted;
	key->samples = weighted * HEAP_OBJECT / size;
	key->first_ns = REGS_ARG1(r);
	return true;
}

/* Not inlined: the stack of on_probe would become too large for Linux 6.1. */
__noinline int heap_free(__u32 half_key, __u32 event, __u64 ptr)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct half *h = bpf_map_lookup_elem(&halves, &half_key);
	struct row key = { .event = (__u8)event,
			   .kind = ROW_FREE,
			   .samples = 1,
			   .first_ns = ptr,
			   .last_ns = bpf_ktime_get_boot_ns() };
	if (!h || !is_selected(t))
		return 0;
	key.tgid = process_id(t);
	key.start_ns = t->group_leader->start_boottime;
	key.exec_id = (__u32)t->self_exec_id;
	if (!row_add_alone(half_key, &key))
		count(h, COUNTER_heap_free_lost);
	ask_for_drain(h);
	return 0;
}

#endif
