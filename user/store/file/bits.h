/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Varints whose lower bits are noise: a byte-wise compressor loses there what it would gain. Of
 * each value v the number of bits b of v + 1 behind its highest is one byte, and these bytes are
 * compressed. The b bits follow as they are.
 */
#ifndef ASCRIBE_STORE_FILE_BITS_H
#define ASCRIBE_STORE_FILE_BITS_H

#include "util/buf.h"

/*
 * Append the coded form of data, which are varints as this store writes them; -EINVAL when they are
 * not, -ENOMEM.
 */
int bits_pack(struct buf *out, const void *data, size_t len);
/* Append exactly raw_len bytes, the varints again. -EBADMSG, -ENOMEM. */
int bits_unpack(struct buf *out, const uint8_t *data, size_t len, size_t raw_len);

#endif
