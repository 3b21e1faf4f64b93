/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Labels published in other ways than ours (include/label_wire.h): one small reader for each, all of them appending to one
 * capture per CPU, which is hashed as a whole.
 *
 * Every address, length and count is another process's: each read may fail, each loop has a fixed end, and each failure sets
 * the bit of its counter. A reader that fails takes back what it has appended: half a set is none. The readers are global
 * functions with scalar arguments, and their state is in the capture, so that the verifier checks each of them once.
 */
#ifndef ASCRIBE_FOREIGN_BPF_H
#define ASCRIBE_FOREIGN_BPF_H

#include "common.bpf.h"

/* By the index of the process in `procs`. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* cfg.proc_mask + 1 */
	__type(key, __u32);
	__type(value, struct proc_labels);
} proc_labels SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LABEL_STEPS);
	__type(key, __u32);
	__type(value, struct label_step);
} label_steps SEC(".maps");

#define GO_BUCKET 272 /* 8 hashes, 8 keys, 8 values, pointer to the next one */
#define GO_BUCKETS 16 /* looked at */

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

static __always_inline void note(struct capture *c, __u32 counter)
{
	c->failed |= 1ull << ((counter - COUNTER_labels_cut) & 63);
}

static __always_inline int fault(struct capture *c)
{
	note(c, c->source.fault);
	return -1;
}

static __always_inline int invalid(struct capture *c)
{
	note(c, c->source.fault + 1u);
	return -1;
}

static __always_inline long read_at(void *to, __u32 n, __u64 addr)
{
	return bpf_probe_read_user(to, n, (void *)addr);
}

/* ---- appending ---- */

/* Room for an entry of any size, or NULL: the capture is full. */
static __always_inline struct label_entry *entry_at_end(struct capture *c)
{
	__u64 at = c->used;
	if (at > CAPTURE_MAX - 8) {
		note(c, COUNTER_labels_cut);
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
		note(c, COUNTER_labels_cut);
		return 0;
	}
	if (n_value > LABEL_TEXT_BYTES) {
		n_value = LABEL_TEXT_BYTES;
		cut = 1;
		note(c, COUNTER_labels_cut);
	}
	__u64 second = (n_key + 7) & 0x1f8;
	barrier_var(second);
	*e = (struct label_entry){ .source = (__u8)c->n_source, .what = ENTRY_PAIR, .cut = (__u8)cut,
				   .len = (__u16)n_key, .len2 = (__u16)n_value };
	if (append_text(c, e, 0, n_key, key)) {
		fault(c);
		return is_go(c) ? 0 : -1; /* the label is left out */
	}
	if (!n_value || !append_text(c, e, second, n_value, value))
		entry_done(c, second + n_value);
	else if (is_go(c))
		append_absent(c, e, second, value, n_value);
	else
		return fault(c);
	return 0;
}

/* ---- where a source begins ---- */

/* 0: this thread has no such block (yet). */
__noinline __u64 dtv_block(__u64 tp, __u32 module, __u32 musl)
{
	struct capture *c = capture();
	__u64 dtv = 0, n = 0, block = 0;
#if defined(__TARGET_ARCH_x86)
	__u64 at = tp + 8;
#else
	__u64 at = musl ? tp - 8 : tp;
#endif
	if (!c)
		return 0;
	/* glibc: how many there are stands before the first, 16 bytes each; musl: in it, 8 bytes each. */
	if (read_at(&dtv, 8, at) || !dtv || read_at(&n, 8, musl ? dtv : dtv - 16))
		goto unreadable;
	if (!module || module > n)
		return 0;
	if (read_at(&block, 8, dtv + (musl ? 8ull : 16ull) * module))
		goto unreadable;
	return block == ~0ull ? 0 : block;
unreadable:
	note(c, COUNTER_dtv_fault);
	return 0;
}

/*
 * While musl's dynamic linker works it has a thread pointer of its own, whose DTV is empty: what stands around it is no variable of
 * anybody.
 */
