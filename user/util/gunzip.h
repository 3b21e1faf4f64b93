/* SPDX-License-Identifier: Apache-2.0 */
/* Unpack gzip, from memory to memory. */
#ifndef ASCRIBE_UTIL_GUNZIP_H
#define ASCRIBE_UTIL_GUNZIP_H

#include "util/buf.h"
#include "util/err.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Append what data unpacks to, at most `max` bytes in all in out. -EMSGSIZE: it is more. -EINVAL:
 * no whole stream. -ENOMEM. After an error out has a part.
 */
int gunzip(const uint8_t *data, size_t len, size_t max, struct buf *out, struct err *err);

#endif
