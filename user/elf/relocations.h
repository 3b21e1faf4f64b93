/* SPDX-License-Identifier: Apache-2.0 */
/* The relocations of a file: what the dynamic linker writes into it, and where. */
#ifndef ASCRIBE_ELF_RELOCATIONS_H
#define ASCRIBE_ELF_RELOCATIONS_H

#include "elf/image.h"

#include <elf.h>

#define ELF_RELOCATIONS_MAX (4u << 20) /* looked at in all */

/*
 * Call `on` for each relocation with an addend of the sections that are loaded, in their order. All
 * of it is as the file has it. -E2BIG: there are more than ELF_RELOCATIONS_MAX; -EBADMSG, -ENOMEM.
 */
int elf_relocations(const struct elf_image *img, void (*on)(void *ctx, const Elf64_Rela *r),
		    void *ctx);

#endif
