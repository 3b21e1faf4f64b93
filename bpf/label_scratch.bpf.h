/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Per CPU: the record of the ring that is being made, with bytes of the process in its payload, and
 * the parts of a label set.
 */
#ifndef ASCRIBE_LABEL_SCRATCH_BPF_H
#define ASCRIBE_LABEL_SCRATCH_BPF_H

#include "common.bpf.h"
#include "latency.h"

struct label_part {
	__u64 record; /* address of its prefix */
	__u64 key_table;
	__u32 size;
};

/*
 * Scratch for a ring record and for the parts of a set. A record is too large for the stack. The
 * parts would fit, but then on_event and read_labels exceed 512 bytes on Linux 6.1, which rounds
 * each frame up to 32 bytes.
 */
struct scratch {
	struct wire_record head;
	__u8 payload[WIRE_PAYLOAD_MAX];
	struct label_part part[PROC_SLOTS];
	__u64 barrier; /* load_barrier */
	/* With --latency, of the set whose group is looked for: it, and the hash of the trace id */
	__u64 group, trace;
	__u64 text[LATENCY_TEXT_WORDS];
	__u64 lender;	 /* of the set that is read: wire_record.lender */
	__u32 n_own;	 /* parts of own slots of the last set */
	__u32 key_index; /* of a part's key table: 1 + that of the key; 0: it is not there */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

static __always_inline struct scratch *scratch(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&scratches, &zero);
}

struct image {
	__u64 start_ns;
	__u32 tgid;
	__u32 exec_id;
};

static __always_inline __u64 image_hash(const struct image *im, __u64 salt)
{
	__u64 h = mix(salt ^ cfg.secret, im->start_ns);
	h = mix(h, ((__u64)im->exec_id << 32) | im->tgid);
	return mix(h, generation) | 1;
}

/*
 * Read n bytes of the process into the payload; send the record with n bytes of payload, and wake
 * user space at once when `now`. Both check n in the register that they pass on: the verifier often
 * loses a bound that was checked in a copy (32-bit moves, spills), mostly on 6.1.
 */
static __always_inline bool payload_read(struct scratch *s, __u64 n, __u64 addr)
{
	barrier_var(n);
	return n <= WIRE_PAYLOAD_MAX && !bpf_probe_read_user(&s->payload, n, (void *)addr);
}

static __always_inline bool payload_send(struct scratch *s, __u64 n, bool now)
{
	n += sizeof(s->head);
	barrier_var(n);
	return n <= sizeof(s->head) + WIRE_PAYLOAD_MAX && !ring_send(s, n, now);
}

#endif
