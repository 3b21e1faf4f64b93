/* SPDX-License-Identifier: Apache-2.0 */
/* Is a file LuaJIT? For user/symbols alone; runs where files are parsed. */
#ifndef ASCRIBE_SYMBOLS_LUAJIT_H
#define ASCRIBE_SYMBOLS_LUAJIT_H

#include "elf/image.h"
#include "symbols/symbols.h"

/* By what it exports, and by offsets in its code. -ENOENT: it is not. */
int luajit_find(const struct elf_image *img, struct binary_script *ret);

#endif
