/* SPDX-License-Identifier: Apache-2.0 */
/* A block read from its segment: its head and the wanted columns. */
#ifndef ASCRIBE_STORE_READ_BLOCK_DATA_H
#define ASCRIBE_STORE_READ_BLOCK_DATA_H

#include "store/read/segment.h"

#define WANT_ROWS (0xffu << COLUMN_LEAF)
#define WANT_TABLE (0xffu << COLUMN_TABLE_NARROW)
#define WANT_NARROW (1u << COLUMN_TABLE_NARROW)
#define WANT_FOLDED (0xfu << COLUMN_LEAF)
#define WANT_TOTALS (1u << COLUMN_TOTALS)
#define WANT_KEYS (1u << COLUMN_KEYS)
#define WANT_SUMS (1u << COLUMN_SUMS)
#define WANT_TOP (1u << COLUMN_TOP)

/* Head and the wanted columns, unpacked. wanted: bits; those that the block lacks stay empty. */
struct block_data {
	struct block_head head;
	struct buf column[N_COLUMNS];
};

int block_read(struct store *s, const struct block_ref *r, uint32_t wanted, struct block_data *ret,
	       struct err *err);
void block_data_fini(struct block_data *d);
int block_damaged(const struct store *s, const struct block_ref *r, struct err *err);
/* Say what a result means for the block: damage for -EBADMSG. Returns rc. */
int block_failed(const struct store *s, const struct block_ref *r, int rc, struct err *err);
/* Bytes of a column as stored, not checked. */
int block_read_raw(struct store *s, const struct block_ref *r, const struct block_head *h,
		   enum column c, uint64_t at, void *out, size_t len, struct err *err);

/* Append a part of such a column that has a checksum of its own, unpacked. */
int block_read_piece(struct store *s, const struct block_ref *r, const struct block_head *h,
		     enum column c, const struct block_column *at, struct buf *ret,
		     struct err *err);

#endif