static __always_inline bool musl_has_blocks(struct capture *c)
{
	__u64 dtv = 0, n = 0;
#if defined(__TARGET_ARCH_x86)
	__u64 at = c->tp + 8;
#else
	__u64 at = c->tp - 8;
#endif
	if (!read_at(&dtv, 8, at) && dtv && !read_at(&n, 8, dtv))
		return n != 0;
	note(c, COUNTER_dtv_fault);
	return false;
}

/* Saved at the entry into the kernel, whether the sample hit user code or the kernel. */
static __always_inline __u64 go_register(void)
{
#if defined(__TARGET_ARCH_arm64)
	const struct pt_regs *r = (const void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	return r->user_regs.regs[28];
#else
	return 0;
#endif
}

/* 0: this thread has none. A program without libc on arm64 has no thread pointer, and needs none. */
static __always_inline __u64 source_start(struct capture *c)
{
	__u64 base = 0;
	if (c->source.start == LABEL_AT_GO_REGISTER)
		return go_register();
	if (!c->tp) /* the program is only being started */
		return 0;
	switch (c->source.start) {
	case LABEL_AT_TP_MUSL:
		if (!musl_has_blocks(c))
			return 0;
		base = c->tp;
		break;
	case LABEL_AT_TP:
		base = c->tp;
		break;
	case LABEL_AT_DTV:
	case LABEL_AT_DTV_MUSL:
		base = dtv_block(c->tp, c->source.module, c->source.start == LABEL_AT_DTV_MUSL);
		if (!base)
			return 0;
		break;
	}
	return base + (__u64)c->source.at;
}

/* ---- OpenTelemetry ---- */

#define OTEL_HEADER 28
#define OTEL_FIRST 64 /* read at once: the header and what most records have */
#define OTEL_MAX 640
#define OTEL_VALID 24

__noinline int append_otel(__u64 record)
{
	struct capture *c = capture();
	__u64 n;
	__u16 attrs;
	if (!c)
		return -1;
	if (!record)
		return 0;
	struct label_entry *e = entry_at_end(c);
	if (!e)
		return 0;
	__u8 *to = (__u8 *)(e + 1);
	/* The record may end where its memory ends. */
	n = OTEL_FIRST;
	if (read_at(to, OTEL_FIRST, record)) {
		n = OTEL_HEADER;
		if (read_at(to, OTEL_HEADER, record))
			return fault(c);
	}
	if (!to[OTEL_VALID])
		return 0; /* it is being changed */
	__builtin_memcpy(&attrs, to + 26, 2);
	__u64 size = OTEL_HEADER + (__u64)attrs;
	if (to[OTEL_VALID] != 1 || size > OTEL_MAX)
		return invalid(c);
	if (size > n) {
		__u64 more = size - n;
		__u64 last = size & 0x3f8;
		barrier_var(last);
		*(__u64 *)(to + last) = 0;
		/* The zeros may have hit what was read: up to 7 bytes before its end. */
		__u64 from = n & ~7ull;
		more = size - from;
		barrier_var(more);
		if (more > OTEL_MAX)
			return 0;
		if (n == OTEL_FIRST ? bpf_probe_read_user(to + OTEL_FIRST, more, (void *)(record + OTEL_FIRST)) :
				      bpf_probe_read_user(to + 24, more, (void *)(record + 24)))
			return fault(c);
	} else {
		__u64 last = size & 0x78, keep = size & 7;
		barrier_var(last);
		*(__u64 *)(to + last) &= (1ull << (8 * keep)) - 1;
	}
	*e = (struct label_entry){ .source = (__u8)c->n_source, .what = ENTRY_OTEL, .len = (__u16)size };
	entry_done(c, size);
	return 0;
}

static __always_inline int read_otel(struct capture *c)
{
	__u64 record = 0;
	return read_at(&record, 8, c->start) ? fault(c) : append_otel(record);
}

/* ---- Node: the same record behind V8's map of the current asynchronous context, draft nodejs_v1_dev ---- */

#define V8_TAG 1           /* of a pointer into V8's heap; a small integer is in the upper half of a word */
#define V8_MAP_TABLE 0x18  /* from a JSMap to its OrderedHashMap */
#define V8_TABLE_COUNTS 0x10 /* elements, deleted ones, buckets; then the buckets, then entries of key, value, next */
#define V8_TABLE_BUCKETS 0x28
#define V8_TABLE_ENTRY 24
#define NODE_TRIES 16

__noinline int read_node(void)
{
	struct capture *c = capture();
	__u64 frame = 0, key = 0, table = 0, buckets = 0, entry = 0, record = 0;
	if (!c)
		return -1;
	/* Where V8 keeps the current context, a handle of our key, its hash, where a record's pointer is, "undefined". */
	if (read_at(&c->area, 32, c->start))
		return fault(c);
	__u64 undefined = c->area.words[3], hash = (__u32)c->area.words[2], slot = c->area.bytes[20];
	if (!c->area.words[0])
		return 0;
	if (read_at(&frame, 8, c->area.words[0]) || read_at(&key, 8, c->area.words[1]))
		return fault(c);
	if (frame == undefined || !(frame & V8_TAG))
		return 0;
	if (read_at(&table, 8, frame - V8_TAG + V8_MAP_TABLE) ||
	    read_at(&buckets, 8, table - V8_TAG + V8_TABLE_COUNTS + 16))
		return fault(c);
	buckets >>= 32;
	if (!buckets || buckets & (buckets - 1) || buckets > 1 << 20)
		return invalid(c);
	if (read_at(&entry, 8, table - V8_TAG + V8_TABLE_BUCKETS + 8 * (hash & (buckets - 1))))
		return fault(c);
	__u64 entries = table - V8_TAG + V8_TABLE_BUCKETS + 8 * buckets;
	for (int i = 0; i < NODE_TRIES; i++) {
		__u64 n = entry >> 32; /* -1: there is no further one */
		if (n > 1 << 20)
			return 0;
		if (read_at(&c->area, V8_TABLE_ENTRY, entries + n * V8_TABLE_ENTRY))
			return fault(c);
		__u64 value = c->area.words[1];
		entry = c->area.words[2];
		if (c->area.words[0] != key)
			continue;
		if (value == undefined || !(value & V8_TAG))
			return 0;
		if (read_at(&record, 8, value - V8_TAG + slot))
			return fault(c);
		return append_otel(record);
	}
	return 0;
}

/* ---- custom-labels, and Go's slices: arrays of two strings ---- */

/* Where the texts of the n pairs in the area are, at most SPAN_MAX bytes; read at once if they lie so close. */
__noinline int span_pairs(__u32 n, __u32 swap)
{
	struct capture *c = capture();
	__u64 low = ~0ull, high = 0;
	if (!c)
		return -1;
	for (__u32 i = 0; i < LABEL_PAIRS && i < n; i++) {
		const __u64 *w = &c->area.words[(i & (LABEL_PAIRS - 1)) * 4];
#pragma unroll
		for (int k = 0; k < 4; k += 2) {
			__u64 at = w[swap ? k : k + 1], len = w[swap ? k + 1 : k];
			if (!at || len > LABEL_TEXT_BYTES)
				continue;
			if (at < low)
				low = at;
			if (at + len > high)
				high = at + len;
		}
	}
	if (high > low)
		load_span(c, low, high);
	return 0;
}

/* The n strings pairs in the area. `swap`: {pointer, length} (Go), else {length, pointer}. */
__noinline int append_pairs(__u32 n, __u32 swap)
{
	struct capture *c = capture();
	if (!c)
		return -1;
	for (__u32 i = 0; i < LABEL_PAIRS && i < n; i++) {
		const __u64 *w = &c->area.words[(i & (LABEL_PAIRS - 1)) * 4];
		__u64 key = swap ? w[0] : w[1], n_key = swap ? w[1] : w[0];
		__u64 value = swap ? w[2] : w[3], n_value = swap ? w[3] : w[2];
		if (!key)
			continue;
		if (n_key > LABEL_KEY_BYTES)
			n_key = LABEL_KEY_BYTES + 1;
		if (n_value > LABEL_TEXT_BYTES)
			n_value = LABEL_TEXT_BYTES + 1;
		if (append_pair(key, value, n_key << 32 | n_value))
			return -1;
	}
	return 0;
}

static __always_inline int read_pairs(struct capture *c, __u64 array, __u64 n, __u32 swap)
{
	if (n > LABEL_PAIRS) {
		note(c, COUNTER_labels_cut);
		n = LABEL_PAIRS;
	}
	__u64 size = n * 32;
	barrier_var(size);
	if (size > sizeof(c->area) || bpf_probe_read_user(&c->area, size, (void *)array))
		return fault(c);
	span_pairs((__u32)n, swap);
	return append_pairs((__u32)n, swap);
}

#define PAIRS_SANE (1ull << 20)

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
		return fault(c);
	if (!at)
		return 0;
	if (read_at(&set, sizeof(set), at))
		return fault(c);
	if (!set.n)
		return 0;
	if (!set.array || set.n > PAIRS_SANE)
		return invalid(c);
	return read_pairs(c, set.array, set.n, 0);
}

