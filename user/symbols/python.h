/* SPDX-License-Identifier: Apache-2.0 */
/* Is a file CPython's interpreter? For user/symbols alone; runs where files are parsed. */
#ifndef ASCRIBE_SYMBOLS_PYTHON_H
#define ASCRIBE_SYMBOLS_PYTHON_H

#include "elf/image.h"
#include "symbols/symbols.h"

/*
 * By its section .PyRuntime and what it exports. -ENOENT: it is not, or not of a version that says
 * which it is (3.11). From 3.13 on ret->at is the place of the main interpreter.
 */
int python_find(const struct elf_image *img, struct binary_script *ret);

/*
 * Return the index in python_layouts of what a version (PYTHON_VERSION) says of number and lock,
 * whether or not the file has an offset; -1: there is none.
 */
int python_layout(uint32_t version);

#endif
