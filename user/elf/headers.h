/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structures of an ELF file as those of a 64-bit one. Those of a 32-bit file are widened as
 * they are read, so callers know one form alone. As elf_image_read: exactly what was asked for,
 * -EBADMSG where the file does not have it.
 */
#ifndef ASCRIBE_ELF_HEADERS_H
#define ASCRIBE_ELF_HEADERS_H

#include "elf/image.h"

#include <elf.h>

/* Bytes of each structure as it stands in this file. img->is_32 is known once the header was read.
 */
size_t elf_program_header_size(const struct elf_image *img);
size_t elf_section_header_size(const struct elf_image *img);
size_t elf_symbol_size(const struct elf_image *img);

/* The header; sets img->is_32. Its magic number and class were not checked: whoever calls looks at
 * e_ident. */
int elf_read_header(struct elf_image *img, Elf64_Ehdr *ret);

/* n program headers from this offset of the file. */
int elf_read_program_headers(const struct elf_image *img, uint64_t offset, size_t n,
			     Elf64_Phdr *ret);

/* n section headers from number `index` of the table at img->shoff. */
int elf_read_section_headers(const struct elf_image *img, uint32_t index, size_t n,
			     Elf64_Shdr *ret);

/* n symbols from number `index` of a table that lies inside the file. */
int elf_read_symbols(const struct elf_image *img, const struct elf_symbols *s, uint64_t index,
		     size_t n, Elf64_Sym *ret);

#endif
