/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader reads of runtimes: for user/proc alone. */
#ifndef ASCRIBE_PROC_PAGES_H
#define ASCRIBE_PROC_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The memory of a process, by pages: a chain of pointers stays within few of them. */
#define PAGES 64
#define PAGE_BYTES 4096u
#define PAGES_READ_MAX 8192 /* pages read for one request */

struct pages {
	uint32_t tid;
	unsigned reads;
	uint64_t page[PAGES]; /* address + 1; 0: empty */
	uint8_t bytes[PAGES][PAGE_BYTES];
};

/* Empty the pages, and read of this process from now on. One request at a time. */
struct pages *pages_of(uint32_t tgid);

/* Read n bytes, all or none. False: they cannot be read, or the request has read too much. */
bool pages_read(struct pages *m, uint64_t at, void *out, size_t n);
/* Read a pointer; 0 when it cannot be read. */
uint64_t pages_word(struct pages *m, uint64_t at);

/* Convert n bytes to text of 2 * n + 1 bytes, for requests, and back. False: no such text. */
void pages_to_text(const void *data, size_t n, char *out);
bool pages_from_text(const char *text, void *out, size_t n);

#endif
