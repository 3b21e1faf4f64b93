/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Where CPython keeps what bpf/python.bpf.h walks: runtime -> interpreter -> thread -> frames ->
 * code. Offsets in bytes on 64-bit machines, in builds without --with-pydebug. They hold for all
 * releases of a minor version. The structures are those that extensions were built with, or have
 * not changed within it.
 *
 * From 3.13 on each build publishes offsets at the start of _PyRuntime. user/symbols/python.c takes
 * from there where the interpreters and their threads are, and compares the rest with this table.
 */
#ifndef ASCRIBE_PYTHON_WIRE_H
#define ASCRIBE_PYTHON_WIRE_H

/*
 * A version, as binary_script has it: PY_VERSION_HEX >> 16, the offset of an interpreter's first
 * thread, and whether the build has --disable-gil. An offset of 0: the version is not known, or
 * what its build publishes differs from the table.
 */
#define PYTHON_VERSION(number, threads, is_free) \
	((__u32)(number) << 16 | (__u32)(threads) >> 2 | ((is_free) ? 1u : 0u))
#define PYTHON_NUMBER(v) ((v) >> 16)
#define PYTHON_THREADS_AT(v) (((v) & 0xfffeu) << 2)
#define PYTHON_THREADS_AT_MAX 0x3fff8u /* a multiple of 8 */
#define PYTHON_IS_FREE(v) ((v) & 1u)

/* SCRIPT_LAYOUT_WAY: the same offset, in words. */
#define PYTHON_WAY(v) (PYTHON_THREADS_AT(v) / 8)

#define PYTHON_NOWHERE 0xffffu
#define PYTHON_FRAME_BYTES 80 /* of a frame, from its start: all that is read */

struct python_layout {
	__u16 number;  /* PY_VERSION_HEX >> 16 */
	__u16 is_free; /* built with --disable-gil */
	/* Runtime: the thread that holds the GIL, PYTHON_NOWHERE: it is not there */
	__u16 holder;
	/* Runtime: the main interpreter, whose place is script_at itself where it is published */
	__u16 main;
	__u16 threads; /* interpreter: its first thread; 0: it is published */
	__u16 thread_next;
	__u16 thread_id; /* the thread's pthread_t, which is its thread pointer */
	__u16 thread_frame;
	/* In between stands a structure; PYTHON_NOWHERE: the thread has the frame itself */
	__u16 cframe_frame;
	__u16 frame_code; /* from 3.14 on with flags in its low bits */
	__u16 frame_previous;
	__u16 frame_entry; /* a byte that is 1: this one was called from C; or PYTHON_NOWHERE */
	/*
	 * A byte that is PYTHON_OWNER_C: no Python frame, those before it were called from C; or
	 * PYTHON_NOWHERE
	 */
	__u16 frame_owner;
	__u16 code_file, code_line, code_name;
	/*
	 * String (PEP 393): how many characters, how they are kept, which bit of that begins with
	 * the width; the characters, when they are ASCII and when they are not
	 */
	__u16 string_length, string_state, width_bit, ascii, wide;
};

#define PYTHON_THREAD_BYTES 184 /* of a thread's structure, from its start: all that is read */
#define PYTHON_THREAD_BEFORE 0	/* the thread before it in the list */

#define PYTHON_OWNER_C 3 /* or more */
#define PYTHON_TAG 7ull	 /* these bits of a pointer to an object may be flags */

#define PYTHON_KNOWN "CPython 3.11 to 3.15, 3.13t and 3.14t" /* as text */
#define PYTHON_LAYOUTS 8 /* a power of two; unused ones have number 0 */

/* What stands behind the header of objects; in threads and frames of 3.13 and later. */
#define PYTHON_OBJECTS(header, bit) \
	.code_file = 96 + (header), .code_line = 52 + (header), .code_name = 112 + (header), \
	.string_length = (header), .string_state = 16 + (header), .ascii = 24 + (header), \
	.width_bit = (bit), .wide = 40 + (header)
#define PYTHON_FRAMES(id, owner) \
	.holder = PYTHON_NOWHERE, .thread_next = 8, .thread_id = (id), .thread_frame = 72, \
	.cframe_frame = PYTHON_NOWHERE, .frame_previous = 8, .frame_entry = PYTHON_NOWHERE, \
	.frame_owner = (owner)

static const struct python_layout python_layouts[PYTHON_LAYOUTS] = {
	{ .number = 0x030b,
	  .holder = 576,
	  .main = 48,
	  .threads = 16,
	  .thread_next = 8,
	  .thread_id = 152,
	  .thread_frame = 56,
	  .cframe_frame = 8,
	  .frame_code = 32,
	  .frame_previous = 48,
	  .frame_entry = 68,
	  .frame_owner = PYTHON_NOWHERE,
	  .code_file = 112,
	  .code_line = 72,
	  .code_name = 128,
	  .string_length = 16,
	  .string_state = 32,
	  .width_bit = 2,
	  .ascii = 48,
	  .wide = 72 },
	{ .number = 0x030c,
	  .holder = PYTHON_NOWHERE,
	  .main = 48,
	  .threads = 72,
	  .thread_next = 8,
	  .thread_id = 136,
	  .thread_frame = 56,
	  .frame_previous = 8,
	  .frame_entry = PYTHON_NOWHERE,
	  .frame_owner = 70,
	  PYTHON_OBJECTS(16, 2) },
	{ 0x030d, 0, PYTHON_FRAMES(152, 70), PYTHON_OBJECTS(16, 2) },
	{ 0x030d, 1, PYTHON_FRAMES(152, 70), PYTHON_OBJECTS(32, 2) },
	{ 0x030e, 0, PYTHON_FRAMES(152, 74), PYTHON_OBJECTS(16, 2) },
	{ 0x030e, 1, PYTHON_FRAMES(152, 78), PYTHON_OBJECTS(32, 8) },
	{ 0x030f, 0, PYTHON_FRAMES(176, 74), PYTHON_OBJECTS(16, 2) },
};

/* What tells code objects apart stands in these bytes of them. */
#define PYTHON_CODE_FROM 64u
#define PYTHON_CODE_BYTES 88u

#endif
