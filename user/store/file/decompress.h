/* SPDX-License-Identifier: Apache-2.0 */
/* Decompression with a context that each thread keeps. */
#ifndef ASCRIBE_STORE_FILE_DECOMPRESS_H
#define ASCRIBE_STORE_FILE_DECOMPRESS_H

#include <stddef.h>

/* As ZSTD_decompress. */
size_t decompress(void *out, size_t cap, const void *data, size_t len);

#endif
