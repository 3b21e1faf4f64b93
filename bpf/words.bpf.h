/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Words that stand for frames of code made at run time (include/v8_wire.h, hotspot_wire.h). User
 * space is told of each function when it is on a stack for the first time: the process may end, or
 * the function go, before the rows are read.
 */
#ifndef ASCRIBE_WORDS_BPF_H
#define ASCRIBE_WORDS_BPF_H

#include "common.bpf.h"
#include "labels.bpf.h"

#define WORDS_TELL_MAX 64 /* functions of a stack that user space is told of */

struct words_cpu {
	struct wire_record head; /* WIRE_WORD */
	__u32 told;		 /* functions of the stack in hand */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct words_cpu);
} words_cpus SEC(".maps");

static __always_inline struct words_cpu *words_cpu(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&words_cpus, &zero);
}

/* A walk begins, of this process. */
static __always_inline void words_begin(const struct image *im)
{
	struct words_cpu *c = words_cpu();
	if (!c)
		return;
	c->head.kind = WIRE_WORD;
	c->head.tgid = im->tgid;
	c->head.exec_id = im->exec_id;
	c->head.start_ns = im->start_ns;
	c->told = 0;
}

/* Have user space read the name of a word, once for each function. */
__noinline int words_tell(__u64 word, __u64 function)
{
	struct words_cpu *c = words_cpu();
	__u64 *cell;
	if (!c || c->told >= WORDS_TELL_MAX)
		return 0;
	struct image im = { .start_ns = c->head.start_ns,
			    .tgid = c->head.tgid,
			    .exec_id = c->head.exec_id };
	__u64 what = image_hash(&im, function);
	if (was_sent(what, &cell) || !cell)
		return 0;
	c->head.word = word;
	if (!ring_send(&c->head, sizeof(c->head), !c->told))
		*cell = what;
	c->told++;
	return 0;
}

#endif
