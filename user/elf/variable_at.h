/* SPDX-License-Identifier: Apache-2.0 */
/* Data symbols of an ELF image by address. */
#ifndef ASCRIBE_ELF_VARIABLE_AT_H
#define ASCRIBE_ELF_VARIABLE_AT_H

#include "elf/image.h"

#define ELF_VARIABLE_AT_MAX 64u	       /* addresses of one call */
#define ELF_VARIABLE_AT_NAME_MAX 1024u /* bytes of a name, with its NUL; longer ones are none */

/* The variable that holds an address. */
struct elf_variable_at {
	uint64_t vaddr; /* that was asked for */
	uint64_t start, size;
	char name[ELF_VARIABLE_AT_NAME_MAX]; /* mangled; "": no symbol holds the address */
};

/*
 * Find the variables that hold v[0..n).vaddr, in .symtab, else in .dynsym. Of several that hold an
 * address, the smallest counts, then a global one. n is at most ELF_VARIABLE_AT_MAX. 0 or -errno:
 * -EBADMSG, -E2BIG, ...; v[].name is "" then where nothing was found before.
 */
int elf_variables_at(const struct elf_image *img, struct elf_variable_at *v, size_t n);

#endif
