/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Allocations that a program samples itself: what its probes say (docs/memory.md). Each is a row of
 * its own, since user space pairs it with its free.
 */
#ifndef ASCRIBE_HEAP_BPF_H
#define ASCRIBE_HEAP_BPF_H

#include "ids.bpf.h"
#include "select.bpf.h"
#include "table.bpf.h"

/* The arguments of otel_memory:alloc and otel_memory:free. The program may lie. */
struct heap_hit {
	bool frees;
	__u64 ptr, size, weighted;
};

/* What the allocation stands for, into its row. False: it cannot be. */
static __always_inline bool heap_measure(const struct heap_hit *hit, struct row *key)
{
	if (!hit->ptr || !hit->size || hit->size > HEAP_SIZE_MAX || hit->weighted < hit->size ||
	    hit->weighted - hit->size > HEAP_MEAN_MAX)
		return false;
	key->value = hit->weighted;
	key->samples = hit->weighted * HEAP_OBJECT / hit->size;
	key->first_ns = hit->ptr;
	return true;
}

static __always_inline void heap_free(struct half *h, __u32 half_key, __u32 event, __u64 ptr)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct row key = { .event = (__u8)event,
			   .kind = ROW_FREE,
			   .samples = 1,
			   .first_ns = ptr,
			   .last_ns = bpf_ktime_get_boot_ns() };
	if (!is_selected(t))
		return;
	key.tgid = process_id(t);
	key.start_ns = t->group_leader->start_boottime;
	key.exec_id = (__u32)t->self_exec_id;
	if (!row_add_alone(half_key, &key))
		count(h, COUNTER_heap_free_lost);
	ask_for_drain(h);
}

#endif
