/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Where CPython keeps what bpf/python.bpf.h walks: runtime -> interpreter -> thread -> frames ->
 * code. Offsets in bytes on 64-bit machines, in builds without --with-pydebug and --disable-gil.
 * They hold for all releases of a minor version. The structures are those that extensions were
 * built with, or have not changed within it.
 */
#ifndef ASCRIBE_PYTHON_WIRE_H
#define ASCRIBE_PYTHON_WIRE_H

#define PYTHON_NOWHERE 0xffffu
#define PYTHON_FRAME_BYTES 72 /* of a frame, from its start: all that is read */

struct python_layout {
	__u32 version; /* PY_VERSION_HEX >> 16 */
	/* Runtime: the thread that holds the GIL, PYTHON_NOWHERE: it is not there */
	__u16 holder;
	__u16 main;    /* runtime: the main interpreter */
	__u16 threads; /* interpreter: its first thread */
	__u16 thread_next;
	__u16 thread_id; /* the thread's pthread_t, which is its thread pointer */
	__u16 thread_frame;
	/* In between stands a structure; PYTHON_NOWHERE: the thread has the frame itself */
	__u16 cframe_frame;
	__u16 frame_code;
	__u16 frame_previous;
	__u16 frame_entry; /* a byte that is 1: this one was called from C; or PYTHON_NOWHERE */
	/*
	 * A byte that is PYTHON_OWNER_C: no Python frame, those before it were called from C; or
	 * PYTHON_NOWHERE
	 */
	__u16 frame_owner;
	__u16 code_file, code_line, code_name;
	/* String: its characters, when they are ASCII and when they are not */
	__u16 ascii, wide;
};

#define PYTHON_OWNER_C 3

#define PYTHON_KNOWN "CPython 3.11 to 3.13" /* as text */
#define PYTHON_LAYOUTS 4		    /* a power of two; unused ones have version 0 */

static const struct python_layout python_layouts[PYTHON_LAYOUTS] = {
	{ 0x030b, 576, 48, 16, 8, 152, 56, 8, 32, 48, 68, PYTHON_NOWHERE, 112, 72, 128, 48, 72 },
	{ 0x030c, PYTHON_NOWHERE, 48, 72, 8, 136, 56, 0, 0, 8, PYTHON_NOWHERE, 70, 112, 68, 128, 40,
	  56 },
	{ 0x030d, PYTHON_NOWHERE, 640, 7344, 8, 152, 72, PYTHON_NOWHERE, 0, 8, PYTHON_NOWHERE, 70,
	  112, 68, 128, 40, 56 },
};

/* A string object (PEP 393): how many characters, and how they are kept. */
#define PYTHON_STRING_LENGTH 16
#define PYTHON_STRING_STATE 32

/* What tells code objects apart stands in these bytes of them. */
#define PYTHON_CODE_FROM 64u
#define PYTHON_CODE_BYTES 72u

#endif
