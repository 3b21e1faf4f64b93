/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From a frame of HotSpot's code to its caller (include/hotspot_wire.h), without a frame pointer.
 * User space finds the code heaps of a process and where its version keeps what is read here.
 *
 *   compiled: pc -> segment map -> block -> blob: the size of its frame
 *   interpreted: the frame pointer leads to caller, method and stack pointer of the caller
 *   stubs: as compiled, or by the frame pointer where they have no size
 *
 * A leaf may not have made its frame yet, or have left it. The instruction that is next shows it:
 * the compilers begin and end all methods alike.
 */
#ifndef ASCRIBE_HOTSPOT_BPF_H
#define ASCRIBE_HOTSPOT_BPF_H

#include "common.bpf.h"
#include "hotspot_wire.h"
#include "unwind_walk.h"
#include "words.bpf.h"

#define HOTSPOT_HOPS 64		     /* back to the start of a block */
#define HOTSPOT_FRAME_MAX (1u << 20) /* bytes */
#define HOTSPOT_NO_FRAME (-1)	     /* not HotSpot's: by the frame pointer */

struct hotspot_cpu {
	__u64 block;	 /* address of what is in blob[] */
	__u64 frame[10]; /* of the interpreter, from word HOTSPOT_BCP on */
	__u64 const_method[HOTSPOT_CONST_MAX / 8 + 1];
	__u64 name;    /* the first bytes of the blob's */
	__u8 code[16]; /* around pc, which is at 8 */
	__u8 blob[HOTSPOT_BLOB_MAX + 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct hotspot_cpu);
} hotspot_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, HOTSPOT_CODES);
	__type(key, __u32);
	__type(value, struct hotspot_code);
} hotspot_codes SEC(".maps");

static __always_inline struct hotspot_cpu *hotspot_cpu(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&hotspot_cpus, &zero);
}

static __always_inline struct hotspot_code *hotspot_code(const struct unwind_state *s)
{
	__u32 i = s->range.n_pages - 1;
	return bpf_map_lookup_elem(&hotspot_codes, &i);
}

/* A field of what was read to `from`, whose length is a power of two and 8 bytes: mask + 9. */
static __always_inline __s64 hotspot_value(const __u8 *from, __u64 mask, __u64 base,
					   struct hotspot_field f)
{
	__u64 at = base + f.at, shift = 64 - 8 * f.bytes;
	at &= mask;
	barrier_var(at);
	__u64 v = *(const __u64 *)(from + (at & mask));
	return (__s64)(v << (shift & 63)) >> (shift & 63);
}

static __always_inline __s64 blob_value(const struct hotspot_cpu *c,
					const struct hotspot_code *code, struct hotspot_field f)
{
	return hotspot_value(c->blob, HOTSPOT_BLOB_MAX - 1, code->layout.block_bytes, f);
}

/* Read the block that holds the state's pc. 0, or there is none. */
__noinline int hotspot_find(__u32 unused)
{
	struct unwind_state *s = unwind_state();
	struct hotspot_cpu *c = hotspot_cpu();
	struct hotspot_code *code = s ? hotspot_code(s) : 0;
	if (!s || !c || !code || unused)
		return -1;
	__u64 rel = (s->exact ? s->pc : s->pc - 1) - code->heap.low;
	__u64 at = rel >> (code->heap.shift & 31);
	__u8 back = 0xff;
	for (int i = 0; i < HOTSPOT_HOPS; i++) {
		if (bpf_probe_read_user(&back, 1, (void *)(code->heap.segments + at)) || !back)
			break;
		if (back == 0xff || back > at)
			return -1;
		at -= back;
	}
	if (back)
		return -1;
	__u64 start = at << (code->heap.shift & 31), n = code->layout.blob_bytes;
	c->block = code->heap.low + start;
	barrier_var(n);
	if (n > HOTSPOT_BLOB_MAX || bpf_probe_read_user(c->blob, n, (void *)c->block))
		return -1;
	__u64 length =
		(__u64)hotspot_value(c->blob, HOTSPOT_BLOB_MAX - 1, 0, code->layout.block_length) &
		0xffffffff;
	if (!(hotspot_value(c->blob, HOTSPOT_BLOB_MAX - 1, 0, code->layout.block_used) & 0xff))
		return -1;
	return rel - start < length << (code->heap.shift & 31) ? 0 : -1;
}

