/* SPDX-License-Identifier: Apache-2.0 */
/* Is a file PHP's interpreter? For user/symbols alone; runs where files are parsed. */
#ifndef ASCRIBE_SYMBOLS_PHP_H
#define ASCRIBE_SYMBOLS_PHP_H

#include "elf/image.h"
#include "symbols/symbols.h"

/* By what it exports, and by the build id of extensions ("API20220829,NTS"). -ENOENT: it is not. */
int php_find(const struct elf_image *img, struct binary_script *ret);

#endif
