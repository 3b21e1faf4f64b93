/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * HotSpot's code cache, as bpf/hotspot.bpf.h walks it and user/proc/hotspot.c reads it. All offsets
 * come from the tables that libjvm.so publishes for debuggers (gHotSpotVMStructs and others), read
 * from the memory of the process. A process can only falsify its own frames.
 *
 * A code heap is a range of segments. Its segment map has a byte for each: 0xff for a free one, 0
 * where a block begins, else how many segments to step back. A block is a header and a code blob. A
 * blob is a compiled method (nmethod), or one of the stubs that HotSpot generates.
 */
#ifndef ASCRIBE_HOTSPOT_WIRE_H
#define ASCRIBE_HOTSPOT_WIRE_H

/* A published field: where, and how wide. 8 bytes: an address, less: a number with a sign. */
struct hotspot_field {
	__u16 at;    /* bytes from the start of its structure */
	__u16 bytes; /* 1, 2, 4 or 8; 0: this version has no such field */
};

struct hotspot_layout {
	struct hotspot_field block_length, block_used;		 /* HeapBlock::Header */
	struct hotspot_field name, frame_size, complete, code;	 /* CodeBlob */
	struct hotspot_field method, compile_id, verified_entry; /* nmethod */
	struct hotspot_field const_method;			 /* Method */
	struct hotspot_field constants, const_size, name_index, signature_index; /* ConstMethod */
	struct hotspot_field holder, pool_length;				 /* ConstantPool */
	struct hotspot_field klass_name, klass_constants;
	struct hotspot_field symbol_length, symbol_body;
	/* nmethod: debug information, for inlined calls */
	struct hotspot_field scopes_pcs, scopes_pcs_end, scopes_data, metadata;
	struct hotspot_field immutable_data, mutable_data, relocation_size, comp_level;
	struct hotspot_field pc_offset, pc_scope; /* PcDesc */
	/* sizes in bytes */
	__u16 block_bytes, const_bytes, pool_bytes, pc_bytes;
	__u16 blob_bytes; /* from the start of a block: all that is read of it for a frame */
	__u16 major;	  /* version; 0: it does not say */
};

#define HOTSPOT_HEAPS 4
#define HOTSPOT_BLOB_MAX 512  /* bytes of block and blob headers, at most */
#define HOTSPOT_CONST_MAX 128 /* sizeof(ConstMethod), at most */

struct hotspot_heap {
	__u64 low, high; /* all that it may grow to */
	__u64 segments;	 /* address of the map */
	__u64 shift;	 /* log2 of the bytes of a segment */
};

/* What is known of a process that runs HotSpot. */
struct hotspot_jvm {
	__u64 base; /* the lowest address of its heaps, which lie within 2 GiB */
	__u64 interpreter, interpreter_end;
	__u64 n_heaps;
	struct hotspot_heap heap[HOTSPOT_HEAPS];
	struct hotspot_layout layout;
};

/* For the BPF program: a heap of a process. unwind_range.n_pages is 1 + its index. */
#define HOTSPOT_CODES 512
struct hotspot_code {
	__u64 base, end, interpreter, interpreter_end; /* end: of all heaps */
	__u64 nmethod_name; /* of the program: where an nmethod's name was found to stand */
	struct hotspot_heap heap;
	struct hotspot_layout layout;
};

/*
 * How interpreted frames look, in words from the frame pointer. The first two are published. The
 * other slots are not, so each frame proves them: the method leads to the constant part that holds
 * the bytecode that the frame is at.
 */
#define HOTSPOT_SENDER_SP (-1)
#define HOTSPOT_LAST_SP (-2)
#define HOTSPOT_METHOD (-3)
#define HOTSPOT_BCP (-8)

/*
 * A frame of Java code is a word that is no address:
 *
 *   63     61 60                31 30            0
 *   COMPILED | hash of method, id | pc - base       id: of the compilation, never used twice
 *   STUB     | hash of the name   | pc - base       code without a method
 *
 *   63     61 60                    16 15        0
 *   INTERP.  | address of the Method / 8 | hash of its constant part
 *
 * Code and methods are freed, and their memory is used again. The hash tells what stood there.
 */
#define HOTSPOT_COMPILED 5ull
#define HOTSPOT_STUB 6ull
#define HOTSPOT_INTERPRETED 7ull
#define HOTSPOT_KIND(word) ((word) >> 61)
#define HOTSPOT_IS_FRAME(word) (HOTSPOT_KIND(word) >= HOTSPOT_COMPILED)
#define HOTSPOT_OFFSET(word) ((word) & 0x7fffffff)
#define HOTSPOT_OFFSET_BITS 31
#define HOTSPOT_METHOD_OF(word) ((word) >> 16 << 19 >> 16)

/* The word without its place in the code: one for all places of a compiled method or a stub. */
static inline __u64 hotspot_function(__u64 word)
{
	return HOTSPOT_KIND(word) == HOTSPOT_INTERPRETED ? word : word & ~HOTSPOT_OFFSET(~0ull);
}

static inline __u64 hotspot_mix(__u64 a, __u64 b)
{
	__u64 h = (a ^ (b << 32 | b >> 32)) * 0x9e3779b97f4a7c15ull;
	return h ^ h >> 31;
}

/* kind: COMPILED (method, id) or STUB (name, 0). */
static inline __u64 hotspot_word_at(__u64 kind, __u64 pc, __u64 base, __u64 what, __u64 id)
{
	return kind << 61 | (hotspot_mix(what, id) & 0x3fffffff) << HOTSPOT_OFFSET_BITS |
	       ((pc - base) & 0x7fffffff);
}

/* indexes: of name and signature in the constant pool. */
static inline __u64 hotspot_word_of(__u64 method, __u64 const_method, __u64 indexes)
{
	return HOTSPOT_INTERPRETED << 61 | (method >> 3 & 0x1fffffffffffull) << 16 |
	       (hotspot_mix(const_method, indexes) & 0xffff);
}

#endif
