/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot as text and as bytes. Both name the precision, so that any two can be merged after
 * loading.
 *
 * Text, for people and scripts: one line per bucket in which something was counted, decimal,
 * ascending.
 *
 *   histogram bits 6 buckets 2 total 12
 *   0 0 5                                 smallest value, greatest value, count
 *   640 647 7
 *
 * Binary, for files and the wire; integers are LEB128 (util/buf.h) unless a size is given:
 *
 *   4 bytes "HIST" | u8 version 1 | u8 bits | number of buckets |
 *   per bucket: index minus the index before it (the first: index), count |
 *   u32 CRC-32C of all before it, little-endian
 *
 * Both are refused as a whole unless they are exactly that. Refused are counts of 0, indices out of
 * order or out of range, a total beyond 2^64 - 1, anything behind the end. What is loaded takes
 * memory for at most HIST_BUCKETS(bits) counters, and only for rows that are there.
 */
#ifndef ASCRIBE_HIST_DUMP_H
#define ASCRIBE_HIST_DUMP_H

#include "hist/snapshot.h"
#include "util/buf.h"

/* Append. 0 or -ENOMEM, and then the buffer has a part of it. */
int hist_dump_text(const struct hist_snapshot *s, struct buf *out);
int hist_dump_binary(const struct hist_snapshot *s, struct buf *out);

/*
 * Into *ret, which need not be set up and is untouched on failure. -EBADMSG: not such a text;
 * -EPROTONOSUPPORT: another version; -E2BIG: longer than any histogram; -ENOMEM.
 */
int hist_load_text(const char *text, size_t len, struct hist_snapshot *ret, struct err *err);
int hist_load_binary(const void *data, size_t len, struct hist_snapshot *ret, struct err *err);

#endif
