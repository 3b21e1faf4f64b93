/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The set of labels of custom-labels, version 1: an array of pairs, at an address or behind a
 * pointer.
 */
#ifndef ASCRIBE_CUSTOM_LABELS_BPF_H
#define ASCRIBE_CUSTOM_LABELS_BPF_H

#include "capture.bpf.h"
#include "label_pairs.bpf.h"

__noinline int read_custom(void)
{
	struct capture *c = capture();
	if (!c)
		return -1;
	__u64 at = c->start;
	if (!c->source.arg && read_at(&at, 8, at))
		return capture_fault(c);
	return read_pair_list(c, at, 0);
}

#endif
