/* SPDX-License-Identifier: Apache-2.0 */
/* The Go version that a binary was built by, from its build info. */
#ifndef ASCRIBE_ELF_GO_H
#define ASCRIBE_ELF_GO_H

#include "elf/image.h"

/* 1.19 is 119; 0: not a Go binary, or not to be told. */
unsigned elf_go_version(const struct elf_image *img);

#endif
