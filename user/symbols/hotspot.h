/* SPDX-License-Identifier: Apache-2.0 */
/* Is a file HotSpot's libjvm? For user/symbols alone; runs where files are parsed. */
#ifndef ASCRIBE_SYMBOLS_HOTSPOT_H
#define ASCRIBE_SYMBOLS_HOTSPOT_H

#include "elf/image.h"
#include "symbols/symbols.h"

/* By what it exports. -ENOENT: it is not, or lacks one of HOTSPOT_TABLES. */
int hotspot_find(const struct elf_image *img, struct binary_hotspot *ret);

#endif
