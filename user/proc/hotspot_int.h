/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader does about HotSpot: for hotspot_*.c and serve.c only. */
#ifndef ASCRIBE_PROC_HOTSPOT_INT_H
#define ASCRIBE_PROC_HOTSPOT_INT_H

#include "proc/hotspot.h"
#include "proc/reader_int.h"

/* The memory of a process, by pages: a chain of pointers stays within few of them. */
#define HOTSPOT_PAGES 64
#define HOTSPOT_PAGE 4096u
#define HOTSPOT_READS_MAX 8192 /* pages read for one request */

struct hotspot_memory {
	uint32_t tid;
	unsigned reads;
	uint64_t page[HOTSPOT_PAGES]; /* address + 1; 0: empty */
	uint8_t bytes[HOTSPOT_PAGES][HOTSPOT_PAGE];
};

/* Empty the pages, and read of this process from now on. One request at a time. */
struct hotspot_memory *hotspot_memory_of(uint32_t tgid);

/* Read n bytes, all or none. False: they cannot be read, or the request has read too much. */
bool hotspot_read(struct hotspot_memory *m, uint64_t at, void *out, size_t n);
/* Read a pointer; 0 when it cannot be read. */
uint64_t hotspot_word(struct hotspot_memory *m, uint64_t at);
/* Read a field of a structure. False: it cannot be read, or there is none. */
bool hotspot_field(struct hotspot_memory *m, uint64_t at, struct hotspot_field f, int64_t *ret);

/* Convert n bytes to text of 2 * n + 1 bytes, for requests, and back. False: no such text. */
void hotspot_to_text(const void *data, size_t n, char *out);
bool hotspot_from_text(const char *text, void *out, size_t n);

/* Serve requests READ_HOTSPOT and READ_HOTSPOT_NAMES. */
int hotspot_serve_locate(const struct reader_request *q, struct buf *out);
int hotspot_serve_names(const struct reader_request *q, struct buf *out);

#endif