#define NAME_NMETHOD 0x00646f6874656d6eull /* "nmethod", with its end */
#define NAME_NATIVE 0x6e2065766974616eull  /* "native n"method */
#define NAME_VTABLE 0x6320656c62617476ull  /* "vtable c"hunks */
#define NAME_ADAPTER 0x204932432f433249ull /* "I2C/C2I "adapters */

/* Name the state's frame by the blob that was read. 1: an nmethod. */
__noinline int hotspot_name(__u32 unused)
{
	struct unwind_state *s = unwind_state();
	struct hotspot_cpu *c = hotspot_cpu();
	struct hotspot_code *code = s ? hotspot_code(s) : 0;
	if (!s || !c || !code || unused)
		return 0;
	__u64 name = (__u64)blob_value(c, code, code->layout.name);
	c->name = NAME_NMETHOD;
	if (name != code->nmethod_name) {
		if (bpf_probe_read_user(&c->name, sizeof(c->name), (void *)name))
			c->name = 0;
		if (c->name == NAME_NMETHOD)
			code->nmethod_name = name;
	}
	bool is = c->name == NAME_NMETHOD || c->name == NAME_NATIVE;
	__u64 what = is ? (__u64)blob_value(c, code, code->layout.method) : name;
	__u64 id = is ? (__u64)blob_value(c, code, code->layout.compile_id) & 0xffffffff : 0;
	s->word =
		hotspot_word_at(is ? HOTSPOT_COMPILED : HOTSPOT_STUB, s->pc, code->base, what, id);
	return is;
}

/*
 * How far above the stack pointer the return address of the leaf is, where its frame is not made or
 * is left; -1: the frame is there. `in_start`: before the place where HotSpot says that it is;
 * `before`: even before the method's entry.
 */
__noinline int hotspot_bare(__u32 in_start, __u32 before)
{
	struct unwind_state *s = unwind_state();
	struct hotspot_cpu *c = hotspot_cpu();
	if (!s || !c || bpf_probe_read_user(c->code, sizeof(c->code), (void *)(s->pc - 8)))
		return -1;
	const __u8 *p = c->code + 8;
	__u32 next = *(const __u32 *)p & 0xffffff, last = *(const __u32 *)(p - 4) >> 8;
	if (p[0] == 0x55 || p[0] == 0xc3) /* push %rbp; ret */
		return 0;
	if (in_start) {
		if (before || next == 0x248489) /* mov %eax, -x(%rsp): is there room? */
			return 0;
		if (next == 0xec8b48 || next == 0xe58948) /* mov %rsp, %rbp */
			return 8;
		if (next == 0xec8148 || next == 0xec8348) /* sub $x, %rsp */
			return p[-1] == 0x55 || last == 0xec8b48 || last == 0xe58948 ? 8 : 0;
		return -1;
	}
	if (p[0] == 0x5d) /* pop %rbp */
		return 8;
	/* cmp x(%r15), %rsp; ja: is there a safepoint? Behind pop, before ret. */
	if (next == 0xa73b49 || next == 0x673b49)
		return 0;
	if (p[0] == 0x0f && p[1] == 0x87)
		return (*(const __u32 *)(p - 7) & 0xffffff) == 0xa73b49 ||
				       (*(const __u32 *)(p - 4) & 0xffffff) == 0x673b49
			       ? 0
			       : -1;
	return -1;
}

/*
 * The state's frame is left: its caller is at pc, with these registers. pc_at: where pc was read,
 * behind fp; 0: elsewhere.
 */
