/* SPDX-License-Identifier: Apache-2.0 */
/* Is a file Ruby's interpreter? For user/symbols alone; runs where files are parsed. */
#ifndef ASCRIBE_SYMBOLS_RUBY_H
#define ASCRIBE_SYMBOLS_RUBY_H

#include "elf/image.h"
#include "symbols/symbols.h"

/*
 * By what it exports. The bytecode function is the one that its table of instructions points into.
 * The way to a thread's context is read from code that takes it. -ENOENT: it is not Ruby.
 */
int ruby_find(const struct elf_image *img, struct binary_script *ret);

#endif
