/* SPDX-License-Identifier: Apache-2.0 */
/* Unpack zstd, from memory to memory. */
#ifndef ASCRIBE_UTIL_UNZSTD_H
#define ASCRIBE_UTIL_UNZSTD_H

#include "util/buf.h"
#include "util/err.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Append what the frames of data unpack to, at most `max` bytes in all in out. -EMSGSIZE: it is
 * more. -EINVAL: no whole frames, or one that needs a window of more than 8 MiB. -ENOMEM. After an
 * error out has a part.
 */
int unzstd(const uint8_t *data, size_t len, size_t max, struct buf *out, struct err *err);

#endif
