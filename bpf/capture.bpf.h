/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The capture: the labels in foreign formats that one sample read; one per CPU. Readers append
 * entries (include/label_wire.h). The capture is hashed and sent to user space as a whole.
 *
 * The process controls every address, length and count: each read may fail, and each failure sets
 * the bit of its counter. An entry is part of the capture after entry_done.
 */
#ifndef ASCRIBE_CAPTURE_BPF_H
#define ASCRIBE_CAPTURE_BPF_H

#include "common.bpf.h"

/* bytes read at once where a source's texts are close together, as from one allocator */
#define SPAN_MAX 2048

/*
 * Keep the fields that most samples use together: they are in small pages whose TLB entries are
 * cold.
 */
struct capture {
	union {
		__u64 words[64];
		__u8 bytes[512];
	} area;
	__u8 span[SPAN_MAX + 264];
	__u64 span_at, span_len;   /* address and length of the process's memory in `span` */
	__u64 span_low, span_high; /* of the texts that are looked for */
	__u64 used;
	__u64 absent; /* an entry is ENTRY_ABSENT */
	__u64 failed; /* bits by counter, from COUNTER_labels_cut on */
	__u64 tp;
	__u64 start; /* begin of the current source */
	__u64 cur, acc;
	struct label_source source;
	__u64 n_source;
	/* Of the hit that is being sampled; how: ENTRY_* and the number << 8, or ARGUMENT_* */
	__u64 argument[PROBE_LABELS];
	__u32 argument_how[PROBE_LABELS];
	__u64 saved[LABEL_SAVED];
	struct wire_record head; /* head of the record that is sent */
	__u8 bytes[CAPTURE_MAX + CAPTURE_ENTRY];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct capture);
} captures SEC(".maps");

static __always_inline struct capture *capture(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&captures, &zero);
}

/* Flag the sample: set the bit of a counter, COUNTER_labels_cut or a later one. */
static __always_inline void capture_flag(struct capture *c, __u32 counter)
{
	c->failed |= 1ull << ((counter - COUNTER_labels_cut) & 63);
}

/* The current source is unreadable or malformed. Returns -1, so that its reader ends. */
static __always_inline int capture_fault(struct capture *c)
{
	capture_flag(c, c->source.fault);
	return -1;
}

static __always_inline int capture_invalid(struct capture *c)
{
	capture_flag(c, c->source.fault + 1u);
	return -1;
}

static __always_inline long read_at(void *to, __u32 n, __u64 addr)
{
	return bpf_probe_read_user(to, n, (void *)addr);
}

/* Return room for an entry of any size. NULL: the capture is full. */
static __always_inline struct label_entry *entry_at_end(struct capture *c)
{
	__u64 at = c->used;
	if (at > CAPTURE_MAX - 8) {
		capture_flag(c, COUNTER_labels_cut);
		return 0;
	}
	at &= CAPTURE_MAX - 1;
	barrier_var(at);
	return (void *)(c->bytes + at);
}

/* Read n bytes (< 512) of the process to `at` (< 512) behind an entry's head, padded with zeros. */
static __always_inline long append_user(struct label_entry *e, __u64 at, __u64 n, __u64 addr)
{
	__u8 *to = (__u8 *)(e + 1) + at;
	__u64 last = n & 0x1f8;
	barrier_var(last);
	*(__u64 *)(to + last) = 0;
	n &= 0x1ff;
	barrier_var(n);
	return bpf_probe_read_user(to, n, (void *)addr);
}

/*
 * Copy n (< 256) bytes from the span to the capture, padded with zeros. Reading them from the
 * process costs several times more.
 */
__noinline int copy_span(__u32 to, __u32 from, __u32 n)
{
	struct capture *c = capture();
	__u64 t = to, f = from;
	if (!c)
		return -1;
	barrier_var(t);
	if (t > CAPTURE_MAX + 512)
		return -1;
	f &= SPAN_MAX - 1;
	barrier_var(f);
	for (__u32 i = 0; i < 256 && i < n; i += 8)
		*(__u64 *)(c->bytes + t + i) = *(const __u64 *)(c->span + f + i);
	__u64 last = n & 0xf8;
	barrier_var(last);
	if (n & 7)
		*(__u64 *)(c->bytes + t + last) &= (1ull << (8 * (n & 7))) - 1;
	return 0;
}

/* Like append_user, but from the span where it has the bytes. */
static __always_inline long append_text(struct capture *c, struct label_entry *e, __u64 at, __u64 n,
					__u64 addr)
{
	__u64 from = addr - c->span_at;
	if (from >= c->span_len || n > c->span_len - from || n > 255)
		return append_user(e, at, n, addr);
	return copy_span((__u32)((c->used & (CAPTURE_MAX - 1)) + sizeof(*e) + at), (__u32)from,
			 (__u32)n);
}

/* Read the texts from `low` to `high` of the process at once, if they are close enough. */
static __always_inline void load_span(struct capture *c, __u64 low, __u64 high)
{
	__u64 n = high - low;
	c->span_at = low;
	c->span_len = 0;
	barrier_var(n);
	if (n <= SPAN_MAX && !bpf_probe_read_user(c->span, n, (void *)low))
		c->span_len = n;
}

static __always_inline void entry_done(struct capture *c, __u64 bytes)
{
	c->used =
		(c->used & (CAPTURE_MAX - 1)) + sizeof(struct label_entry) + ((bytes + 7) & ~7ull);
}

/* Go's strings never change: each one is valid by itself. Others may change while they are read. */
static __always_inline bool is_go(const struct capture *c)
{
	return c->source.kind == LABEL_GO_MAP || c->source.kind == LABEL_GO_SLICE;
}

/* The value of an entry, `second` bytes behind its head, was unreadable: store its address. */
static __always_inline void append_absent(struct capture *c, struct label_entry *e, __u64 second,
					  __u64 value, __u64 n)
{
	struct label_absent *a = (void *)((__u8 *)(e + 1) + second);
	a->at = value;
	a->len = n;
	a->second = bpf_ktime_get_boot_ns() >> 30;
	e->what = ENTRY_ABSENT;
	e->len2 = sizeof(*a);
	c->absent = 1;
	entry_done(c, second + sizeof(*a));
}

/* Append a key and a value. lengths: key << 32 | value. */
__noinline int append_pair(__u64 key, __u64 value, __u64 lengths)
{
	struct capture *c = capture();
	__u64 n_key = lengths >> 32, n_value = (__u32)lengths, cut = 0;
	if (!c)
		return -1;
	struct label_entry *e = entry_at_end(c);
	if (!e || !n_key)
		return 0;
	if (n_key > LABEL_KEY_BYTES) {
		capture_flag(c, COUNTER_labels_cut);
		return 0;
	}
	if (n_value > LABEL_TEXT_BYTES) {
		n_value = LABEL_TEXT_BYTES;
		cut = 1;
		capture_flag(c, COUNTER_labels_cut);
	}
	__u64 second = (n_key + 7) & 0x1f8;
	barrier_var(second);
	*e = (struct label_entry){ .source = (__u8)c->n_source,
				   .what = ENTRY_PAIR,
				   .cut = (__u8)cut,
				   .len = (__u16)n_key,
				   .len2 = (__u16)n_value };
	if (append_text(c, e, 0, n_key, key)) {
		capture_fault(c);
		return is_go(c) ? 0 : -1; /* the label is left out */
	}
	if (!n_value || !append_text(c, e, second, n_value, value))
		entry_done(c, second + n_value);
	else if (is_go(c))
		append_absent(c, e, second, value, n_value);
	else
		return capture_fault(c);
	return 0;
}

#endif
