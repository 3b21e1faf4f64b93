/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The capture: what one sample read of labels that are published in other ways than ours, one for each CPU. Readers
 * append entries (include/label_wire.h) to it; it is hashed, and sent to user space, as a whole.
 *
 * Every address, length and count is another process's: each read may fail, and each failure sets the bit of its
 * counter. An entry counts once entry_done was called for it.
 */
#ifndef ASCRIBE_CAPTURE_BPF_H
#define ASCRIBE_CAPTURE_BPF_H

#include "common.bpf.h"

#define SPAN_MAX 2048 /* memory read at once when a source's texts lie close together, as those of one allocator do */

/* What most samples touch stands together: its memory is in small pages, and their translations are never warm. */
struct capture {
	union {
		__u64 words[64];
		__u8 bytes[512];
	} area;
	__u8 span[SPAN_MAX + 264];
	__u64 span_at, span_len; /* what of the process stands in span */
	__u64 used;
	__u64 absent; /* an entry of it is ENTRY_ABSENT */
	__u64 failed; /* bits by counter, from COUNTER_labels_cut on */
	__u64 tp;
	__u64 start; /* where the source in work begins */
	__u64 cur, acc;
	struct label_source source;
	__u64 n_source;
	__u64 saved[LABEL_SAVED];
	struct wire_record head; /* sent with the bytes used */
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

/* Set the bit of a counter, one of those from COUNTER_labels_cut on: the sample is flagged. */
static __always_inline void capture_flag(struct capture *c, __u32 counter)
{
	c->failed |= 1ull << ((counter - COUNTER_labels_cut) & 63);
}

/* The source in work cannot be read, or is not what it should be. Always -1: its reader ends. */
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

/* Room for an entry of any size, or NULL: the capture is full. */
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

/* n bytes (< 512) of the process to `at` (< 512) behind an entry's head, padded with zeros. */
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

/* n (< 256) bytes at `from` of the span to `to` of the capture, padded with zeros. A read of its own costs several times that. */
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

/* As append_user, from the span when it is there. */
static __always_inline long append_text(struct capture *c, struct label_entry *e, __u64 at, __u64 n, __u64 addr)
{
	__u64 from = addr - c->span_at;
	if (from >= c->span_len || n > c->span_len - from || n > 255)
		return append_user(e, at, n, addr);
	return copy_span((__u32)((c->used & (CAPTURE_MAX - 1)) + sizeof(*e) + at), (__u32)from, (__u32)n);
}

/* Read the texts from `low` to `high` of the process at once. Without effect when they lie too far apart. */
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
	c->used = (c->used & (CAPTURE_MAX - 1)) + sizeof(struct label_entry) + ((bytes + 7) & ~7ull);
}

/* Go's strings never change, so one by one they are worth having; others may be in the middle of a change. */
static __always_inline bool is_go(const struct capture *c)
{
	return c->source.kind == LABEL_GO_MAP || c->source.kind == LABEL_GO_SLICE;
}

/* The value of an entry, `second` bytes behind its head, could not be read: say where it is. */
static __always_inline void append_absent(struct capture *c, struct label_entry *e, __u64 second, __u64 value, __u64 n)
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

/* A key and a value: lengths are key << 32 | value. */
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
	*e = (struct label_entry){ .source = (__u8)c->n_source, .what = ENTRY_PAIR, .cut = (__u8)cut,
				   .len = (__u16)n_key, .len2 = (__u16)n_value };
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
