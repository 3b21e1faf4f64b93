/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The group of a label set, for record --latency: the hash of its value of the key
 * (cfg.latency_key). It is found once, when the set's definition is sent, and kept as `seen` keeps
 * that. A set without the key has the group of its trace id; without one, its
 * own: then threads with the same labels are a group.
 */
#ifndef ASCRIBE_LATENCY_GROUP_BPF_H
#define ASCRIBE_LATENCY_GROUP_BPF_H

#include "capture.bpf.h"
#include "label_scratch.bpf.h"
#include "latency.h"
#include "ascribe/label_abi.h"

struct set_group {
	__u64 what; /* as in `seen`, whose index it has */
	/* Never 0. Of a key table: 1 where it has not the key, else 2 + its index */
	__u64 group;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* with --latency 1 << SEEN_BITS */
	__type(key, __u32);
	__type(value, struct set_group);
} set_groups SEC(".maps");

static __always_inline void set_group_put(__u64 what, __u64 group)
{
	__u32 i = (__u32)(what >> (64 - SEEN_BITS));
	struct set_group *e = bpf_map_lookup_elem(&set_groups, &i);
	if (!e)
		return;
	__sync_lock_test_and_set(&e->what, 0);
	e->group = group;
	__sync_lock_test_and_set(&e->what, what);
}

/* Return the group of a set, or what is known of a key table; 0: not known. */
static __always_inline __u64 set_group_get(__u64 what)
{
	__u32 i = (__u32)(what >> (64 - SEEN_BITS));
	const struct set_group *e = bpf_map_lookup_elem(&set_groups, &i);
	return e && e->what == what ? e->group : 0;
}

static __always_inline __u8 payload_byte(const struct scratch *s, __u64 at)
{
	at &= WIRE_PAYLOAD_MAX - 1;
	barrier_var(at);
	return s->payload[at];
}

/* Hash the text of `len` bytes at `at` of the payload, 255 at most. */
__noinline __u64 latency_text(__u32 at, __u32 len)
{
	struct scratch *s = scratch();
	__u64 from = at, n = len & LABEL_TEXT_BYTES, hash = LATENCY_HASH;
	if (!s || !cfg.latency)
		return 1;
	barrier_var(from);
	if (from > WIRE_PAYLOAD_MAX - LABEL_TEXT_BYTES)
		return 1;
	__u64 last = n / 8;
	barrier_var(last);
	if (last >= LATENCY_TEXT_WORDS)
		return 1;
	s->text[last] = 0;
	barrier_var(n);
	bpf_probe_read_kernel(s->text, n & LABEL_TEXT_BYTES, s->payload + from);
	for (__u32 i = 0; i < LATENCY_TEXT_WORDS && i * 8 < n; i++)
		hash = latency_hash_word(hash, s->text[i]);
	return hash | 1;
}

/*
 * Set s->key_index for the key table at `addr` of the process: look for the key in its text, unless
 * that was done.
 */
__noinline int latency_find_key(const struct image *im, __u64 addr)
{
	struct scratch *s = scratch();
	const __u32 head_size = sizeof(struct ascribe_key_table) - ASCRIBE_KEYS_TEXT_MAX;
	if (!s || !im || !cfg.latency)
		return 0;
	s->key_index = 0;
	if (!payload_read(s, head_size, addr))
		return 0;
	const struct ascribe_key_table *t = (void *)s->payload;
	__u32 bytes = t->bytes, at = 0;
	if (t->magic != ASCRIBE_KEYS_MAGIC || bytes > ASCRIBE_KEYS_TEXT_MAX)
		return 0;
	__u64 what = image_hash(im, mix(addr, bytes)), known = set_group_get(what);
	if (known) {
		s->key_index = (__u32)known - 1;
		return 0;
	}
	if (!payload_read(s, bytes, addr + head_size))
		return 0;
	for (__u32 i = 0; i < ASCRIBE_KEYS_MAX && at + 2 <= bytes; i++) {
		__u32 len = payload_byte(s, at + 1);
		if (latency_text(at + 2, len) == cfg.latency_key) {
			s->key_index = i + 1;
			break;
		}
		at += 2 + len;
	}
	set_group_put(what, s->key_index + 1);
	return 0;
}

