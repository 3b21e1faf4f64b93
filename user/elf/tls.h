/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an ELF file's named variables are: data symbols by their address, thread-local ones by how
 * their address is found at run time.
 */
#ifndef ASCRIBE_ELF_TLS_H
#define ASCRIBE_ELF_TLS_H

#include "elf/image.h"

#include <stdbool.h>

#define ELF_VARIABLES_MAX 32u
#define ELF_VARIABLE_NAME_MAX 96u	    /* longer names are not looked for */
#define ELF_VARIABLE_SYMBOLS_MAX (4u << 20) /* symbols looked at */

/*
 * How code of the file finds a thread-local variable. `at` is the vaddr of what the dynamic linker
 * fills in.
 */
enum elf_access {
	ELF_ACCESS_NONE = 0, /* data or code: value is its vaddr */
	/* thread-local, and no way found: an executable's is static all the same */
	ELF_ACCESS_UNKNOWN = 1,
	/* at: the offset from the thread pointer (initial-exec); addend 0 or value */
	ELF_ACCESS_TPOFF = 2,
	ELF_ACCESS_DESC = 3,   /* at: {resolver, argument} (TLSDESC) */
	ELF_ACCESS_PAIR = 4,   /* at: {module, offset} (general-dynamic) */
	ELF_ACCESS_MODULE = 5, /* at: module; the offset is the value (local-dynamic) */
};

struct elf_variable {
	char name[ELF_VARIABLE_NAME_MAX];
	uint64_t value; /* vaddr, or offset in the file's thread-local block */
	uint64_t size;
	enum elf_access access;
	uint64_t at;
	bool tls;
};

/*
 * The symbols with one of these names, from .dynsym and, in an executable, .symtab, each once. The
 * list ends with NULL; a name that ends with '*' stands for all that begin so. Returns how many
 * there are in ret, at most `max`, or -errno: -EBADMSG, -E2BIG, ...
 */
int elf_variables(const struct elf_image *img, const char *const *names, struct elf_variable *ret,
		  size_t max);

/*
 * The offset from the thread pointer of what stands at `value` in an executable's own thread-local
 * block.
 */
int64_t elf_static_tls(const struct elf_image *img, uint64_t value);

/*
 * Is this an executable rather than a library? ET_EXEC, or marked as position independent
 * executable.
 */
bool elf_is_executable(const struct elf_image *img);

/* Is it made for musl's dynamic linker? */
bool elf_uses_musl(const struct elf_image *img);

#endif