static __always_inline int hotspot_leave(struct unwind_state *s, __u64 pc, __u64 sp, __u64 fp,
					 __u64 pc_at)
{
	if (!pc)
		return COUNTER_rooted;
	if (sp <= s->sp || sp - s->sp > HOTSPOT_FRAME_MAX)
		return COUNTER_unwind_broken;
	s->pc = pc;
	s->sp = sp;
	s->fp = fp;
	s->leaf = s->exact = s->by_fp = s->sp_lost = s->lr_known = 0;
	s->bx_at = UNWIND_BX_LOST;
	s->pc_at = pc_at;
	s->fp_at = pc_at ? pc_at - 8 : 0;
	return 0;
}

/* The return address is `off` bytes above the stack pointer, the caller's fp below it if `off`. */
static __always_inline int hotspot_leave_bare(struct unwind_state *s, __u64 off)
{
	__u64 pc, fp = s->fp, sp = s->sp;
	if (!read_word(sp + off, &pc) || (off && !read_word(sp, &fp)))
		return COUNTER_unwind_fault;
	return hotspot_leave(s, pc, sp + off + 8, fp, 0);
}

/* The frame of the blob that was read. */
__noinline int hotspot_compiled(__u32 is_nmethod)
{
	struct unwind_state *s = unwind_state();
	struct hotspot_cpu *c = hotspot_cpu();
	struct hotspot_code *code = s ? hotspot_code(s) : 0;
	struct {
		__u64 fp, pc;
	} saved;
	if (!s || !c || !code)
		return HOTSPOT_NO_FRAME;
	__u64 size = (__u64)blob_value(c, code, code->layout.frame_size) * 8;
	if (size > HOTSPOT_FRAME_MAX)
		size = 0;
	if (s->exact) {
		__u64 blob = c->block + code->layout.block_bytes;
		__u64 begin = (__u64)blob_value(c, code, code->layout.code);
		__u64 entry = (__u64)blob_value(c, code, code->layout.verified_entry);
		__s64 complete = blob_value(c, code, code->layout.complete);
		if (code->layout.code.bytes < 8)
			begin += blob;
		if (code->layout.verified_entry.bytes < 8)
			entry += begin;
		__s64 rel = (__s64)(s->pc - begin);
		int off = hotspot_bare(rel < complete, is_nmethod && s->pc < entry);
		if (off >= 0)
			return hotspot_leave_bare(s, (__u64)off);
		if (!size && (c->name == NAME_VTABLE || c->name == NAME_ADAPTER))
			return hotspot_leave_bare(s, 0);
	}
	if (size < 16)
		return HOTSPOT_NO_FRAME;
	__u64 sp = s->sp + size;
	if (unwind_read(&saved, sizeof(saved), sp - 16))
		return COUNTER_unwind_fault;
	return hotspot_leave(s, saved.pc, sp, saved.fp, sp - 8);
}

/* Read the constant part of a method and name the state's frame by it. Its address, or 0. */
__noinline __u64 hotspot_method(__u64 method)
{
	struct unwind_state *s = unwind_state();
	struct hotspot_cpu *c = hotspot_cpu();
	struct hotspot_code *code = s ? hotspot_code(s) : 0;
	__u64 at;
	if (!s || !c || !code || !method || method & 7 || method >> 48 ||
	    !read_word(method + code->layout.const_method.at, &at) || !at || at & 7)
		return 0;
	__u64 n = code->layout.const_bytes;
	barrier_var(n);
	if (n > HOTSPOT_CONST_MAX || bpf_probe_read_user(c->const_method, n, (void *)at))
		return 0;
	const __u8 *from = (const __u8 *)c->const_method;
	__u64 name = (__u64)hotspot_value(from, HOTSPOT_CONST_MAX - 1, 0, code->layout.name_index),
	      signature = (__u64)hotspot_value(from, HOTSPOT_CONST_MAX - 1, 0,
					       code->layout.signature_index);
	s->word = hotspot_word_of(method, at, (name & 0xffff) << 16 | (signature & 0xffff));
	return at;
}

