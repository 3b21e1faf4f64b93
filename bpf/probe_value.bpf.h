/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a hit of a probe measures, as the cookie of its place says. */
#ifndef ASCRIBE_PROBE_VALUE_BPF_H
#define ASCRIBE_PROBE_VALUE_BPF_H

#include "calls.bpf.h"
#include "hist_bucket.h"
#include "select.bpf.h"
#include "table.bpf.h"

#define VALUE_UNKNOWN (~0ull) /* it cannot be read, or is no amount */
#define VALUE_NONE (~1ull)    /* the hit is no sample */

#define PROBE_COOKIE(word) (*(const struct probe_cookie *)&(word))

static __always_inline long read_register(__u32 word, __u64 *ret)
{
	const __u64 *saved = (const void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	return bpf_probe_read_kernel(ret, sizeof(*ret), saved + word);
}

static __always_inline __u64 read_argument(struct probe_cookie c)
{
	__u64 bytes = 1ull << c.size, unused = 64 - 8 * bytes;
	__u64 v = (__u64)(__s64)c.offset, at = 0, index = 0;
	if (c.arg != ARG_CONSTANT && read_register(c.base, &at))
		return VALUE_UNKNOWN;
	if (c.arg == ARG_REGISTER)
		v = at;
	if (c.arg == ARG_MEMORY) {
		if (c.indexed && read_register(c.index, &index))
			return VALUE_UNKNOWN;
		at += v + (index << c.scale);
		v = 0;
		barrier_var(bytes); /* the verifier does not see how large a shift's result is */
		if (bytes > sizeof(v) || bpf_probe_read_user(&v, (__u32)bytes, (const void *)at))
			return VALUE_UNKNOWN;
	}
	v <<= unused;
	v = c.is_signed ? (__u64)((__s64)v >> unused) : v >> unused;
	return v < PROBE_VALUE_MAX ? v : VALUE_UNKNOWN;
}

/* The value of a hit with this cookie, with the stack pointer at sp; VALUE_*. */
__noinline __u64 probe_value(__u64 cookie, __u64 sp)
{
	const struct probe_cookie c = PROBE_COOKIE(cookie);
	if (c.arg)
		return read_argument(c);
	if (!cfg.calls || c.part == PROBE_HIT)
		return 1;
	if (!is_selected(bpf_get_current_task_btf()))
		return VALUE_NONE;
	if (c.part == PROBE_CALL) {
		call_begin(c.event, sp);
		return VALUE_NONE;
	}
	__u64 took = call_end(c.event, sp - REGS_RETURN_BYTES);
	return took ? took : VALUE_NONE;
}

/*
 * Count the value of a hit, whose row this is, among those of its label set: in a row of its bucket
 * that all threads share. The row is used up: another one would be too much stack for Linux 6.1.
 */
__noinline int value_spread(__u32 half_key, struct row *row)
{
	struct half *h = bpf_map_lookup_elem(&halves, &half_key);
	if (!h || !row)
		return 0;
	row->kind = ROW_WAIT;
	row->tid = 0;
	row->occupant = OCCUPANT_OTHER;
	row->wait.bucket = (__u16)hist_bucket_index(WAIT_HIST_BITS, row->value);
	row->wait.flags = 0;
	row->wait.zero = 0;
	row->samples = 1;
	row->value = 0;
	if (row_add(half_key, row) < 0)
		count(h, COUNTER_value_spread_full);
	return 0;
}

#endif
