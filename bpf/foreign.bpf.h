/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Labels in foreign formats (include/label_wire.h). Each kind of source has a reader that appends
 * to the CPU's capture. A reader that fails removes what it appended: there are no half sets.
 * Readers are global functions with scalar arguments and keep their state in the capture: the
 * verifier checks each of them once.
 */
#ifndef ASCRIBE_FOREIGN_BPF_H
#define ASCRIBE_FOREIGN_BPF_H

#include "argument.bpf.h"
#include "call_label.bpf.h"
#include "capture.bpf.h"
#include "custom_labels.bpf.h"
#include "go_labels.bpf.h"
#include "label_path.bpf.h"
#include "node.bpf.h"
#include "otel.bpf.h"
#include "tls.bpf.h"

/* By the index of the process in `procs`; the last one is of all processes that are not there. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* cfg.proc_mask + 2 */
	__type(key, __u32);
	__type(value, struct proc_labels);
} proc_labels SEC(".maps");

#define CAPTURE_WORDS ((CAPTURE_MAX + CAPTURE_ENTRY) / 8)
#define CAPTURE_PART 72 /* words that one call hashes: the verifier checks its loop once */
_Static_assert(CAPTURE_WORDS % CAPTURE_PART == 0, "a part that begins within a capture ends in it");

/* Hash the capture's words from number `from` on, CAPTURE_PART at most. */
__noinline __u64 hash_capture_part(__u32 from, __u64 hash)
{
	struct capture *c = capture();
	__u64 at = from;
	barrier_var(at);
	if (!c || at > CAPTURE_WORDS - CAPTURE_PART)
		return hash;
	const __u64 *w = (const __u64 *)c->bytes + at;
	__u64 n = c->used / 8;
	for (__u32 i = 0; i < CAPTURE_PART && at + i < n; i++)
		hash = mix(hash, w[i]);
	return hash;
}

/* Hash the capture's words with a key. Never returns 0. */
__noinline __u64 hash_capture(void)
{
	struct capture *c = capture();
	if (!c)
		return 1;
	__u64 n = c->used / 8, hash = mix(cfg.secret, n);
	for (__u32 i = 0; i < CAPTURE_WORDS && i < n; i += CAPTURE_PART)
		hash = hash_capture_part(i, hash);
	return hash | 1;
}

static __always_inline int read_source(struct capture *c)
{
	switch (c->source.kind) {
	case LABEL_OTEL:
		return read_otel(c);
	case LABEL_NODE:
		return read_node();
	case LABEL_CUSTOM:
		return read_custom();
	case LABEL_GO_MAP:
		return read_go_map();
	case LABEL_GO_SLICE:
		return read_go_slice();
	case LABEL_PATH:
		return read_path(c->source.arg, c->source.arg2);
	}
	return 0;
}

/* Return source i of the process at `index`. */
__noinline int capture_source(__u32 index, __u32 i)
{
	struct capture *c = capture();
	struct proc_labels *p = bpf_map_lookup_elem(&proc_labels, &index);
	if (!c || !p || i >= LABEL_SOURCES)
		return 0;
	__u64 at = i, used = c->used;
	barrier_var(at);
	if (at >= LABEL_SOURCES)
		return 0;
	c->source = p->source[at];
	if (!c->source.kind)
		return 0;
	c->n_source = i;
	c->span_len = 0;
	c->start = source_start(c);
	/* An executable may be loaded at 0. */
	if ((c->start || (c->source.start == LABEL_AT_ADDRESS && c->tp)) && read_source(c))
		c->used = used;
	return 0;
}

/* Read the foreign labels of the current thread into the capture. Return their hash, 0 for none. */
static __always_inline __u64 capture_foreign(__u32 index, __u32 n, __u64 tp, __u64 *ret_failed)
{
	struct capture *c = capture();
	if (!c)
		return 0;
	c->used = 0;
	c->absent = 0;
	c->failed = 0;
	c->tp = tp;
	for (__u32 i = 0; i < LABEL_SOURCES && i < n; i++)
		capture_source(index, i);
	if (cfg.any_argument)
		for (__u32 i = 0; i < PROBE_LABELS; i++)
			argument_append(i);
	if (cfg.any_call)
		call_append();
	*ret_failed = c->failed;
	return c->used ? hash_capture() : 0;
}

#endif