/* Does the interpreter's frame that was read hold a method and a place in its bytecode? */
__noinline int hotspot_is_interpreted(__u32 unused)
{
	struct unwind_state *s = unwind_state();
	struct hotspot_cpu *c = hotspot_cpu();
	struct hotspot_code *code = s ? hotspot_code(s) : 0;
	if (!s || !c || !code || unused)
		return 0;
	__u64 at = hotspot_method(c->frame[HOTSPOT_METHOD - HOTSPOT_BCP]), bcp = c->frame[0];
	__u64 size = (__u64)hotspot_value((const __u8 *)c->const_method, HOTSPOT_CONST_MAX - 1, 0,
					  code->layout.const_size) *
		     8;
	/* Native methods have no bytecode. */
	if (at && (!bcp || (bcp - at >= code->layout.const_bytes && bcp - at < size)))
		return 1;
	s->word = 0;
	return 0;
}

static __always_inline bool in_heaps(const struct hotspot_code *code, __u64 pc)
{
	return pc - code->base < code->end - code->base;
}

/*
 * The leaf is in the interpreter and has no frame yet: the registers hold method and return
 * address, or the latter is on the stack.
 */
__noinline int hotspot_entering(__u32 unused)
{
	struct unwind_state *s = unwind_state();
	struct hotspot_cpu *c = hotspot_cpu();
	struct hotspot_code *code = s ? hotspot_code(s) : 0;
	if (!s || !c || !code || unused || !s->leaf)
		return HOTSPOT_NO_FRAME;
	__u64 sp = s->sp, fp = s->fp, up = fp - sp, sender = s->reg[13], pc;
	__u64 ret = c->frame[1 - HOTSPOT_BCP];
	if (up < 64 && in_heaps(code, ret)) {
		pc = ret;
		fp = c->frame[0 - HOTSPOT_BCP];
	} else if (!(read_word(sp, &pc) && in_heaps(code, pc))) {
		pc = s->reg[0];
		if (!in_heaps(code, pc))
			return HOTSPOT_NO_FRAME;
	}
	if (!hotspot_method(s->reg[UNWIND_X86_BX]))
		s->word = 0;
	if (sender <= sp || sender - sp > HOTSPOT_FRAME_MAX)
		sender = sp + 8;
	return hotspot_leave(s, pc, sender, fp, 0);
}

/* As hotspot_step, for the interpreter; HOTSPOT_NO_FRAME: there is no frame yet, or none. */
__noinline int hotspot_interpreted(__u32 unused)
{
	struct unwind_state *s = unwind_state();
	struct hotspot_cpu *c = hotspot_cpu();
	if (!s || !c || unused)
		return HOTSPOT_NO_FRAME;
	__u64 fp = s->fp;
	if (fp & 7 || fp < s->sp ||
	    bpf_probe_read_user(c->frame, sizeof(c->frame), (void *)(fp + 8 * HOTSPOT_BCP)))
		return HOTSPOT_NO_FRAME;
	if (!hotspot_is_interpreted(0))
		return HOTSPOT_NO_FRAME;
	__u64 sender = c->frame[HOTSPOT_SENDER_SP - HOTSPOT_BCP];
	if (sender < fp + 16 || sender - fp > HOTSPOT_FRAME_MAX)
		sender = fp + 16;
	s->method = c->frame[HOTSPOT_METHOD - HOTSPOT_BCP];
	s->method_at = fp + 8 * HOTSPOT_METHOD;
	return hotspot_leave(s, c->frame[1 - HOTSPOT_BCP], sender, c->frame[-HOTSPOT_BCP], fp + 8);
}

/* To the caller of the state's frame, in a code heap: 0, the counter that says why not, or -1. */
__noinline int hotspot_step(__u32 unused)
{
	struct unwind_state *s = unwind_state();
	struct hotspot_code *code = s ? hotspot_code(s) : 0;
	int end = HOTSPOT_NO_FRAME;
	if (!s || !code || unused)
		return end;
	if (s->pc - code->interpreter < code->interpreter_end - code->interpreter) {
		/* One after the other: together they need too much stack for Linux 6.1. */
		end = hotspot_interpreted(0);
		end = end == HOTSPOT_NO_FRAME ? hotspot_entering(0) : end;
	} else if (!hotspot_find(0)) {
		end = hotspot_compiled((__u32)hotspot_name(0));
	}
	unwind_put(0);
	if (s->word)
		words_tell(s->word, hotspot_function(s->word));
	return end;
}

#endif
