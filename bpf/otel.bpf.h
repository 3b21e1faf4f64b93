/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Copy the record of OpenTelemetry's thread context into the capture. */
#ifndef ASCRIBE_OTEL_BPF_H
#define ASCRIBE_OTEL_BPF_H

#include "capture.bpf.h"

#define OTEL_HEADER 28
#define OTEL_FIRST 64 /* bytes read first: the header and most records' attributes */
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
	/*
	 * The record may end at the end of a mapping: then read its header first, and the rest by
	 * its size.
	 */
	n = OTEL_FIRST;
	if (read_at(to, OTEL_FIRST, record)) {
		n = OTEL_HEADER;
		if (read_at(to, OTEL_HEADER, record))
			return capture_fault(c);
	}
	if (!to[OTEL_VALID])
		return 0; /* the process is changing it */
	__builtin_memcpy(&attrs, to + 26, 2);
	__u64 size = OTEL_HEADER + (__u64)attrs;
	if (to[OTEL_VALID] != 1 || size > OTEL_MAX)
		return capture_invalid(c);
	if (size > n) {
		__u64 more = size - n;
		barrier_var(more);
		if (more > OTEL_MAX)
			return 0;
		if (n == OTEL_FIRST ? bpf_probe_read_user(to + OTEL_FIRST, more,
							  (void *)(record + OTEL_FIRST))
				    : bpf_probe_read_user(to + OTEL_HEADER, more,
							  (void *)(record + OTEL_HEADER)))
			return capture_fault(c);
	}
	/* Zeros after its end: equal records give equal words. */
	__u64 last = size & 0x3f8;
	barrier_var(last);
	*(__u64 *)(to + last) &= (1ull << (8 * (size & 7))) - 1;
	*e = (struct label_entry){ .source = (__u8)c->n_source,
				   .what = ENTRY_OTEL,
				   .is_key = c->source.key_index,
				   .len = (__u16)size };
	entry_done(c, size);
	return 0;
}

static __always_inline int read_otel(struct capture *c)
{
	__u64 record = 0;
	return read_at(&record, 8, c->start) ? capture_fault(c) : append_otel(record);
}

#endif
