/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of user/symbols only: requests, and which tables stay in memory. */
#ifndef ASCRIBE_SYMBOLS_SYMBOLIZER_H
#define ASCRIBE_SYMBOLS_SYMBOLIZER_H

#include "sandbox/sandbox.h"
#include "symbols/spending.h"
#include "symbols/symbols.h"
#include "util/buf.h"

enum symbols_op {
	OP_OPEN,
	OP_LOAD,
	OP_CRC,
	OP_PERF_MAP,
	OP_JITDUMP,
	OP_LINES,
	OP_PARTS,
	OP_GO_LINES,
	N_OPS,
};

/* The CRC of a debug file that several files have a link to. */
#define CRCS_KEPT 32
struct crc_kept {
	struct symbols_file file; /* size 0: none */
	struct symbols_job job;	  /* while it is made */
	bool made;
	uint32_t crc;
	int rc; /* it could not be made */
};

/* A table in memory, most recently used first. */
struct symbolizer_table {
	struct symbolizer_table *newer, *older;
	size_t bytes; /* 0: not in the list */
	void (*evict)(struct symbolizer_table *t);
};

struct symbolizer {
	struct sandbox *sandbox;
	unsigned first_op;
	unsigned deadline_ms;
	bool wait;
	size_t table_bytes;
	struct symbolizer_table *newest, *oldest;
	struct spending spending;
	uint32_t tgid, user; /* for whom files are read now; user: of tgid, when user_known */
	bool user_known;
	struct crc_kept crc[CRCS_KEPT];
	unsigned next_crc;
	struct symbolizer_stats stats;
};

/* Ask: s may be NULL (in this process). fds are borrowed. As symbolizer_run. */
struct symbols_request {
	enum symbols_op op;
	const void *bytes;
	size_t len;
	const int *fds;
	size_t n_fds;
	size_t max_reply;
};
int symbolizer_ask(struct symbolizer *s, struct symbols_job *io_job,
		   const struct symbols_request *q, struct buf *reply);

/* s may be NULL in all: then nothing is ever evicted. */
void symbolizer_add(struct symbolizer *s, struct symbolizer_table *t, size_t bytes);
void symbolizer_used(struct symbolizer *s, struct symbolizer_table *t);
void symbolizer_remove(struct symbolizer *s, struct symbolizer_table *t);

#endif
