/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One account of the daemon's memory: its own pages, those of its children, and the kernel's for
 * its BPF maps. The total is measured. Parts that report what they keep are named; the rest of our
 * own pages is `other`.
 */
#ifndef ASCRIBE_DAEMON_ACCOUNT_H
#define ASCRIBE_DAEMON_ACCOUNT_H

#include "collect/collector.h"

/* X(part, help) */
#define ACCOUNT_PARTS(X) \
	X(program, "code and constants of the program, resident") \
	X(tables, "kernel: tables of the BPF programs, all CPUs") \
	X(rings, "kernel: rings for records, copies and news of processes") \
	X(threads, "kernel: what is kept of each thread of the host, with --wall") \
	X(unwind, "kernel: rows of unwind rules") \
	X(children, "anonymous memory of all children: parsers, readers, downloader") \
	X(symbols, "symbol tables that are kept") \
	X(dictionaries, "dictionaries of the store's files that are written to") \
	X(window, "rows and label sets of the open window") \
	X(server, "anonymous memory of the process that serves") \
	X(other, "everything else of our own pages")

enum account_part {
#define X(part, help) ACCOUNT_##part,
	ACCOUNT_PARTS(X)
#undef X
		N_ACCOUNT,
};

extern const char *const account_names[N_ACCOUNT];

struct account {
	uint64_t part[N_ACCOUNT];
	uint64_t total;
	/* Beyond the total: our own pages that came and went since the last look */
	uint64_t more;
	/* Beyond the total: what parsers and a capture may allocate before the next look */
	uint64_t reserved;
	uint64_t children_cpu_ns; /* of the direct children themselves, not of workers */
};

/* program_bytes: resident pages of files before any map was mapped. server: of its process. */
void account_read(struct account *ret, const struct collector_progress *p, uint64_t program_bytes,
		  uint64_t server);

/*
 * Of memory-max, one part in so many is kept for parsers: they come, grow and go between two looks.
 */
#define ACCOUNT_WORKERS 4

/*
 * The least memory-max for what is recorded: what this account has right after the start, the
 * parsers' part, and room to work. Whole MiB.
 */
uint64_t account_needs(const struct account *at_start);

/* Where the memory goes, in one line: the largest parts first. Returns out. */
const char *account_text(const struct account *a, char *out, size_t cap);

#endif
