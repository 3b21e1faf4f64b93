/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Node: OpenTelemetry's record behind V8's map of the current asynchronous context, draft
 * nodejs_v1_dev.
 */
#ifndef ASCRIBE_NODE_BPF_H
#define ASCRIBE_NODE_BPF_H

#include "capture.bpf.h"
#include "otel.bpf.h"

/* Lowest bits of a pointer into V8's heap; small integers are in the upper half of a word */
#define V8_TAG 1
#define V8_MAP_TABLE 0x18 /* from a JSMap to its OrderedHashMap */
/* Elements, deleted ones, buckets; then the buckets, then entries of key, value, next */
#define V8_TABLE_COUNTS 0x10
#define V8_TABLE_BUCKETS 0x28
#define V8_TABLE_ENTRY 24
#define NODE_TRIES 16

__noinline int read_node(void)
{
	struct capture *c = capture();
	__u64 frame = 0, key = 0, table = 0, buckets = 0, entry = 0, record = 0;
	if (!c)
		return -1;
	/*
	 * Addresses of: V8's current context, a handle of our key, its hash, the offset of the
	 * record's pointer, "undefined".
	 */
	if (read_at(&c->area, 32, c->start))
		return capture_fault(c);
	__u64 undefined = c->area.words[3], hash = (__u32)c->area.words[2],
	      slot = c->area.bytes[20];
	if (!c->area.words[0])
		return 0;
	if (read_at(&frame, 8, c->area.words[0]) || read_at(&key, 8, c->area.words[1]))
		return capture_fault(c);
	if (frame == undefined || !(frame & V8_TAG))
		return 0;
	if (read_at(&table, 8, frame - V8_TAG + V8_MAP_TABLE) ||
	    read_at(&buckets, 8, table - V8_TAG + V8_TABLE_COUNTS + 16))
		return capture_fault(c);
	buckets >>= 32;
	if (!buckets || buckets & (buckets - 1) || buckets > 1 << 20)
		return capture_invalid(c);
	if (read_at(&entry, 8, table - V8_TAG + V8_TABLE_BUCKETS + 8 * (hash & (buckets - 1))))
		return capture_fault(c);
	__u64 entries = table - V8_TAG + V8_TABLE_BUCKETS + 8 * buckets;
	for (int i = 0; i < NODE_TRIES; i++) {
		__u64 n = entry >> 32; /* -1: the last one */
		if (n > 1 << 20)
			return 0;
		if (read_at(&c->area, V8_TABLE_ENTRY, entries + n * V8_TABLE_ENTRY))
			return capture_fault(c);
		__u64 value = c->area.words[1];
		entry = c->area.words[2];
		if (c->area.words[0] != key)
			continue;
		if (value == undefined || !(value & V8_TAG))
			return 0;
		if (read_at(&record, 8, value - V8_TAG + slot))
			return capture_fault(c);
		return append_otel(record);
	}
	return 0;
}

#endif
