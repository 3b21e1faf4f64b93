/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of an ELF image by their name. */
#ifndef ASCRIBE_ELF_FUNCTION_H
#define ASCRIBE_ELF_FUNCTION_H

#include "elf/image.h"

struct elf_function {
	uint64_t vaddr;
	uint64_t size; /* bytes; 0: the table does not say */
};

/*
 * Call cb with each function whose name `wanted` wants, until it returns non-zero. The name is that
 * of .symtab or .dynsym (mangled, without a version). A function comes twice where both tables have
 * it. 0, or what cb returned; -ENOTSUP: one of them is chosen when the program starts (IFUNC);
 * -E2BIG; -EBADMSG.
 */
int elf_function_each(const struct elf_image *img, bool (*wanted)(void *, const char *name),
		      int (*cb)(void *, const struct elf_function *), void *ctx);

#endif
