/* SPDX-License-Identifier: Apache-2.0 */
/* Does a file hold V8? For user/symbols alone; runs where files are parsed. */
#ifndef ASCRIBE_SYMBOLS_V8_H
#define ASCRIBE_SYMBOLS_V8_H

#include "elf/image.h"
#include "symbols/symbols.h"

/* By what it exports for debuggers. -ENOENT: it does not. */
int v8_find(const struct elf_image *img, struct binary_v8 *ret);

#endif
