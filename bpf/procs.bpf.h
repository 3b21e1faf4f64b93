/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The processes that user space has looked at, and asking it about others. Each question and each
 * definition is sent once: `seen`.
 */
#ifndef ASCRIBE_PROCS_BPF_H
#define ASCRIBE_PROCS_BPF_H

#include "common.bpf.h"
#include "ids.bpf.h"
#include "label_scratch.bpf.h"

/* Open addressing by tgid; only user space writes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* cfg.proc_mask + 1 */
	__type(key, __u32);
	__type(value, struct proc_entry);
} procs SEC(".maps");

/* The sets that were sent, direct mapped: overwriting an entry only costs sending its set again. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << SEEN_BITS);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

/* True if the set was sent. Else *ret_cell is the cell to fill after sending it. */
static __always_inline bool was_sent(__u64 what, __u64 **ret_cell)
{
	__u32 i = (__u32)(what >> (64 - SEEN_BITS));
	*ret_cell = bpf_map_lookup_elem(&seen, &i);
	return *ret_cell && **ret_cell == what;
}

/* Not inlined, like the others below: the stack frames of a call chain share 512 bytes. */
__noinline int ask_about(const struct image *im)
{
	if (!im)
		return 0;
	__u64 *cell, what = image_hash(im, 0x6e6577);
	if (was_sent(what, &cell) || !cell)
		return 0;
	struct wire_record r = { .kind = WIRE_NEW_PROCESS,
				 .tgid = im->tgid,
				 .exec_id = im->exec_id,
				 .start_ns = im->start_ns,
				 .at_ns = bpf_ktime_get_boot_ns() };
	if (!ring_send(&r, sizeof(r), true))
		*cell = what;
	return 0;
}

/*
 * The same for the running thread's image, with its command line. Reading the command line here
 * costs some 100 ns. Asking for it later costs two context switches, and the process may have
 * ended.
 */
__noinline int ask_about_current(const struct image *im)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct scratch *s = scratch();
	__u64 *cell, n = 0;
	if (!im || !s)
		return 0;
	__u64 what = image_hash(im, 0x6e6577);
	if (was_sent(what, &cell) || !cell)
		return 0;
	struct mm_struct *mm = t->mm;
	if (cfg.cmdline && mm) {
		__u64 from = mm->arg_start, len = mm->arg_end - from;
		len = len > WIRE_CMDLINE_MAX ? WIRE_CMDLINE_MAX : len;
		if (payload_read(s, len, from))
			n = len;
	}
	s->head = (struct wire_record){ .kind = WIRE_NEW_PROCESS,
					.size = (__u32)n,
					.tgid = im->tgid,
					.exec_id = im->exec_id,
					.start_ns = im->start_ns,
					.at_ns = bpf_ktime_get_boot_ns(),
					.cgroup = t->cgroups->dfl_cgrp->kn->id };
	if (payload_send(s, n, true))
		*cell = what;
	return 0;
}

/* Find the entry of a process; *ret_index is its index. */
static __always_inline struct proc_entry *proc_find_at(const struct image *im, __u32 *ret_index)
{
	__u32 hash = im->tgid * 0x9e3779b1u;
	for (__u32 p = 0; p < PROC_PROBES; p++) {
		__u32 i = ((hash >> 8) + p) & cfg.proc_mask;
		struct proc_entry *e = bpf_map_lookup_elem(&procs, &i);
		if (!e || !e->tgid)
			return 0;
		if (e->tgid == im->tgid && e->start_ns == im->start_ns &&
		    e->exec_id == im->exec_id) {
			*ret_index = i;
			return e;
		}
	}
	return 0;
}

static __always_inline struct proc_entry *proc_find(const struct image *im)
{
	__u32 index;
	return proc_find_at(im, &index);
}

#define LENDERS 4 /* ancestors that are looked at */

/*
 * Find an ancestor of the current thread, whose image is im, with an entry that is true of that
 * image, too. Return the index of the entry in `procs`, or -1.
 *
 * A child of fork begins with a copy of its parent's memory. By the parent's entry only the
 * thread's own memory is read. Each exec opens its program anew, so two images with the same open
 * file have called none since they were one. This also tells an ancestor from a stranger that has
 * adopted the thread's process. What a parent loads after the fork is not in the child: with
 * `before`, an entry counts if it was so before the fork.
 */
__noinline int proc_lender(const struct image *im, __u32 before)
{
	struct task_struct *t = bpf_get_current_task_btf();
	if (!im || is_hidden(im->tgid) || !t->mm || !t->mm->exe_file)
		return -1;
	struct file *program = t->mm->exe_file;
	__u64 forked_ns = im->start_ns;
	for (int i = 0; i < LENDERS; i++) {
		__u32 index;
		t = t->real_parent;
		if (!t->mm || t->mm->exe_file != program)
			return -1;
		t = t->group_leader;
		struct image of = { .start_ns = t->start_boottime,
				    .tgid = process_id(t),
				    .exec_id = (__u32)t->self_exec_id };
		const struct proc_entry *e = proc_find_at(&of, &index);
		if (e && (!before || e->since_ns < forked_ns))
			return (int)index;
		/* A server that only waits for its children would never be sampled itself */
		if (!e && !i && !is_hidden(of.tgid))
			ask_about(&of);
		forked_ns = of.start_ns;
	}
	return -1;
}

/*
 * Return the index in `procs` of the entry that serves the current thread, whose image is im: its
 * own, else that of an ancestor. -1: there is none.
 */
__noinline int proc_serving(const struct image *im)
{
	__u32 index;
	if (!im)
		return -1;
	return proc_find_at(im, &index) ? (int)index : proc_lender(im, 1);
}

#endif
