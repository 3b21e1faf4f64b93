/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What every part of the sampling program needs: types, configuration, the words shared with user
 * space.
 */
#ifndef ASCRIBE_COMMON_BPF_H
#define ASCRIBE_COMMON_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "wire.h"

#define PF_KTHREAD 0x00200000 /* include/linux/sched.h */

/*
 * Filled by user/sampler between open and load; the verifier then knows every size as a constant.
 */
const volatile struct config cfg = {};

/* Raised by user space when it has thrown definitions away: all are sent again. */
volatile __u32 generation = 1;

/*
 * Samples on a CPU that was not there when the tables were made: there is no place to count them
 * but here.
 */
__u64 lost_bad_cpu;

/* Hits of probes where a program was at work on the CPU: counted as not_run. */
__u64 probes_missed;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* cfg.n_cpus */
	__type(key, __u32);
	__type(value, struct cpu_state);
} cpu_states SEC(".maps");

/*
 * Step into or out of this CPU's half: seq is odd while a program is inside. Both steps are full
 * barriers: user space must see us inside before we read which half is active, and all that we
 * wrote before it sees us outside. So the old value must be used: without a use clang drops
 * BPF_FETCH, and the arm64 JIT then emits STADD, which orders nothing (with BPF_FETCH: LDADDAL).
 * tools/check-bpf-barriers looks for it in the objects.
 */
static __always_inline void cpu_state_step(struct cpu_state *c)
{
	__u32 was = __sync_fetch_and_add(&c->seq, 1);
	barrier_var(was);
}

/* Records for user space: wire.h. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} ring SEC(".maps");

static __always_inline __u64 mix(__u64 h, __u64 v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ull;
	return h ^ (h >> 29);
}

/* Read the word at `at` of the process; 0 when that fails. */
static __always_inline __u64 user_word(__u64 at)
{
	__u64 v = 0;
	return bpf_probe_read_user(&v, sizeof(v), (void *)at) ? 0 : v;
}

/*
 * Hand a record to user space. It is woken only when enough has gathered, or at once when `now`: a
 * wake-up costs more than the record. 0, or negative when the ring is full.
 */
static __always_inline long ring_send(void *record, __u64 size, bool now)
{
	if (!now && bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > cfg.ring_wake)
		now = true;
	return bpf_ringbuf_output(&ring, record, size,
				  now ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

#endif
