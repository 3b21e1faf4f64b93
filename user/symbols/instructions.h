/* SPDX-License-Identifier: Apache-2.0 */
/* Where the instructions of a function begin. */
#ifndef ASCRIBE_SYMBOLS_INSTRUCTIONS_H
#define ASCRIBE_SYMBOLS_INSTRUCTIONS_H

#include "elf/image.h"

/*
 * Does an instruction begin at this offset of the function at vaddr? 0: yes. -EILSEQ: no, or what
 * stands before is no code. -E2BIG: it is over 1 MiB away; -ENOMEM, or as elf_image_read.
 */
int instructions_begin_at(const struct elf_image *img, uint64_t vaddr, uint64_t offset);

#endif
