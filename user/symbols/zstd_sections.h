/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sections packed by zstd (ELFCOMPRESS_ZSTD, since binutils 2.40 and LLVM 16), for a libdw that
 * does not know of them. elfutils before 0.189 takes the whole DWARF of such a file for damaged.
 */
#ifndef ASCRIBE_SYMBOLS_ZSTD_SECTIONS_H
#define ASCRIBE_SYMBOLS_ZSTD_SECTIONS_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>

struct zstd_sections {
	void **bytes; /* [n]: the unpacked ones, for as long as the Elf is used */
	size_t n, cap;
};

/* Does the file have one? */
bool zstd_sections_any(Elf *elf);

/*
 * Unpack them all, and let elf_getdata and elf_rawdata give the unpacked bytes. elf is opened with
 * ELF_C_READ: what it knows is in memory of its own. The caller has checked the sum of the sizes.
 * -EBADMSG; -ENOMEM; on failure *ret holds what there is.
 */
int zstd_sections_unpack(Elf *elf, struct zstd_sections *ret);

/* After elf_end. */
void zstd_sections_fini(struct zstd_sections *z);

#endif