/* ---- Go ---- */

/* The labels' address of the goroutine that this thread runs; 0: none. */
static __always_inline int go_labels(struct capture *c, __u64 *ret)
{
	__u64 g = 0, m = 0, curg = 0;
	*ret = 0;
	if (c->source.start == LABEL_AT_GO_REGISTER)
		g = c->start;
	else if (read_at(&g, 8, c->start))
		return fault(c);
	if (!g)
		return 0;
	if (read_at(&m, 8, g + 48))
		return fault(c);
	if (!m)
		return 0;
	if (read_at(&curg, 8, m + (c->source.arg >> 16)))
		return fault(c);
	if (!curg)
		return 0;
	/* In C code the register has something else. A g is its m's g0 or the one that runs there. */
	if (c->source.start == LABEL_AT_GO_REGISTER && curg != g && (read_at(&m, 8, m) || m != g))
		return 0;
	return read_at(ret, 8, curg + (c->source.arg & 0xffff)) ? fault(c) : 0;
}

/* The entries of one bucket; its successor in its chain, 0 for none, 1 when it could not be read. */
__noinline __u64 go_bucket(__u64 at)
{
	struct capture *c = capture();
	if (!c)
		return 1;
	if (read_at(&c->area, GO_BUCKET, at)) {
		fault(c);
		return 1;
	}
	for (__u32 i = 0; i < 8; i++) {
		const __u64 *key = &c->area.words[1 + 2 * i], *value = &c->area.words[17 + 2 * i];
		__u64 n_key = key[1], n_value = value[1];
		if (c->area.bytes[i] < 5) /* empty, or moved */
			continue;
		if (n_key > LABEL_KEY_BYTES)
			n_key = LABEL_KEY_BYTES + 1;
		if (n_value > LABEL_TEXT_BYTES)
			n_value = LABEL_TEXT_BYTES + 1;
		if (append_pair(key[0], value[0], n_key << 32 | n_value))
			return 1;
	}
	return c->area.words[33];
}

