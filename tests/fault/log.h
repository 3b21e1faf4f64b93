/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the recorder writes and disk.c reads: this record, then the path, the second path, the data.
 */
#ifndef TESTS_FAULT_LOG_H
#define TESTS_FAULT_LOG_H

#include <stdint.h>

enum op_kind {
	OP_WRITE,    /* ino, offset, data */
	OP_SIZE,     /* ino, offset: the new length; fallocate too */
	OP_SYNC,     /* ino: fsync or fdatasync of a file */
	OP_SYNC_DIR, /* path */
	OP_LINK,     /* path, ino: a new file */
	OP_MKDIR,    /* path */
	OP_RENAME,   /* path, to */
	OP_UNLINK,   /* path: of a file or a directory */
	OP_ACK,	     /* data: what the program said on its standard output */
	OP_UNKNOWN,  /* path: a call that changes files and that a replay does not know */
};

struct op_record {
	uint32_t kind;
	uint32_t path_len, to_len, data_len;
	uint64_t ino, offset;
};

#endif