/*
 * Return the hash of the value of key `index` among the attributes in [at, end) of the payload; 0:
 * there is none.
 */
__noinline __u64 latency_attribute(__u32 at, __u32 end, __u32 index)
{
	const struct scratch *s = scratch();
	__u64 found = 0;
	if (!s || !cfg.latency)
		return 0;
	for (__u32 i = 0; i < ASCRIBE_KEYS_MAX && at + 2 <= end; i++) {
		__u32 len = payload_byte(s, at + 1);
		if (payload_byte(s, at) == index)
			found = latency_text(at + 2, len);
		at += 2 + len;
	}
	return found;
}

/* Return the hash of the trace id at `at` of the payload; 0: there is none. */
static __always_inline __u64 latency_trace(const struct scratch *s, __u32 at)
{
	__u32 any = 0;
	for (__u32 i = 0; i < 16; i++)
		any |= payload_byte(s, at + i);
	return any ? latency_text(at, 16) : 0;
}

/* A record of the label ABI or of OpenTelemetry is in the payload; its header is at `header`. */
static __always_inline void latency_record(struct scratch *s, __u32 header, __u32 end,
					   __u32 key_index)
{
	if (key_index && !s->group)
		s->group = latency_attribute(header + ASCRIBE_HEADER_SIZE, end, key_index - 1);
	if (!s->trace)
		s->trace = latency_trace(s, header);
}

/* Look at part i of the process's own slots; its key table's index is in the scratch. */
__noinline int latency_own(__u32 i)
{
	struct scratch *s = scratch();
	__u64 at = i;
	barrier_var(at);
	if (!s || !cfg.latency || at >= PROC_SLOTS)
		return 0;
	__u32 size = s->part[at].size;
	if (size <= ASCRIBE_PREFIX_SIZE + ASCRIBE_RECORD_MAX &&
	    payload_read(s, size, s->part[at].record))
		latency_record(s, ASCRIBE_PREFIX_SIZE, size, s->key_index);
	return 0;
}

/* Look at the entry of the capture at c->cur, and go to the next one. 0: that was the last. */
__noinline int latency_entry(void)
{
	struct capture *c = capture();
	struct scratch *s = scratch();
	if (!c || !s || !cfg.latency)
		return 0;
	__u64 at = c->cur;
	barrier_var(at);
	if (at >= c->used || at > CAPTURE_MAX - 8)
		return 0;
	if (bpf_probe_read_kernel(s->payload, CAPTURE_ENTRY, c->bytes + at))
		return 0;
	const struct label_entry *e = (void *)s->payload;
	const __u32 first = sizeof(*e), len = e->len, second = first + ((len + 7u) & ~7u),
		    len2 = e->len2;
	const bool pair = e->what == ENTRY_PAIR;
	c->cur = at + second + (pair || e->what == ENTRY_ABSENT ? (len2 + 7u) & ~7u : 0);
	if (e->what == ENTRY_OTEL)
		latency_record(s, first, first + len, e->is_key);
	if (s->group)
		return 1;
	if (pair && latency_text(first, len) == cfg.latency_key)
		s->group = latency_text(second, len2);
	else if ((e->what == ENTRY_INT || e->what == ENTRY_BYTES) && e->is_key)
		s->group = latency_text(first, len);
	return 1;
}

/*
 * A set was defined, whose parts are in the scratch and the capture: find its group and keep it.
 * The thread is stopped, so nothing has changed. Called beside define(), not by it: its stack is
 * deep already.
 */
__noinline int latency_define(const struct image *im, __u64 set_id, __u32 foreign)
{
	struct scratch *s = scratch();
	struct capture *c = capture();
	if (!s || !c || !im || !cfg.latency)
		return 0;
	s->group = s->trace = 0;
	for (__u32 i = 0; i < PROC_SLOTS && i < s->n_own; i++) {
		latency_find_key(im, s->part[i].key_table);
		latency_own(i);
	}
	c->cur = 0;
	for (__u32 i = 0; foreign && i < LABEL_SOURCES * LABEL_PAIRS; i++)
		if (!latency_entry())
			break;
	__u64 what = image_hash(im, set_id);
	set_group_put(what, s->group ? s->group : s->trace ? s->trace : what);
	return 0;
}

#endif
