/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unwind table of one ELF file, compiled from .eh_frame and .debug_frame: which rule holds at
 * which address. x86-64 and arm64, whatever machine this runs on.
 *
 * The bytes belong to somebody else. They are read with pread into capped buffers and by a parser
 * that checks every read; time and memory are linear in the size of the sections, which is capped.
 * What the rules cannot say becomes "no rule" for that piece of code, never a wrong one. That is a
 * register that is not followed, or an expression of a kind that compilers do not write. Not
 * thread-safe.
 */
#ifndef ASCRIBE_UNWIND_UNWIND_H
#define ASCRIBE_UNWIND_UNWIND_H

#include "elf/image.h"
#include "util/err.h"

#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>
#include "unwind_wire.h"

#define UNWIND_SECTION_MAX (48u * 1024 * 1024) /* bytes of one section; libLLVM has 11 MB */
#define UNWIND_ROWS_MAX (4u * 1024 * 1024)     /* rows of one file; libLLVM has 1.0M */
#define UNWIND_FILE_RULES_MAX 4096u	       /* distinct rules of one file; libLLVM has 631 */
#define UNWIND_FILE_PAGES_MAX (UNWIND_PAGES / 2)

struct unwind_table {
	uint64_t first_page; /* vaddr >> 12 */
	uint32_t n_pages;
	uint32_t *page_at; /* [n_pages + 1]: the first row of each page */
	uint32_t *rows;	   /* low 12 bits of the address << 20 | index into rules */
	size_t n_rows, cap_rows;
	struct unwind_rule *rules; /* [0] is no rule */
	size_t n_rules, cap_rules;
	uint64_t fdes, refused; /* entries used; passed over because they could not be understood */
};

/*
 * Compile. -ENOENT: no call frame information; -EPROTONOSUPPORT: neither x86-64 nor arm64;
 * -EBADMSG: the sections lie; -E2BIG: a cap. One entry that cannot be understood is passed over and
 * counted in `refused`; what follows it is used.
 */
int unwind_compile(struct unwind_table **ret, const struct elf_image *img, const char *name,
		   struct err *err);
void unwind_table_free(struct unwind_table *t);

/* The rule at vaddr, or NULL. */
const struct unwind_rule *unwind_table_find(const struct unwind_table *t, uint64_t vaddr);

/* Bytes of memory held. */
size_t unwind_table_memory(const struct unwind_table *t);

#endif
