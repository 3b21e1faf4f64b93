/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a small function does that returns a member of what its argument points at, or of a global
 * or thread-local object. Its code says where the member is, though the binary's types are
 * stripped. x86-64; a few instructions are known, anything else is refused.
 */
#ifndef ASCRIBE_ELF_ACCESSOR_H
#define ASCRIBE_ELF_ACCESSOR_H

#include <stddef.h>
#include <stdint.h>

#define ACCESSOR_CODE_MAX 128 /* bytes looked at */
#define ACCESSOR_STEPS_MAX 8

enum accessor_op {
	ACCESSOR_TP = 1, /* the thread pointer + imm; the function needs no argument */
	ACCESSOR_BASE,	 /* vaddr imm of the file; likewise */
	ACCESSOR_ADD,	 /* imm */
	ACCESSOR_LOAD,	 /* what stands at imm, size bytes; 8 but for the last one */
};

struct accessor_step {
	uint8_t op;
	uint8_t size;
	int64_t imm;
};

/* vaddr: of the first byte. The number of steps, or -EBADMSG: it does something else. */
int accessor_decode(const uint8_t *code, size_t len, uint64_t vaddr, struct accessor_step *ret);

#endif