__noinline int read_go_map(void)
{
	struct capture *c = capture();
	__u64 at, next, bucket = 0;
	if (!c)
		return -1;
	if (go_labels(c, &at))
		return -1;
	if (!at)
		return 0;
	if (read_at(&at, 8, at)) /* the label map is a pointer to a map, which is a pointer itself */
		return fault(c);
	if (!at)
		return 0;
	/* Count, u8 flags, u8 log2 of the buckets, ..., buckets, old buckets. */
	if (read_at(&c->area, 32, at))
		return fault(c);
	if (!c->area.words[0])
		return 0;
	__u64 buckets = c->area.words[2], log2 = c->area.bytes[9];
	if (log2 > 16 || c->area.words[0] > PAIRS_SANE || !buckets)
		return invalid(c);
	if (c->area.words[3]) /* it was growing: some are still in the old buckets */
		note(c, COUNTER_labels_cut);
	next = buckets;
	for (__u32 i = 0; i < GO_BUCKETS; i++) {
		next = go_bucket(next);
		if (next == 1)
			return -1;
		if (next)
			continue;
		if (++bucket >> (log2 & 31))
			return 0;
		next = buckets + bucket * GO_BUCKET;
	}
	note(c, COUNTER_labels_cut);
	return 0;
}

__noinline int read_go_slice(void)
{
	struct capture *c = capture();
	struct {
		__u64 array, n;
	} list;
	__u64 at;
	if (!c)
		return -1;
	if (go_labels(c, &at))
		return -1;
	if (!at)
		return 0;
	if (read_at(&list, sizeof(list), at))
		return fault(c);
	if (!list.n)
		return 0;
	if (!list.array || list.n > PAIRS_SANE)
		return invalid(c);
	return read_pairs(c, list.array, list.n, 1);
}

