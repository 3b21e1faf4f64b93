/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the functions of a program begin in its source, and what its linker calls them, by its own
 * DWARF. That is what compilers ask of a profile: they count lines from the start of a function.
 */
#ifndef ASCRIBE_SYMBOLS_STARTS_H
#define ASCRIBE_SYMBOLS_STARTS_H

#include "sandbox/sandbox.h"
#include "util/buf.h"
#include "util/err.h"

#include <stdint.h>

/* Texts belong to the starts. */
struct start {
	const char *linked; /* as the linker has it: mangled */
	const char *shown;  /* as stacks show it, clones folded (names.h) */
	const char *file;   /* the source file's name, without directories */
	uint32_t line;	    /* from 1 */
};

struct starts;

/*
 * Read them from an ELF file with DWARF, in a worker of a sandbox that this process starts. fd is
 * borrowed. -ENODATA: the file has no such DWARF; -EBADMSG: it is no ELF file, or a damaged one;
 * -E2BIG; -ETIMEDOUT.
 */
int starts_read(struct starts **ret, int fd, struct err *err);
void starts_free(struct starts *s);

/* "": the file has none. Hexadecimal. */
const char *starts_build_id(const struct starts *s);

/*
 * The function that a stack shows by this name. Where several have it, as static functions of C do,
 * that of the source file, else any. NULL: there is none.
 */
const struct start *starts_find(const struct starts *s, const char *shown, const char *file);

/* In a worker. The descriptor is the file. */
int starts_op(const struct sandbox_request *q, struct buf *out);
/* What such a worker answers, which may lie. -EBADMSG, -ENODATA as above, -ENOMEM. */
int starts_decode(struct starts **ret, const struct buf *answer);

#endif
