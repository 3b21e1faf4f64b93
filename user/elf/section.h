/* SPDX-License-Identifier: Apache-2.0 */
/* Sections of an ELF image by name; for what has no program header of its own. */
#ifndef ASCRIBE_ELF_SECTION_H
#define ASCRIBE_ELF_SECTION_H

#include "elf/image.h"

/* Where the bytes of a section stand: inside the file. */
struct elf_place {
	uint64_t vaddr;
	uint64_t offset;
	uint64_t size;
	int compressed; /* SHF_COMPRESSED: a header, then packed bytes */
};

/*
 * The first section of this name that holds bytes. -ENOENT; -EBADMSG: not inside the file; -EBADF:
 * the image was dropped.
 */
int elf_section_find(const struct elf_image *img, const char *section, struct elf_place *ret);

/* Bytes of a section as they stand in the file. */
struct elf_section {
	uint64_t vaddr;
	uint8_t *bytes; /* owned: elf_section_fini */
	size_t size;
};

/*
 * The first section of this name that holds bytes, read whole. -ENOENT: there is none, or it is
 * compressed; -E2BIG: larger than max bytes; -EBADMSG: not inside the file; -EBADF: the image was
 * dropped.
 */
int elf_section_read(const struct elf_image *img, const char *section, size_t max,
		     struct elf_section *ret);

/* NULL bytes are fine. */
void elf_section_fini(struct elf_section *s);

#endif
