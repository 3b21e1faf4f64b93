/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Labels of the running thread: thread pointer -> slot -> record (include/ascribe/label_abi.h).
 *
 * Where a process keeps its slots is found by user space (ELF note, descriptor) and published in `procs`. A sample carries
 * only the set's id; what the id means is sent once per process and generation, read at that same instant, while the
 * thread is stopped and the record therefore stands still.
 */
#ifndef ASCRIBE_LABELS_BPF_H
#define ASCRIBE_LABELS_BPF_H

#include "common.bpf.h"
#include "ascribe/label_abi.h"

#define LABEL_RECORD_MIN (ASCRIBE_PREFIX_SIZE + ASCRIBE_HEADER_SIZE)

/* Open addressing by tgid, written by user space alone. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* cfg.proc_mask + 1 */
	__type(key, __u32);
	__type(value, struct proc_entry);
} procs SEC(".maps");

/* What has been sent, direct mapped: an entry that is overwritten only costs a second sending. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << SEEN_BITS);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

struct label_part {
	__u64 record; /* address of the prefix */
	__u64 key_table;
	__u32 size;
};

/*
 * Room to build a record for the ring in, and for the parts of a set. A record is too large for the stack; the parts
 * are not, but with them there on_event and read_labels exceed 512 bytes on Linux 6.1: it rounds each frame up to 32.
 */
