/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A sample cannot be unwound here while its process or mapping is so new that its rules are
 * missing. Then its registers and up to 16 KiB of the stack go to user space (struct wire_copy), in
 * Go also some of a second stack. What does not fit into the ring, or comes faster than
 * COPIES_A_SECOND, stays what it was without this: a row with the frames that were found.
 */
#ifndef ASCRIBE_COPY_BPF_H
#define ASCRIBE_COPY_BPF_H

#include "common.bpf.h"
#include "table.bpf.h"
#include "unwind.bpf.h"

#define COPIES_A_SECOND 1024  /* of one CPU */
#define COPIES_RING (1 << 21) /* bytes: room for 110 of the largest */
/* A page: what is read at once, so that a hole costs only what lies behind it */
#define COPY_CHUNK 4096

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, COPIES_RING);
} copies SEC(".maps");

/*
 * Buffers are shared: a CPU has that of its number, and there are fewer where there are many CPUs.
 */
struct copy_cpu {
	__u64 busy;   /* a CPU writes it */
	__u64 second; /* that `sent` counts for */
	__u64 sent;
	saved_regs regs;
	struct wire_copy copy;
	/* copy.stack, then of the other; a last chunk may begin anywhere below COPY_STACK_MAX */
	__u8 stack[COPY_STACK_MAX + COPY_OTHER_MAX + COPY_CHUNK];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* cfg.copy_mask + 1 */
	__type(key, __u32);
	__type(value, struct copy_cpu);
} copy_cpus SEC(".maps");

static __always_inline struct copy_cpu *copy_cpu(void)
{
	__u32 i = bpf_get_smp_processor_id() & cfg.copy_mask;
	return bpf_map_lookup_elem(&copy_cpus, &i);
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

#define COPY_HOPS 32

/*
 * Go's runtime runs its own functions on a stack of its own, whose last frame pointer leads to that
 * of the goroutine. Find where the chain leaves the n bytes that were copied, from `base` on. 0: it
 * does not, or was never in them.
 */
__noinline __u64 copy_leaves(__u64 base, __u64 n)
{
	struct copy_cpu *c = copy_cpu();
	__u64 fp;
	int i;
	if (!c)
		return 0;
	fp = c->copy.regs.reg[UNWIND_REG_FP];
	for (i = 0; i < COPY_HOPS; i++) {
		__u64 off = fp - base;
		if (off >= n || off & 7)
			break;
		off &= COPY_STACK_MAX - 1;
		barrier_var(off);
		fp = *(__u64 *)(c->stack + (off & (COPY_STACK_MAX - 1)));
	}
	return !i || i == COPY_HOPS || fp & 7 || fp < NO_PAGE || fp - base < n ? 0 : fp;
}

/* What is at `at`, behind the n bytes that were copied: how many. */
__noinline __u32 copy_other(__u64 at, __u64 n)
{
	struct copy_cpu *c = copy_cpu();
	__u64 in_page = COPY_CHUNK - (at & (COPY_CHUNK - 1)), to = n;
	if (!c || !at)
		return 0;
	c->copy.other_at = at;
	barrier_var(to);
	if (to > COPY_STACK_MAX)
		return 0;
	if (!bpf_probe_read_user(c->stack + to, COPY_OTHER_MAX, (void *)at))
		return COPY_OTHER_MAX;
	barrier_var(in_page);
	if (in_page > COPY_CHUNK || bpf_probe_read_user(c->stack + to, in_page, (void *)at))
		return 0;
	return (__u32)in_page;
}

static __always_inline int not_sent(struct half *h, int why)
{
	count(h, why);
	return -1;
}

static __always_inline void copy_release(struct copy_cpu *c)
{
	__sync_lock_test_and_set(&c->busy, 0);
}

/* Of a buffer that is held. */
static __always_inline int copy_failed(struct half *h, struct copy_cpu *c, int why)
{
	copy_release(c);
	return not_sent(h, why);
}

/*
 * 0 when the sample is in the ring; why not is counted. Its kernel frames stand at the tail of half
 * `key`.
 */
__noinline int copy_send(__u32 key, const struct row *row, __u32 n_kernel)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	struct copy_cpu *c = copy_cpu();
	struct task_struct *t = bpf_get_current_task_btf();
	__u64 n = n_kernel, second, max = COPY_STACK_MAX;
	if (!h || !c || !row)
		return -1;
	second = row->last_ns >> 30;
	if (c->second != second) {
		c->second = second;
		c->sent = 0;
	}
	if (c->sent >= COPIES_A_SECOND)
		return not_sent(h, COUNTER_copies_limited);
	if (bpf_ringbuf_query(&copies, BPF_RB_AVAIL_DATA) >
	    COPIES_RING - COPY_STACK_MAX - COPY_OTHER_MAX - 2048)
		return not_sent(h, COUNTER_copies_full);
	if (__sync_val_compare_and_swap(&c->busy, 0, 1))
		return not_sent(h, COUNTER_copies_limited);
	const void *saved = (const void *)bpf_task_pt_regs(t);
	if (bpf_probe_read_kernel(&c->regs, sizeof(c->regs), saved))
		return copy_failed(h, c, COUNTER_copy_failed);
	c->copy.row = *row;
	c->copy.row.n_kernel = (__u16)n_kernel;
	c->copy.weight = 0;
	if (cfg.latency && row->event == cfg.latency_event) {
		c->copy.weight = (__u32)row->first_ns;
		c->copy.row.first_ns = 0;
	}
	c->copy.half = h->id;
	c->copy.cpu = bpf_get_smp_processor_id();
	c->copy.regs.pc = unwind_registers(c->copy.regs.reg, &c->regs);
	barrier_var(n);
	if (n > KERNEL_FRAMES_MAX ||
	    bpf_probe_read_kernel(c->copy.kernel, n * 8, arena_ptr(h, h->arena_used)))
		return copy_failed(h, c, COUNTER_copy_failed);
	__u64 sp = c->copy.regs.reg[UNWIND_REG_SP] - COPY_BELOW;
	__u64 top = BPF_CORE_READ(t, mm, start_stack);
	if (top > sp && top - sp < max)
		max = top - sp;
	c->copy.n_stack = copy_stack(sp, max);
	c->copy.n_other = copy_other(copy_leaves(sp, c->copy.n_stack), c->copy.n_stack);
	__u64 size = c->copy.n_stack + c->copy.n_other;
	barrier_var(size);
	if (size > COPY_STACK_MAX + COPY_OTHER_MAX)
		return copy_failed(h, c, COUNTER_copy_failed);
	if (bpf_ringbuf_output(&copies, &c->copy, sizeof(c->copy) + size, BPF_RB_FORCE_WAKEUP))
		return copy_failed(h, c, COUNTER_copies_full);
	c->sent++;
	copy_release(c);
	return 0;
}

#endif
