/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32C (Castagnoli), as in iSCSI and ext4: reflected polynomial 0x82f63b78, start and final
 * value inverted. crc32c("123456789") is 0xe3069283. Thread-safe.
 */
#ifndef ASCRIBE_UTIL_CRC32C_H
#define ASCRIBE_UTIL_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *data, size_t len);
/* The same for CPUs that have no instruction for it. */
uint32_t crc32c_table(const void *data, size_t len);

#endif
