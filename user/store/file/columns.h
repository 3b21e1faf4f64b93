/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns: varints, zigzag, and bytes that may be compressed. All decoders survive any input.
 */
#ifndef ASCRIBE_STORE_FILE_COLUMNS_H
#define ASCRIBE_STORE_FILE_COLUMNS_H

#include "util/buf.h"

/* Signed to unsigned so that small magnitudes stay small: 0, -1, 1, -2 -> 0, 1, 2, 3. */
static inline uint64_t zigzag(uint64_t v)
{
	return v << 1 ^ (0 - (v >> 63));
}

static inline uint64_t unzigzag(uint64_t v)
{
	return v >> 1 ^ (0 - (v & 1));
}

/* n columns, each as u32 length and its bytes one after the other. */
int columns_join(struct buf *out, const struct buf *columns, size_t n);
/* The opposite: cursors into data; -EBADMSG unless exactly n columns fill it. */
int columns_split(const uint8_t *data, size_t len, struct cursor *ret_columns, size_t n);

/*
 * Append data to out, compressed when that makes it smaller; *ret_codec says which. -ENOMEM.
 */
int codec_pack(struct buf *out, const void *data, size_t len, uint8_t *ret_codec);
/* The same for one of many small pieces: quick. */
int codec_pack_piece(struct buf *out, const void *data, size_t len, uint8_t *ret_codec);
/* The same for a column of varints, which has one more way. */
int codec_pack_varints(struct buf *out, const void *data, size_t len, uint8_t *ret_codec);

/* Append exactly raw_len bytes to out. -EBADMSG when the data do not give that; -ENOMEM. */
int codec_unpack(struct buf *out, uint8_t codec, const uint8_t *data, size_t len, size_t raw_len);

#endif
