/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Labels of the running thread: thread pointer -> slot -> record (include/ascribe/label_abi.h).
 *
 * User space finds the slots of a process (ELF note, descriptor) and publishes them in `procs`. A
 * sample carries only the id of its label set. The set itself is sent once per process and
 * generation. It is read in the same sample: the thread is stopped, so its record cannot change.
 */
#ifndef ASCRIBE_LABELS_BPF_H
#define ASCRIBE_LABELS_BPF_H

#include "common.bpf.h"
#include "foreign.bpf.h"
#include "ids.bpf.h"
#include "latency_group.bpf.h"
#include "procs.bpf.h"
#include "ascribe/label_abi.h"

#define LABEL_RECORD_MIN (ASCRIBE_PREFIX_SIZE + ASCRIBE_HEADER_SIZE)

static __always_inline __u64 thread_pointer(struct task_struct *t)
{
#if defined(__TARGET_ARCH_x86)
	return t->thread.fsbase;
#elif defined(__TARGET_ARCH_arm64)
	return t->thread.uw.tp_value;
#endif
}

/*
 * Let no load below overtake one above, on arm64 too. BPF has no such instruction; an atomic
 * exchange is a full barrier in every JIT.
 */
static __always_inline void load_barrier(struct scratch *s)
{
	__sync_lock_test_and_set(&s->barrier, 1);
}

/* Send the key table at `addr` if it has grown since it was sent. False when sending failed. */
static __always_inline bool send_keys(const struct image *im, struct scratch *s, __u64 addr)
{
	struct ascribe_key_table head;
	const __u32 head_size = sizeof(head) - sizeof(head.text);
	__u64 *cell;

	if (!payload_read(s, head_size, addr))
		return false;
	struct ascribe_key_table *t = (void *)s->payload;
	__u32 bytes = t->bytes;
	if (t->magic != ASCRIBE_KEYS_MAGIC || bytes > ASCRIBE_KEYS_TEXT_MAX)
		return false;
	if (!bytes)
		return true; /* no keys: a set without attributes */
	__u64 what = image_hash(im, mix(addr, bytes));
	if (was_sent(what, &cell))
		return true;
	if (!cell)
		return false;
	/* Another thread may add a key: it writes the text before the `bytes` that include it */
	load_barrier(s);
	if (!payload_read(s, bytes, addr + head_size))
		return false;
	s->head = (struct wire_record){ .kind = WIRE_KEYS,
					.size = bytes,
					.tgid = im->tgid,
					.exec_id = im->exec_id,
					.start_ns = im->start_ns,
					.key_table = addr,
					.generation = generation,
					.lender = s->lender };
	if (!payload_send(s, bytes, false))
		return false;
	*cell = what;
	return true;
}

/*
 * Send the capture as the last of n_parts. User space reads the rest from the process, while the
 * process lives.
 */
__noinline int send_capture(const struct image *im, __u64 set_id, __u32 n_parts)
{
	struct capture *c = capture();
	const struct scratch *s = scratch();
	if (!c || !im || !s)
		return -1;
	__u64 n = c->used;
	c->head = (struct wire_record){ .kind = WIRE_FOREIGN,
					.size = (__u32)n,
					.tgid = im->tgid,
					.exec_id = im->exec_id,
					.start_ns = im->start_ns,
					.set_id = set_id,
					.generation = generation,
					.part = (__u16)(n_parts - 1),
					.n_parts = (__u16)n_parts,
					.lender = s->lender };
	n += sizeof(c->head);
	barrier_var(n);
	return n <= sizeof(c->head) + sizeof(c->bytes) && !ring_send(&c->head, n, c->absent) ? 0
											     : -1;
}

/*
 * May the process at `index` define one more set? New sets are limited per process and second: a
 * process that creates sets without end harms only itself. Inexact when two CPUs begin a second at
 * the same time.
 */
static __always_inline bool within_limits(__u32 index, __u32 bytes)
{
	struct proc_labels *p = bpf_map_lookup_elem(&proc_labels, &index);
	__u64 second = bpf_ktime_get_boot_ns() >> 30;
	if (!p)
		return true;
	if (p->second != second) {
		p->second = second;
		p->sent_sets = 0;
		p->sent_bytes = 0;
	}
	if (p->other || p->sent_sets >= LABEL_SETS_A_SECOND ||
	    p->sent_bytes >= LABEL_BYTES_A_SECOND) {
		p->limited = 1;
		return false;
	}
	__sync_fetch_and_add(&p->sent_sets, 1);
	__sync_fetch_and_add(&p->sent_bytes, bytes);
	return true;
}

