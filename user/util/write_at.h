/* SPDX-License-Identifier: Apache-2.0 */
/* Write to a place of a file, as often as it takes. */
#ifndef ASCRIBE_UTIL_WRITE_AT_H
#define ASCRIBE_UTIL_WRITE_AT_H

#include <stddef.h>
#include <stdint.h>

/* 0 or -errno; some of the bytes may be written then. */
int write_at(int fd, const void *data, size_t len, uint64_t offset);

#endif
