/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Where Perl keeps what bpf/perl.bpf.h walks: the thread's interpreter -> stacks of contexts ->
 * code -> names. Offsets in bytes on x86-64, of builds with interpreter threads, as intrpvar.h,
 * cop.h, cv.h, gv.h, hv.h and sv.h of 5.36.0 and 5.40.1 have them. tests/record/perl/layout.c
 * compares them with the headers of a release.
 */
#ifndef ASCRIBE_PERL_WIRE_H
#define ASCRIBE_PERL_WIRE_H

struct perl_layout {
	__u16 version; /* 36 of Perl 5.36 */
	__u16 size;    /* PL_interp_size: another one is of a build with other options */
	__u16 phase;   /* struct interpreter */
	__u16 unused;
};

#define PERL_KNOWN "Perl 5.36 and 5.40 with threads on x86-64" /* as text */
#define PERL_LAYOUTS 8 /* a power of two; unused ones have version 0. Why 8: php_wire.h */

static const struct perl_layout perl_layouts[PERL_LAYOUTS] = {
	{ 36, 3768, 2512, 0 },
	{ 40, 3768, 2216, 0 },
};

/* A binary_script.version; the way is to PL_current_context. */
#define PERL_VERSION_OF(version, size, way) ((__u32)(version) << 24 | (__u32)(size) << 8 | (way))
#define PERL_VERSION_MINOR(version) ((version) >> 24)
#define PERL_VERSION_SIZE(version) ((version) >> 8 & 0xffff)

/* Beside the way in SCRIPT_LAYOUT: the process runs a program of Perl, and not just calls it. */
#define PERL_IS_PROGRAM 0x80u

#define PERL_NOW_AT 208 /* struct interpreter */

struct perl_now {
	__u64 cop; /* of the statement that runs */
	__u64 unused;
	__u64 stack; /* struct perl_stack */
};

#define PERL_PHASE_IS_RUN 4u

struct perl_stack { /* PERL_SI: calls from C may begin a new one */
	__u64 values, contexts;
	__u64 previous, next;
	__s32 top, max;
	__s32 sub; /* index of the innermost sub, eval or format; -1: none */
	__s32 type;
};

#define PERL_STACK_MAIN 1
#define PERL_STACK_SORT 3

#define PERL_CONTEXT_BYTES 104

struct perl_context { /* PERL_CONTEXT, of a sub, eval or format */
	__u8 type;
	__u8 unused[15];
	__u64 cop; /* of the caller */
	__u64 unused_too[3];
	__u64 back;  /* the operation to go on with; 0: of a call from C, which returns to there */
	__s32 outer; /* index of the next sub, eval or format */
	__s32 pad;
	__u64 unused_last;
	__u64 code; /* CV, of a sub or format */
};

/* perl_context.type */
#define PERL_TYPE(type) ((type) & 0xf)
#define PERL_IS_BLOCK_OF_SORT 0
#define PERL_IS_SUB 9
#define PERL_IS_FORMAT 10
#define PERL_IS_EVAL 11
#define PERL_OF_REGEX 0xc0u  /* a sub: code within a regular expression */
#define PERL_OF_STRING 0x20u /* an eval of a string. Else it is of a file, or: */
#define PERL_OF_BLOCK 0xc0u  /* of a block: eval, try, or what C catches */

#define PERL_COP_AT 32 /* struct cop */

struct perl_cop {
	__u32 unused, line;
	__u64 stash;
	__u64 file; /* ends in a NUL */
};

#define PERL_BODY_AT 32 /* XPVCV, XPVGV and XPVHV, where the first word of an object leads */

struct perl_code {
	__u64 stash, start, root;
	__u64 name; /* PERL_CODE_IS_NAMED: HEK, else GV */
	__u64 file, pads, outside;
	__u32 sequence, flags;
};

#define PERL_CODE_IS_NAMED 0x8000u /* without a GV */

struct perl_glob {
	__u64 name; /* HEK */
	__u64 stash;
};

struct perl_stash { /* struct xpvhv_aux */
	__u64 name; /* HEK, or a list of `names` of them */
	__u64 unused[2];
	__u32 unused_too;
	__s32 names; /* -1 and 0: one. Below -1, the second one counts */
};

struct perl_name { /* HEK; bytes follow, a NUL, flags */
	__u32 hash;
	__u32 length;
};

#define PERL_NAME_IS_UTF8 1u /* of the flags; else Latin-1 */

/* What a frame is: wire_script.kind. */
enum perl_kind {
	PERL_SUB,
	PERL_MAIN,
	PERL_FILE,
	PERL_EVAL,
	PERL_SORT,
	PERL_REGEX,
	PERL_NOTHING /* no frame */
};

#endif
