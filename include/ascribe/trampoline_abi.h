/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Labels by trampoline: what a program keeps and a profiler reads (docs/labels.md, part 3).
 *
 * Work runs below a frame of one of `count` small functions, `step` bytes apart from `code` on;
 * which one says, with the time of the sample, what the label was. An ELF note "ascribe" of type 2
 * leads to the table, as that of type 1 leads to the descriptor (label_abi.h).
 *
 * Rules for writers: a trampoline has one label at a time. A binding is written between two stores
 * to its sequence numbers (begin, then end); ending it is one store to to_ns. Rules for readers:
 * trust nothing.
 */
#ifndef ASCRIBE_TRAMPOLINE_ABI_H
#define ASCRIBE_TRAMPOLINE_ABI_H

#include "label_abi.h"

#define ASCRIBE_TRAMPOLINES_NOTE_TYPE 2
#define ASCRIBE_TRAMPOLINES_MAGIC 0x54435341u /* "ASCT" */
#define ASCRIBE_TRAMPOLINES_ABI 1
#define ASCRIBE_TRAMPOLINES_MAX 4096 /* that a reader accepts */
/*
 * Of a module. A program may define another number, in decimal digits: the same in all its files,
 * else it does not link.
 */
#ifndef ASCRIBE_TRAMPOLINES
#define ASCRIBE_TRAMPOLINES 256
#endif
#define ASCRIBE_BINDINGS 8 /* kept for each, the newest ones */
#define ASCRIBE_BINDINGS_MAX 64
#define ASCRIBE_BINDING_TEXT 216
#define ASCRIBE_BINDING_CLOCK 7 /* CLOCK_BOOTTIME */

struct ascribe_binding {
	ascribe_u64 begin; /* its number among those of its trampoline, from 1 on; 0: none */
	ascribe_u64 from_ns;
	ascribe_u64 to_ns; /* 0: still bound */
	ascribe_u32 len;   /* of text */
	ascribe_u32 reserved;
	/*
	 * Labels, any of them once: {u8 type, u8 key length, u8 value length, key, value}; types
	 * and values as in a key table.
	 */
	ascribe_u8 text[ASCRIBE_BINDING_TEXT];
	ascribe_u64 end; /* as begin, else it is being written */
};

struct ascribe_trampoline_table {
	ascribe_u32 magic;
	ascribe_u16 abi;
	ascribe_u16 size; /* of this structure; the bindings stand behind it */
	ascribe_u32 count;
	ascribe_u32 step;  /* bytes of code of each */
	ascribe_u64 code;  /* address of the first */
	ascribe_u32 depth; /* bindings of each: binding[trampoline * depth + number % depth] */
	ascribe_u32 binding_size;
	ascribe_u32 clock;
	ascribe_u32 reserved[7];
};

ASCRIBE_ABI_ASSERT(sizeof(struct ascribe_binding) == 256, "binding");
ASCRIBE_ABI_ASSERT(sizeof(struct ascribe_trampoline_table) == 64, "trampoline table");

#endif
