/* SPDX-License-Identifier: Apache-2.0 */
/* Where the functions of a stripped file begin: its .eh_frame_hdr lists each one that has call
 * frame information. */
#ifndef ASCRIBE_SYMBOLS_UNNAMED_H
#define ASCRIBE_SYMBOLS_UNNAMED_H

#include "elf/image.h"

/*
 * Call add with the vaddr of each function, in the order of the file; what it returns other than 0
 * ends the walk. -ENOENT: there is no such list, or not in the usual encoding; -E2BIG: over max
 * functions.
 */
int unnamed_walk(const struct elf_image *img, size_t max, int (*add)(void *ctx, uint64_t vaddr),
		 void *ctx);

#endif
