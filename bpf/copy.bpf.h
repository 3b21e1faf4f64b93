/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A sample that cannot be unwound here, because its process or mapping is so new that its rules are not in: registers and
 * up to 16 KiB of the stack go to user space (struct wire_copy). What does not fit into the ring, or comes faster than
 * COPIES_A_SECOND, stays what it was without this: a row with the frames that were found.
 */
#ifndef ASCRIBE_COPY_BPF_H
#define ASCRIBE_COPY_BPF_H

#include "common.bpf.h"
#include "table.bpf.h"
#include "unwind.bpf.h"

#define COPIES_A_SECOND 1024 /* of one CPU */
#define COPIES_RING (1 << 21) /* bytes: room for 110 of the largest */
#define COPY_CHUNK 4096     /* a page: what is read at once, so that a hole costs only what lies behind it */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, COPIES_RING);
} copies SEC(".maps");

struct copy_cpu {
	__u64 second; /* that `sent` counts for */
	__u64 sent;
	saved_regs regs;
	struct wire_copy copy;
	__u8 stack[COPY_STACK_MAX + COPY_CHUNK]; /* copy.stack; a last chunk may begin anywhere below COPY_STACK_MAX */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct copy_cpu);
} copy_cpus SEC(".maps");

static __always_inline struct copy_cpu *copy_cpu(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&copy_cpus, &zero);
}

/* Up to `max` bytes from sp on into this CPU's copy; how many there are. */
__noinline __u32 copy_stack(__u64 sp, __u64 max)
{
	struct copy_cpu *c = copy_cpu();
	__u64 at = 0;
	if (!c)
		return 0;
	for (int i = 0; i <= COPY_STACK_MAX / COPY_CHUNK; i++) {
		barrier_var(at);
		if (at >= COPY_STACK_MAX || at >= max)
			break;
		__u64 n = COPY_CHUNK - ((sp + at) & (COPY_CHUNK - 1));
		if (n > max - at)
			n = max - at;
		barrier_var(n);
		if (n > COPY_CHUNK || bpf_probe_read_user(c->stack + at, n, (void *)(sp + at)))
			break;
		at += n;
	}
	return at < COPY_STACK_MAX ? (__u32)at : COPY_STACK_MAX;
}

/* 0 when the sample is in the ring, else the counter that says why not. Its kernel frames stand at the tail of half `key`. */
__noinline int copy_send(__u32 key, const struct row *row, __u32 n_kernel)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	struct copy_cpu *c = copy_cpu();
	struct task_struct *t = bpf_get_current_task_btf();
	__u64 n = n_kernel, second, max = COPY_STACK_MAX;
	if (!h || !c || !row)
		return COUNTER_copy_failed;
	second = row->last_ns >> 30;
	if (c->second != second) {
		c->second = second;
		c->sent = 0;
	}
	if (c->sent >= COPIES_A_SECOND)
		return COUNTER_copies_limited;
	if (bpf_ringbuf_query(&copies, BPF_RB_AVAIL_DATA) > COPIES_RING - COPY_STACK_MAX - 2048)
		return COUNTER_copies_full;
	const void *saved = (const void *)bpf_task_pt_regs(t);
	if (bpf_probe_read_kernel(&c->regs, sizeof(c->regs), saved))
		return COUNTER_copy_failed;
	c->copy.row = *row;
	c->copy.row.n_kernel = (__u16)n_kernel;
	c->copy.half = key;
	c->copy.regs.pc = unwind_registers(c->copy.regs.reg, &c->regs);
	barrier_var(n);
	if (n > MAX_FRAMES || bpf_probe_read_kernel(c->copy.kernel, n * 8, arena_ptr(h, h->arena_used)))
		return COUNTER_copy_failed;
	__u64 sp = c->copy.regs.reg[UNWIND_REG_SP] - COPY_BELOW;
	__u64 top = BPF_CORE_READ(t, mm, start_stack);
	if (top > sp && top - sp < max)
		max = top - sp;
	c->copy.n_stack = copy_stack(sp, max);
	__u64 size = c->copy.n_stack;
	barrier_var(size);
	if (size > COPY_STACK_MAX)
		return COUNTER_copy_failed;
	if (bpf_ringbuf_output(&copies, &c->copy, sizeof(c->copy) + size, BPF_RB_FORCE_WAKEUP))
		return COUNTER_copies_full;
	c->sent++;
	return 0;
}

#endif
