/* SPDX-License-Identifier: Apache-2.0 */
/* What a file exports, read from its .dynsym. Runs where files are parsed. */
#ifndef ASCRIBE_SYMBOLS_DYNSYM_H
#define ASCRIBE_SYMBOLS_DYNSYM_H

#include "elf/image.h"

#include <elf.h>

/*
 * Call found for each symbol of a 64-bit file; the name ends in a NUL. -ENOENT: the file has no
 * .dynsym, or one beyond 8 MiB.
 */
int dynsym_each(const struct elf_image *img,
		void (*found)(void *ctx, const char *name, const Elf64_Sym *s), void *ctx);

#endif