/* Counter and flags for the labels of a sample. */
struct label_flags {
	int flag; /* the counter, -1 for none */
	__u32 reserved;
	__u64 failed; /* bits of counters, from COUNTER_labels_cut on */
};

/*
 * The head of a record. Read LABEL_RECORD_MIN bytes: the padding behind them may be on a page that
 * is not mapped.
 */
struct record_head {
	struct ascribe_record_prefix prefix;
	struct ascribe_record_header header;
};

/*
 * Read the head of the record at slot i of e. Return 1, 0 for an empty slot, or minus the counter
 * of the error.
 */
static __always_inline int own_record(const struct proc_entry *e, __u32 i, __u64 tp,
				      struct record_head *r, __u64 *ret_at)
{
	__u64 at = 0;
	if (!tp || bpf_probe_read_user(&at, sizeof(at), (void *)(tp + e->slot[i].tp_offset)))
		return -COUNTER_label_fault;
	if (!at)
		return 0;
	*ret_at = at - ASCRIBE_PREFIX_SIZE;
	if (bpf_probe_read_user(r, LABEL_RECORD_MIN, (void *)(at - ASCRIBE_PREFIX_SIZE)))
		return -COUNTER_label_fault;
	const struct ascribe_record_prefix *p = &r->prefix;
	if (p->magic != ASCRIBE_RECORD_MAGIC || p->abi != ASCRIBE_ABI_VERSION ||
	    p->total_size < LABEL_RECORD_MIN ||
	    p->total_size > ASCRIBE_PREFIX_SIZE + ASCRIBE_RECORD_MAX || !p->set_id ||
	    r->header.valid != 1)
		return -COUNTER_label_invalid;
	return 1;
}

/*
 * Return the chained ids of the own slots of the process at `index`. 0 when all slots are empty, or
 * when a slot or record cannot be read; the flag distinguishes these.
 */
__noinline __u64 own_labels(__u32 index, __u64 tp, struct label_flags *ret)
{
	const struct proc_entry *e = bpf_map_lookup_elem(&procs, &index);
	struct record_head r;
	__u64 id = 0, at;
	if (!e || !ret)
		return 0;
	__u64 n = e->n_slots;
	for (__u32 i = 0; i < PROC_SLOTS && i < n; i++) {
		int got = own_record(e, i, tp, &r, &at);
		if (got < 0) {
			ret->flag = -got;
			return 0;
		}
		if (got)
			id = id ? mix(id, r.prefix.set_id) | 1 : r.prefix.set_id;
	}
	return id;
}

/*
 * Read the slots again for a set that was not sent: store its parts in the scratch. Return their
 * number; -1: the set changed.
 */
__noinline int own_parts(__u32 index, __u64 tp, __u64 expected)
{
	const struct proc_entry *e = bpf_map_lookup_elem(&procs, &index);
	struct scratch *s = scratch();
	struct record_head r;
	__u64 id = 0, at;
	__u32 n = 0;
	if (!e || !s)
		return -1;
	__u64 n_slots = e->n_slots;
	for (__u32 i = 0; i < PROC_SLOTS && i < n_slots; i++) {
		int got = own_record(e, i, tp, &r, &at);
		if (got < 0)
			return -1;
		if (!got)
			continue;
		id = id ? mix(id, r.prefix.set_id) | 1 : r.prefix.set_id;
		if (n < PROC_SLOTS) {
			s->part[n].record = at;
			s->part[n].key_table = e->slot[i].key_table;
			s->part[n].size = r.prefix.total_size;
			n++;
		}
	}
	return id == expected ? (int)n : -1;
}

