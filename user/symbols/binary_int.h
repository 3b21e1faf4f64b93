/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by binary.c and binary_debug.c only. */
#ifndef ASCRIBE_SYMBOLS_BINARY_INT_H
#define ASCRIBE_SYMBOLS_BINARY_INT_H

#include "symbols/cells.h"
#include "symbols/known.h"
#include "symbols/parser.h"
#include "symbols/symbolizer.h"
#include "symbols/symbols.h"
#include "symbols/table.h"

/* A debug file that is offered. */
struct offer {
	int fd; /* -1: none */
	struct symbols_job head;
	bool has_head, has_lines, same, by_crc;
	struct symbols_file which; /* size 0: not known */
	struct crc_kept crc;	   /* where which is not known */
};

/* Addresses whose functions are asked for one by one; the first n_asked are in a request. */
#define PARTS_MAX TABLE_PARTS_MAX
struct parts {
	uint64_t vaddr[PARTS_MAX];
	size_t n, n_asked;
};

struct binary {
	struct symbolizer_table keep; /* first: evict() gets it */
	struct symbolizer *symbolizer;
	struct facts facts;
	struct elf_image mem; /* an image in memory; mem.mem NULL for a file */
	int fd, debug_fd;     /* -1: none */
	struct table table;
	struct cells cells;
	struct known known;  /* what was asked for; for when the table is gone */
	struct parts *parts; /* NULL: none is wanted */
	/*
	 * Of what was read first: a file that reads differently the second time has no more names
	 */
	uint64_t table_hash;
	bool loaded;	      /* was tried */
	bool lines_bad;	      /* its DWARF is not asked again */
	bool debug_lines;     /* debug_fd has DWARF */
	bool evicted;	      /* table is gone, but may be read again */
	bool closed;	      /* its files were closed */
	bool debug_sent;      /* debug_fd came from a server: it cannot be opened again */
	bool debug_unchecked; /* its debug link leads to too large a file: counted */
	bool expecting;	      /* a debug file may come, even after the symbols were read */
	int load_rc;	      /* kept: a file that lies is not read again */
	struct symbols_again load_again, lines_again;
	struct symbols_job head_job, load_job, lines_job;
	struct offer offer;
	char path[]; /* for messages */
};

/* Ask for something about a file of b, as symbolizer_ask. */
int binary_ask(struct binary *b, struct symbols_job *io_job, enum symbols_op op, const int *fds,
	       size_t n_fds, size_t max, struct buf *reply);

/* As though they had not been asked for yet. */
void binary_forget_symbols(struct binary *b);

/* Are its names read function by function, rather than in one table? */
bool binary_reads_parts(const struct binary *b);
/*
 * Read the function of an address, which known does not have, into known. -EAGAIN: the answer is
 * not there yet. -ENOENT: there will be none. Others as binary_find.
 */
int binary_find_part(struct binary *b, uint64_t vaddr);
void binary_forget_parts(struct binary *b);

/* Nothing is offered any more. */
void binary_end_offer(struct binary *b);

#endif
