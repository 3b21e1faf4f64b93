/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block as the payload of a frame: fixed part, column directory, columns. The fixed part and the
 * directory have a checksum of their own and so has each column, so that one column can be read
 * without the rest.
 */
#ifndef ASCRIBE_STORE_BLOCK_BLOCK_H
#define ASCRIBE_STORE_BLOCK_BLOCK_H

#include "store/file/format.h"
#include "store/file/levels.h"
#include "store/store.h"
#include "util/buf.h"

/* How far the dictionaries of its segment went when the block was written. */
struct block_mark {
	uint64_t bytes;		     /* of all their frames */
	uint32_t count[N_DICTS + 1]; /* ids, by enum kind */
};

/* To be written. Columns whose bit in `has` is not set are left out. */
struct block {
	struct store_block info;
	struct block_mark mark;
	uint32_t has;
	struct buf column[N_COLUMNS];
};

int block_encode(struct buf *out, const struct block *b);
void block_fini(struct block *b);

struct block_column {
	uint32_t at; /* in the payload */
	uint32_t raw_len, stored_len, crc;
	uint8_t codec;
};

/* Everything about a block but its columns. */
struct block_head {
	struct store_block info;
	struct block_mark mark;
	uint32_t has;
	struct block_column column[N_COLUMNS];
};

#define BLOCK_HEAD_MAX (BLOCK_SIZE + COLUMNS_OF_BLOCK_MAX * COLUMN_SIZE)

/* data: the first len bytes of a payload of payload_len, BLOCK_HEAD_MAX or all of it. -EBADMSG. */
int block_decode_head(struct block_head *ret, const uint8_t *data, size_t len,
		      uint64_t payload_len);
/*
 * Check a head whose fixed part of `size` bytes was decoded into h, and decode the directory of n
 * columns behind it, at c. -EBADMSG.
 */
int block_decode_directory(struct block_head *h, struct cursor *c, uint8_t n, size_t size,
			   const uint8_t *data, size_t len, uint64_t payload_len);

/* The parts of a fixed part that are the same in format 2: before the marks, and behind them. */
void block_decode_begin(struct store_block *i, struct cursor *c, uint8_t *ret_columns);
void block_decode_end(struct store_block *i, struct cursor *c);

static inline bool block_has(const struct block_head *h, enum column c)
{
	return h->has >> c & 1;
}

/*
 * Append the column whose stored bytes these are to out. -EBADMSG: not what the head says. -ENOMEM.
 */
int block_unpack(const struct block_head *h, enum column c, const uint8_t *stored, struct buf *out);

#endif
