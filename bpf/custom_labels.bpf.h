/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The set of labels of custom-labels, version 1: an array of pairs, at an address or behind a pointer. */
#ifndef ASCRIBE_CUSTOM_LABELS_BPF_H
#define ASCRIBE_CUSTOM_LABELS_BPF_H

#include "capture.bpf.h"
#include "label_pairs.bpf.h"

__noinline int read_custom(void)
{
	struct capture *c = capture();
	struct {
		__u64 array, n;
	} set;
	if (!c)
		return -1;
	__u64 at = c->start;
	if (!c->source.arg && read_at(&at, 8, at))
		return capture_fault(c);
	if (!at)
		return 0;
	if (read_at(&set, sizeof(set), at))
		return capture_fault(c);
	if (!set.n)
		return 0;
	if (!set.array || set.n > PAIRS_SANE)
		return capture_invalid(c);
	return read_pairs(c, set.array, set.n, 0);
}

#endif