struct scratch {
	struct wire_record head;
	__u8 payload[WIRE_PAYLOAD_MAX];
	struct label_part part[PROC_SLOTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

struct image {
	__u64 start_ns;
	__u32 tgid;
	__u32 exec_id;
};

static __always_inline __u64 thread_pointer(struct task_struct *t)
{
#if defined(__TARGET_ARCH_x86)
	return t->thread.fsbase;
#elif defined(__TARGET_ARCH_arm64)
	return t->thread.uw.tp_value;
#endif
}

/* Was this already sent? If not, *ret_cell is where to note it once it is. */
static __always_inline bool was_sent(__u64 what, __u64 **ret_cell)
{
	__u32 i = (__u32)(what >> (64 - SEEN_BITS));
	*ret_cell = bpf_map_lookup_elem(&seen, &i);
	return *ret_cell && **ret_cell == what;
}

static __always_inline __u64 image_hash(const struct image *im, __u64 salt)
{
	__u64 h = mix(salt, im->start_ns);
	h = mix(h, ((__u64)im->exec_id << 32) | im->tgid);
	return mix(h, generation) | 1;
}

static __always_inline void ask_about(const struct image *im)
{
	__u64 *cell, what = image_hash(im, 0x6e6577);
	if (was_sent(what, &cell) || !cell)
		return;
	struct wire_record r = { .kind = WIRE_NEW_PROCESS, .tgid = im->tgid, .exec_id = im->exec_id,
				 .start_ns = im->start_ns };
	if (!ring_send(&r, sizeof(r), true))
		*cell = what;
}

static __always_inline struct proc_entry *proc_find(const struct image *im)
{
	__u32 hash = im->tgid * 0x9e3779b1u;
	for (__u32 p = 0; p < PROC_PROBES; p++) {
		__u32 i = ((hash >> 8) + p) & cfg.proc_mask;
		struct proc_entry *e = bpf_map_lookup_elem(&procs, &i);
		if (!e || !e->tgid)
			return 0;
		if (e->tgid == im->tgid && e->start_ns == im->start_ns && e->exec_id == im->exec_id)
			return e;
	}
	return 0;
}

/*
 * Read n bytes of the process into the payload; send the record with n bytes of payload. Both check n in the register
 * that they pass on: a bound that was checked in another copy is often lost (32-bit moves, spills), on 6.1 above all.
 */
static __always_inline bool payload_read(struct scratch *s, __u64 n, __u64 addr)
{
	barrier_var(n);
	return n <= WIRE_PAYLOAD_MAX && !bpf_probe_read_user(&s->payload, n, (void *)addr);
}

static __always_inline bool payload_send(struct scratch *s, __u64 n)
{
	n += sizeof(s->head);
	barrier_var(n);
	return n <= sizeof(s->head) + WIRE_PAYLOAD_MAX && !ring_send(s, n, false);
}

/* Send what the key table at `addr` has grown to, when it has grown since the last time. False when it could not be sent. */
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
		return true; /* no keys yet: a set without attributes */
	__u64 what = image_hash(im, mix(addr, bytes));
	if (was_sent(what, &cell))
		return true;
	if (!cell)
		return false;
	if (!payload_read(s, bytes, addr + head_size))
		return false;
	s->head = (struct wire_record){ .kind = WIRE_KEYS, .size = bytes, .tgid = im->tgid, .exec_id = im->exec_id,
					.start_ns = im->start_ns, .key_table = addr, .generation = generation };
	if (!payload_send(s, bytes))
		return false;
	*cell = what;
	return true;
}

/* Send the meaning of set_id, the n parts in s, once. False when some of it could not be sent. */
static __always_inline bool define(const struct image *im, struct scratch *s, __u64 set_id, __u32 n)
{
	__u64 *cell, what = image_hash(im, set_id);
	if (was_sent(what, &cell))
		return true;
	if (!cell)
		return false;
	for (__u32 i = 0; i < PROC_SLOTS && i < n; i++) {
		__u32 size = s->part[i].size;
		if (size > ASCRIBE_PREFIX_SIZE + ASCRIBE_RECORD_MAX || !send_keys(im, s, s->part[i].key_table) ||
		    !payload_read(s, size, s->part[i].record))
			return false;
		s->head = (struct wire_record){ .kind = WIRE_DEFINITION, .size = size, .tgid = im->tgid,
						.exec_id = im->exec_id, .start_ns = im->start_ns, .set_id = set_id,
						.key_table = s->part[i].key_table, .generation = generation,
						.part = (__u16)i, .n_parts = (__u16)n };
		if (!payload_send(s, size))
			return false;
	}
	*cell = what;
	return true;
}

/*
 * The id of the label set attached to the current thread, 0 for none; *ret_flag is the counter that says why, or -1.
 * Several slots (modules) give one set: their ids are chained in the order of the slots.
 */
__noinline __u64 read_labels(const struct image *im, int *ret_flag)
{
	__u32 n = 0, zero = 0;
	__u64 id = 0;

	if (!im || !ret_flag)
		return 0;
	*ret_flag = COUNTER_unlabelled;
	struct proc_entry *e = proc_find(im);
	if (!e) {
		*ret_flag = COUNTER_new_process;
		ask_about(im);
		return 0;
	}
	__u64 n_slots = e->n_slots;
	if (!n_slots)
		return 0;
	__u64 tp = thread_pointer(bpf_get_current_task_btf());
	struct scratch *s = bpf_map_lookup_elem(&scratches, &zero);
	if (!s)
		return 0;
	for (__u32 i = 0; i < PROC_SLOTS && i < n_slots; i++) {
		struct {
			struct ascribe_record_prefix prefix;
			struct ascribe_record_header header;
		} r;
		__u64 at = 0;
		if (!tp || bpf_probe_read_user(&at, sizeof(at), (void *)(tp + e->slot[i].tp_offset))) {
			*ret_flag = COUNTER_label_fault;
			return 0;
		}
		if (!at)
			continue;
		/* Exactly what every record has: the struct is padded, and the byte behind may be on a page that is not there. */
		if (bpf_probe_read_user(&r, LABEL_RECORD_MIN, (void *)(at - ASCRIBE_PREFIX_SIZE))) {
			*ret_flag = COUNTER_label_fault;
			return 0;
		}
		if (r.prefix.magic != ASCRIBE_RECORD_MAGIC || r.prefix.abi != ASCRIBE_ABI_VERSION ||
		    r.prefix.total_size < LABEL_RECORD_MIN ||
		    r.prefix.total_size > ASCRIBE_PREFIX_SIZE + ASCRIBE_RECORD_MAX || !r.prefix.set_id ||
		    r.header.valid != 1) {
			*ret_flag = COUNTER_label_invalid;
			return 0;
		}
		id = id ? mix(id, r.prefix.set_id) | 1 : r.prefix.set_id;
		if (n < PROC_SLOTS) {
			s->part[n].record = at - ASCRIBE_PREFIX_SIZE;
			s->part[n].key_table = e->slot[i].key_table;
			s->part[n].size = r.prefix.total_size;
			n++;
		}
	}
	if (!id)
		return 0;
	*ret_flag = define(im, s, id, n) ? -1 : COUNTER_label_unknown;
	return id;
}

#endif