/* ---- label paths ---- */

static __always_inline int emit(struct capture *c, const struct label_step *s, __u64 addr, __u64 n)
{
	struct label_entry *e = entry_at_end(c);
	__u64 cut = 0;
	if (!e)
		return 1;
	if (n > s->len) {
		n = s->len;
		cut = 1;
		note(c, COUNTER_labels_cut);
	}
	*e = (struct label_entry){ .source = (__u8)c->n_source, .what = ENTRY_BYTES, .cut = (__u8)cut, .len = (__u16)n,
				   .len2 = s->field };
	if (n > LABEL_TEXT_BYTES)
		return 1;
	if (n && append_user(e, 0, n, addr)) {
		note(c, c->source.fault);
		return 1;
	}
	entry_done(c, n);
	return 0;
}

static __always_inline int emit_int(struct capture *c, const struct label_step *s)
{
	struct label_entry *e = entry_at_end(c);
	if (!e)
		return 1;
	*e = (struct label_entry){ .source = (__u8)c->n_source, .what = ENTRY_INT, .len = 8, .len2 = s->field };
	*(__u64 *)(e + 1) = c->acc;
	entry_done(c, 8);
	return 0;
}

/* Padded with zeros, so that equal text gives equal bytes. */
static __always_inline int emit_cstring(struct capture *c, const struct label_step *s)
{
	struct label_entry *e = entry_at_end(c);
	__u64 max = s->len;
	if (!e)
		return 1;
	if (max > LABEL_TEXT_BYTES)
		max = LABEL_TEXT_BYTES;
	max++; /* the NUL */
	barrier_var(max);
	if (max > LABEL_TEXT_BYTES + 1)
		return 1;
	__u8 *to = (__u8 *)(e + 1);
	long n = bpf_probe_read_user_str(to, max, (void *)(c->cur + (__u64)s->imm));
	if (n <= 0) {
		note(c, c->source.fault);
		return 1;
	}
	__u64 len = (__u64)n - 1, cut = len + 1 == max, last = len & 0x1f8, keep = len & 7;
	barrier_var(last);
	*(__u64 *)(to + last) &= (1ull << (8 * keep)) - 1;
	*e = (struct label_entry){ .source = (__u8)c->n_source, .what = ENTRY_BYTES, .cut = (__u8)cut, .len = (__u16)len,
				   .len2 = s->field };
	entry_done(c, len);
	return 0;
}

static __always_inline int step_number(struct capture *c, const struct label_step *s, __u64 at)
{
	__u64 v = 0;
	long bad;
	switch (s->len) {
	case 1:
		bad = read_at(&v, 1, at);
		if (s->flags & 1)
			v = (__u64)(__s64)(__s8)v;
		break;
	case 2:
		bad = read_at(&v, 2, at);
		if (s->flags & 1)
			v = (__u64)(__s64)(__s16)v;
		break;
	case 4:
		bad = read_at(&v, 4, at);
		if (s->flags & 1)
			v = (__u64)(__s64)(__s32)v;
		break;
	default:
		bad = read_at(&v, 8, at);
	}
	if (bad) {
		note(c, c->source.fault);
		return 1;
	}
	c->acc = v;
	return 0;
}

