/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Where LuaJIT keeps what bpf/luajit.bpf.h walks: the interpreter's frame on the C stack ->
 * lua_State -> frames on its Lua stack -> functions -> names. Offsets in bytes on x86-64 with
 * LJ_GC64, as lj_obj.h, lj_frame.h, lj_jit.h, lj_dispatch.h and lj_bc.h of 2.1.0-beta3 of March
 * 2022 and 2.1.1737090214 have them. tests/record/luajit/layout.c compares them with the headers of
 * a release.
 */
#ifndef ASCRIBE_LUAJIT_WIRE_H
#define ASCRIBE_LUAJIT_WIRE_H

/* A version does not tell the layouts apart, so two offsets in the code of the file do. */
struct luajit_layout {
	__u32 hook;	/* global_State: hookf, as lua_gethook reads it */
	__u32 dispatch; /* from global_State to the dispatch table, as the interpreter adds it */
};

#define LUAJIT_KNOWN "LuaJIT 2.1 of Debian 12 and 13 on x86-64" /* as text */
/* A power of two; unused ones have hook 0. Not below 8: see php_wire.h. */
#define LUAJIT_LAYOUTS 8

static const struct luajit_layout luajit_layouts[LUAJIT_LAYOUTS] = {
	{ 336, 3968 }, /* 2.1.0-beta3, 2022-03-20 */
	{ 336, 4016 }, /* 2.1.1737090214, of OpenResty */
};

/* A binary_script.version. LUAJIT_UNUSUAL: the offsets are not found. */
#define LUAJIT_VERSION(hook, dispatch) ((__u32)(hook) << 16 | (__u32)(dispatch))
#define LUAJIT_UNUSUAL 1u

/* The interpreter's frame on the C stack, by what its stack pointer is while it runs. */
#define LUAJIT_FRAME_STATE 16u /* CFRAME_OFS_L */
#define LUAJIT_FRAME_PC 24u    /* of the bytecode, saved for most calls from it */
#define LUAJIT_FRAME_BYTES 80u /* up to its caller's; the last word is the return address */
#define LUAJIT_FRAME_BX 56u
#define LUAJIT_FRAME_BP 64u /* and the return address after it */

/* DWARF numbers of the registers that the interpreter keeps these in, and compiled code the last */
#define LUAJIT_REG_BASE 1
#define LUAJIT_REG_PC 3
#define LUAJIT_REG_DISPATCH 14

struct luajit_state { /* lua_State, from glref on */
	__u64 global, gclist, base, top, max, stack, open, env;
	__u64 frame; /* the innermost of the interpreter; the lowest bits are flags */
};
#define LUAJIT_STATE_GLOBAL 16u /* lua_State: glref */

#define LUAJIT_GLOBAL_STATE 368u /* global_State: cur_L */
#define LUAJIT_GLOBAL_BASE 376u	 /* jit_base: of the running compiled code; 0: none runs */

/*
 * A frame on the Lua stack. Two words below its base: the function, and how to find the caller: the
 * bytecode after the call, or the distance, with the kind in the lowest bits.
 */
struct luajit_frame {
	__u64 function;
	__u64 link;
};
#define LUAJIT_LINK_TYPE 7u
#define LUAJIT_LINK_LUA 0u  /* with a mask of 3 */
#define LUAJIT_LINK_C 1u    /* with a mask of 3: called from C */
#define LUAJIT_LINK_CONT 2u /* called for a metamethod */
#define LUAJIT_LINK_VARG 3u /* the same function once more, above its extra arguments */
#define LUAJIT_CONT_CALLBACK 1u
#define LUAJIT_POINTER(v) ((v) & ((1ull << 47) - 1))

struct luajit_function { /* GCfunc, its beginning */
	__u64 next;
	__u8 marked, type, builtin, n_upvalues; /* builtin: ffid */
	__u32 pad;
	__u64 env, gclist, code;
	__u64 c; /* GCfuncC: f */
};
#define LUAJIT_FUNCTION 8u /* luajit_function.type */
#define LUAJIT_IS_LUA 0u
#define LUAJIT_IS_C 1u /* any other: a builtin */

struct luajit_proto { /* GCproto; the bytecode follows */
	__u64 next;
	__u8 marked, type, n_params, frame_size;
	__u32 n_code;
	__u64 unused, gclist;
	__u64 constants; /* strings stand below */
	__u64 upvalues;
	__u32 n_objects, n_numbers, bytes;
	__u8 n_upvalues, flags;
	__u16 trace;
	__u64 chunk; /* GCstr */
	__u32 line, n_lines;
	__u64 lines, upvalue_names, local_names;
};
#define LUAJIT_NO_LINE (~0u) /* luajit_proto.line: bytecode of LuaJIT's own */

struct luajit_string { /* GCstr; its bytes follow */
	__u64 next;
	__u32 marks;
	__u32 id; /* of its making: no two strings have the same */
	__u32 hash, length;
};

struct luajit_code { /* what is read of a function; the last two of one in Lua */
	struct luajit_function function;
	struct luajit_proto proto;
	struct luajit_string chunk;
};

/* Bytecode: u8 operation, u8 A, then u8 C, u8 B, or u16 D */
#define LUAJIT_A(insn) ((insn) >> 8 & 0xff)
#define LUAJIT_D(insn) ((insn) >> 16)
#define LUAJIT_C(insn) ((insn) >> 16 & 0xff)
enum luajit_operation {
	LUAJIT_MOV = 18,
	LUAJIT_KNIL = 44,
	LUAJIT_UGET = 45,
	LUAJIT_GGET = 54,
	LUAJIT_TGETS = 57,
	LUAJIT_CALLM = 65, /* the first of those that call */
	LUAJIT_ITERC = 69,
	LUAJIT_ITERN = 70, /* the last one */
};
/* Operations that write to slot A, and to slots from A on; bits by number. No later ones do. */
#define LUAJIT_WRITES_A 0x0f782ffffffc3000ull
#define LUAJIT_WRITES_FROM_A 0x8000100000000000ull /* below 64 */
#define LUAJIT_WRITES_FROM_A_64 0x1fe3feull	   /* from 64 on */

/*
 * wire_script.kind, from the lowest byte on: enum luajit_named, enum luajit_what, and the number of
 * a builtin. Where the name is to be found in a list, text[SCRIPT_NAME] and text[SCRIPT_CLASS] are
 * 2 * SCRIPT_TEXT_MAX bytes of that, and their widths say which one. The width of text[SCRIPT_FILE]
 * is the first byte of the chunk's name, which the text lacks, and above that the function's line.
 */
enum luajit_named {
	LUAJIT_UNNAMED,
	LUAJIT_NAMED,	   /* text[SCRIPT_NAME] */
	LUAJIT_UPVALUE,	   /* widths: number, 0 */
	LUAJIT_LOCAL,	   /* widths: slot, position in the bytecode */
	LUAJIT_METAMETHOD, /* widths: operation, 0 */
};
enum luajit_what { LUAJIT_LUA, LUAJIT_CHUNK, LUAJIT_C, LUAJIT_BUILTIN };
#define LUAJIT_KIND(named, what, number) \
	((__u32)(number) << 16 | (__u32)(what) << 8 | (__u32)(named))
#define LUAJIT_FILE_WIDTH(first, line) ((__u32)(line) << 8 | (first))

#endif
