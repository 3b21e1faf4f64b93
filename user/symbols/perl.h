/* SPDX-License-Identifier: Apache-2.0 */
/* Is a file Perl's interpreter? For user/symbols alone; runs where files are parsed. */
#ifndef ASCRIBE_SYMBOLS_PERL_H
#define ASCRIBE_SYMBOLS_PERL_H

#include "elf/image.h"
#include "symbols/symbols.h"

/*
 * By what it exports: its version, and the size of struct interpreter. -ENOENT: it is not Perl 5.
 */
int perl_find(const struct elf_image *img, struct binary_script *ret);

#endif