/* One step. 0: go on; 1: the field ends here; -1: the source is malformed. */
__noinline int path_step(__u32 i)
{
	struct capture *c = capture();
	const struct label_step *s = bpf_map_lookup_elem(&label_steps, &i);
	if (!c || !s)
		return -1;
	__u64 at = c->cur + (__u64)s->imm;
	switch (s->op) {
	case STEP_FIELD:
		c->cur = c->acc = 0;
		return 0;
	case STEP_TP:
		c->cur = c->tp + (__u64)s->imm;
		return 0;
	case STEP_BASE:
		c->cur = c->source.base + (__u64)s->imm;
		return 0;
	case STEP_START:
		c->cur = c->start + (__u64)s->imm;
		return 0;
	case STEP_DEREF:
		if (!read_at(&c->cur, 8, at))
			return !c->cur;
		note(c, c->source.fault);
		return 1;
	case STEP_ADD:
		c->cur = at;
		return 0;
	case STEP_SAVE:
		c->saved[s->len & (LABEL_SAVED - 1)] = c->cur;
		return 0;
	case STEP_LOAD:
		c->cur = c->saved[s->len & (LABEL_SAVED - 1)];
		return !c->cur;
	case STEP_NUMBER:
		return step_number(c, s, at);
	case STEP_EXPECT:
		if (s->flags & 2)
			return c->acc == (__u64)s->imm;
		if (c->acc == (__u64)s->imm)
			return 0;
		return s->flags & 1 && c->acc ? invalid(c) : 1; /* 0: nobody has written there yet */
	case STEP_EXPECT_TP:
		return c->acc != c->tp;
	case STEP_MAIN: {
		const struct task_struct *t = bpf_get_current_task_btf();
		return t->pid != t->tgid;
	}
	case STEP_AND:
		c->acc &= (__u64)s->imm;
		return 0;
	case STEP_SHIFT:
		c->acc >>= s->imm & 63;
		return 0;
	case STEP_INT:
		return emit_int(c, s);
	case STEP_CSTRING:
		return emit_cstring(c, s);
	case STEP_BYTES:
		return emit(c, s, at, s->len);
	case STEP_TEXT:
		return emit(c, s, at, c->acc);
	}
	return invalid(c);
}

__noinline int read_path(__u32 first, __u32 n)
{
	struct capture *c = capture();
	int skip = 0;
	if (!c)
		return -1;
	for (int i = 0; i < LABEL_SAVED; i++)
		c->saved[i] = 0;
	for (__u32 i = 0; i < LABEL_PATH_STEPS && i < n; i++) {
		__u32 at = first + i;
		if (skip > 0) {
			const struct label_step *s = bpf_map_lookup_elem(&label_steps, &at);
			if (!s)
				return -1;
			if (s->op != STEP_FIELD)
				continue;
		}
		skip = path_step(at);
		if (skip < 0)
			return -1;
	}
	return 0;
}

/* ---- all sources of a process ---- */

/* Of the capture's words; keyed, and never 0. */
__noinline __u64 hash_capture(void)
{
	struct capture *c = capture();
	if (!c)
		return 1;
	__u64 n = c->used / 8, hash = mix(cfg.secret, n);
	const __u64 *w = (const __u64 *)c->bytes;
	for (__u32 i = 0; i < (CAPTURE_MAX + CAPTURE_ENTRY) / 8 && i < n; i++)
		hash = mix(hash, w[i]);
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

/* Source i of the process at `index`. */
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

/* The foreign labels of the current thread are in the capture; their hash, 0 for none. */
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
	*ret_failed = c->failed;
	return c->used ? hash_capture() : 0;
}

#endif
