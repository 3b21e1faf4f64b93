/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Who made a goroutine: what bpf/go_creators.bpf.h reads from the runtime's struct g, and how the
 * frames of it stand in a stack. User space knows the offsets by the version of Go (elf/go.h). A
 * process can only falsify its own frames.
 *
 *   g ->  0 | stack: lowest address | highest |  ...  48 | m |  ...  gopc | ancestors |
 *         m -> ... curg: the goroutine that the thread runs, where g is the runtime's own
 *         ancestors -> slice of {pcs, goid, gopc}, 40 bytes each: with GODEBUG=tracebackancestors=N
 */
#ifndef ASCRIBE_GO_WIRE_H
#define ASCRIBE_GO_WIRE_H

#define GO_KNOWN "1.17 to 1.27" /* as text */

#define GO_G_M 48
#define GO_ANCESTOR_BYTES 40
#define GO_ANCESTOR_GOPC 32

/*
 * proc_entry.go: where a thread has its g, from the thread pointer, or that register x28 holds it;
 * the offsets of curg in m and of gopc in g. 0: not Go, or a version that is not known.
 */
#define GO_IN_REGISTER 0x10000ull
#define GO_LAYOUT(at, in_register, curg, gopc) \
	((__u64)(__u32)(at) << 32 | ((in_register) ? GO_IN_REGISTER : 0) | \
	 (__u64)((curg) / 8) << 8 | (__u64)((gopc) / 8))
#define GO_LAYOUT_AT(go) ((__s32)((go) >> 32))
#define GO_LAYOUT_CURG(go) (((go) >> 8 & 0xff) * 8)
#define GO_LAYOUT_GOPC(go) (((go) & 0xff) * 8)

/*
 * A word behind the outermost frame of a goroutine: where the go statement returns to that made the
 * goroutine, and then those that made its makers.
 *
 *   63     61 60                                                          0
 *   CREATOR  | address behind the call of the go statement
 */
#define GO_CREATOR 1ull
#define GO_IS_CREATOR(word) ((word) >> 61 == GO_CREATOR)
#define GO_CREATOR_WORD(pc) (GO_CREATOR << 61 | (pc))
#define GO_CREATOR_PC(word) ((word) & ((1ull << 61) - 1))

#define GO_CREATORS_MAX 8 /* of one stack */

#endif
