/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stripped file says about its symbols elsewhere. .gnu_debugdata is an ELF file packed by xz
 * that holds .symtab alone ("MiniDebugInfo"). .gnu_debuglink is the name and CRC-32 of a file
 * beside it.
 */
#ifndef ASCRIBE_SYMBOLS_DEBUGDATA_H
#define ASCRIBE_SYMBOLS_DEBUGDATA_H

#include "elf/image.h"

#define DEBUGDATA_PACKED_MAX (8u << 20)
#define DEBUGDATA_MAX (24u << 20)	/* unpacked; Fedora's largest have some 10 MiB */
#define DEBUGDATA_XZ_MEMORY (20u << 20) /* of the unpacker: xz -7 and below */
#define DEBUGLINK_NAME_MAX 256u
/* Its CRC takes 30 to 60 ms, from the time for files of its user */
#define DEBUGLINK_FILE_MAX (64ull << 20)

/* Unpack into *ret. -ENOENT: there is none; -EBADMSG: it lies; -E2BIG: a cap. */
int debugdata_open(struct elf_image *ret, const struct elf_image *img, const char *path,
		   struct err *err);

/* A bare file name without '/', and what its content's CRC must be. -ENOENT, -EBADMSG. */
int debuglink_read(const struct elf_image *img, char name[DEBUGLINK_NAME_MAX], uint32_t *ret_crc);

/* CRC-32 (as of zlib) of the whole file; -E2BIG. */
int debuglink_crc(const struct elf_image *img, uint32_t *ret_crc);

#endif
