/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a hit of a probe measures, as its place says. */
#ifndef ASCRIBE_PROBE_VALUE_BPF_H
#define ASCRIBE_PROBE_VALUE_BPF_H

#include "argument.bpf.h"
#include "calls.bpf.h"
#include "hist_bucket.h"
#include "select.bpf.h"
#include "table.bpf.h"

#define VALUE_UNKNOWN (~0ull) /* it cannot be read, or is no amount */
#define VALUE_NONE (~1ull)    /* the hit is no sample */

/* The value of a hit with this cookie, with these registers (REGS_SP, REGS_LINK); VALUE_*. */
__noinline __u64 probe_value(__u64 cookie, __u64 sp, __u64 link)
{
	const struct probe_cookie c = PROBE_COOKIE(cookie);
	const struct probe_arguments *a = arguments_of(cookie);
	__u64 v;
	if (a && a->value.arg)
		return read_argument(&a->value, &v) && v < PROBE_VALUE_MAX ? v : VALUE_UNKNOWN;
	if (!cfg.calls || c.part == PROBE_HIT)
		return 1;
	if (!is_selected(bpf_get_current_task_btf()))
		return VALUE_NONE;
	if (c.part == PROBE_CALL) {
		call_begin(c.event, sp, link);
		return VALUE_NONE;
	}
	__u64 took = call_end(c.event, sp - REGS_RETURN_BYTES);
	return took ? took : VALUE_NONE;
}

/*
 * Count the value of the hit that `row` is of, in a row of its bucket that all threads with its
 * label set share. Overwrite `row`: a second one would be too much stack for Linux 6.1.
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