/* Send the n parts in the scratch, of the n_parts of the set. */
__noinline int send_parts(const struct image *im, __u64 set_id, __u32 n, __u32 n_parts)
{
	struct scratch *s = scratch();
	if (!im || !s)
		return -1;
	for (__u32 i = 0; i < PROC_SLOTS && i < n; i++) {
		__u32 size = s->part[i].size;
		if (size > ASCRIBE_PREFIX_SIZE + ASCRIBE_RECORD_MAX ||
		    !send_keys(im, s, s->part[i].key_table) ||
		    !payload_read(s, size, s->part[i].record))
			return -1;
		s->head = (struct wire_record){ .kind = WIRE_DEFINITION,
						.size = size,
						.tgid = im->tgid,
						.exec_id = im->exec_id,
						.start_ns = im->start_ns,
						.set_id = set_id,
						.key_table = s->part[i].key_table,
						.generation = generation,
						.part = (__u16)i,
						.n_parts = (__u16)n_parts,
						.lender = s->lender };
		if (!payload_send(s, size, false))
			return -1;
	}
	return 0;
}

/*
 * Send the set with set_id, once: the records of the own slots if own_id is theirs, then the
 * capture if it is not empty. Return -1, or the counter of what could not be sent.
 */
__noinline int define(const struct image *im, __u64 set_id, __u64 own_id, __u32 index, __u64 tp)
{
	struct scratch *s = scratch();
	bool foreign = set_id != own_id;
	if (!im || !s)
		return COUNTER_label_unknown;
	__u64 *cell, what = image_hash(im, set_id);
	if (was_sent(what, &cell))
		return -1;
	int n = own_id ? own_parts(index, tp, own_id) : 0;
	s->n_own = n > 0 ? (__u32)n : 0;
	if (!cell || n < 0)
		return COUNTER_label_unknown;
	__u32 n_parts = (__u32)n + foreign, bytes = foreign ? CAPTURE_MAX / 8 : 0;
	for (__u32 i = 0; i < PROC_SLOTS && i < (__u32)n; i++)
		bytes += s->part[i].size;
	if (!within_limits(index, bytes))
		return -1; /* user space names an unknown set (other) */
	if (send_parts(im, set_id, (__u32)n, n_parts) ||
	    (foreign && send_capture(im, set_id, n_parts)))
		return COUNTER_label_unknown;
	*cell = what;
	return -1;
}

/*
 * Return the id of the label set of the current thread, 0 for none. All sources give one set: the
 * ids of the process's own slots are chained in order, then the hash of the foreign labels.
 */
__noinline __u64 read_labels(const struct image *im, struct label_flags *ret)
{
	__u32 index = 0;
	__u64 id = 0, own = 0, foreign = 0, *cell;

	if (!im || !ret)
		return 0;
	ret->flag = COUNTER_unlabelled;
	ret->failed = 0;
	index = (__u32)proc_serving(im);
	const struct proc_entry *e = bpf_map_lookup_elem(&procs, &index);
	const __u64 of = e ? e->tgid : 0,
		    lender = of && of != im->tgid ? WIRE_LENDER(e->start_ns, of) : 0;
	if (!e || lender) {
		if (!is_hidden(im->tgid))
			ret->flag = COUNTER_new_process;
		ask_about_current(im); /* of a hidden process, for the path of its cgroup */
	}
	if (!e) {
		if (!cfg.any_argument && !cfg.any_call)
			return 0;
		index = cfg.proc_mask + 1; /* these need nothing of the process */
	}
	struct task_struct *t = bpf_get_current_task_btf();
	struct scratch *s = scratch();
	if (!t->mm || !s) /* exiting: without memory */
		return 0;
	s->lender = lender;
	__u64 tp = thread_pointer(t);
	const __u32 n_sources = e ? e->n_sources : 0;
	if (e && e->n_slots)
		id = own = own_labels(index, tp, ret);
	if (n_sources || cfg.any_argument || cfg.any_call) {
		foreign = capture_foreign(index, n_sources, tp, &ret->failed);
		/* The lender's sources have other numbers than the process's own may get */
		if (foreign && lender)
			foreign = mix(foreign, lender) | 1;
		if (foreign)
			id = id ? mix(id, foreign) | 1 : foreign;
	}
	if (e && e->labels_late)
		ret->failed |= 1ull << (COUNTER_labels_late - COUNTER_labels_cut);
	if (!id)
		return 0;
	int defined = -1;
	if (!was_sent(image_hash(im, id), &cell)) {
		defined = define(im, id, own, index, tp);
		/* A set that was not sent must not take the place of one that was */
		if (cfg.latency && was_sent(image_hash(im, id), &cell))
			latency_define(im, id, id != own);
	}
	if (ret->flag == COUNTER_unlabelled || (lender && ret->flag == COUNTER_new_process))
		ret->flag = defined;
	return id;
}

#endif
