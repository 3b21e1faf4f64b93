/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Unwind rules as user/unwind compiles them from call frame information and bpf/unwind.bpf.h
 * follows them.
 *
 * A row holds for the code from its address to the next row of its page: (low 12 bits of the
 * address) << 20 | rule. Rule 0 is "no rule". Rows of a page ascend, the first one says what holds
 * where the page begins. Pages and rules live in one array each, rows in shards that are made when
 * they are needed; everything is written by user space through shared memory:
 *
 *   proc_entry.ranges -> struct unwind_range [n], sorted by address, one per executable mapping
 *     -> struct unwind_page, one per 4 KiB of a binary's text -> its rows -> struct unwind_rule
 *
 * A range or page that is being replaced is not reused before every CPU has been outside of the
 * program once.
 */
#ifndef ASCRIBE_UNWIND_WIRE_H
#define ASCRIBE_UNWIND_WIRE_H

#define UNWIND_PAGE_BITS 12
#define UNWIND_RULE_BITS 20
#define UNWIND_RULE_MASK ((1u << UNWIND_RULE_BITS) - 1)

#define UNWIND_SHARD_BITS 18 /* rows of a shard: 1 MiB */
#define UNWIND_SHARDS 64     /* 64 MiB of rows at most */
/* Rows are given out in blocks; a page lies in one */
#define UNWIND_BLOCK_BITS 11
/* A page with more has no rules; real ones have 20 to 1,300 */
#define UNWIND_PAGE_ROWS_MAX (1u << UNWIND_BLOCK_BITS)
#define UNWIND_PAGES (1u << 18) /* 1 GiB of text in all, 2 MiB */
#define UNWIND_RULES (1u << 15) /* a whole Debian host has 5,000; 512 KiB */
/* Mappings of the processes that are sampled, 1 MiB */
#define UNWIND_RANGES (1u << 15)
#define UNWIND_PROC_RANGES_MAX 1024 /* of one process */

/* Where the canonical frame address (the stack pointer before the call) is. */
enum unwind_cfa {
	UNWIND_CFA_NONE = 0,
	UNWIND_CFA_REG = 1,   /* reg + cfa_off; cfa_add says where the caller's rbx is */
	UNWIND_CFA_DEREF = 2, /* *(reg + cfa_off) + cfa_add; rbx is lost */
	/* *(sp + 8 * reg + cfa_off) + cfa_add: OpenSSL's Montgomery multiplication */
	UNWIND_CFA_INDEX = 4,
	UNWIND_CFA_PLT = 3, /* sp + cfa_off, and 8 more where (pc & 15) >= cfa_add */
	/* reg + cfa_off: Go's, where the caller's frame may be on another stack; rbx is lost */
	UNWIND_CFA_GO = 5,
};

/* Where the caller's frame pointer is. */
enum unwind_fp {
	UNWIND_FP_SAME = 0,
	UNWIND_FP_CFA = 1,   /* *(cfa + fp_off) */
	UNWIND_FP_AT_SP = 2, /* *(sp + fp_off): signal frames */
	UNWIND_FP_AT_FP = 3, /* *(fp + fp_off): realigned stacks */
	UNWIND_FP_LOST = 4,
};

/* Where the return address is. */
enum unwind_ra {
	UNWIND_RA_ROOT = 0,  /* there is none: the outermost frame */
	UNWIND_RA_CFA = 1,   /* *(cfa + ra_off) */
	UNWIND_RA_AT_SP = 2, /* *(sp + ra_off) */
	UNWIND_RA_AT_FP = 3,
	/* In register ra_off: of the leaf, or on arm64 what a signal interrupted */
	UNWIND_RA_REG = 4,
	UNWIND_RA_KIND = 0x7f,
	UNWIND_RA_SIGNAL = 0x80, /* a signal frame: what it returns to is not behind a call */
};

/*
 * Where the caller's rbx is, when cfa is UNWIND_CFA_REG: the one register besides stack and frame
 * pointer that is needed above the leaf. On x86-64 the dynamic linker's trampolines need it, for
 * calls that are bound when they are first made.
 */
#define UNWIND_BX_SAME 0
#define UNWIND_BX_LOST 1 /* any other number: at *(cfa + cfa_add) */

struct unwind_rule {
	__u8 cfa; /* enum unwind_cfa */
	__u8 reg; /* DWARF number */
	__u8 fp;  /* enum unwind_fp */
	__u8 ra;  /* enum unwind_ra */
	__s32 cfa_off;
	__s32 fp_off;
	__s16 cfa_add;
	__s16 ra_off;
};

/*
 * DWARF numbers. x86-64: 0 rax 1 rdx 2 rcx 3 rbx 4 rsi 5 rdi 6 rbp 7 rsp 8..15 r8..r15 16 return
 * address. arm64: 0..30 x0..x30, of which 29 is the frame pointer and 30 the return address, 31 the
 * stack pointer.
 */
#define UNWIND_X86_BX 3
#define UNWIND_X86_FP 6
#define UNWIND_X86_SP 7
#define UNWIND_X86_RA 16
#define UNWIND_ARM_FP 29
#define UNWIND_ARM_LR 30
#define UNWIND_ARM_SP 31

/*
 * Those of the machine whose threads are walked. UNWIND_FOR_ARM64 is also set by tests, on other
 * machines.
 */
#if defined(__TARGET_ARCH_arm64) || defined(__aarch64__)
#define UNWIND_FOR_ARM64
#endif
#if defined(UNWIND_FOR_ARM64)
#define UNWIND_REG_FP UNWIND_ARM_FP
#define UNWIND_REG_SP UNWIND_ARM_SP
#define UNWIND_REGS 32
#else
#define UNWIND_REG_FP UNWIND_X86_FP
#define UNWIND_REG_SP UNWIND_X86_SP
#define UNWIND_REGS 16
#endif

/* A rule that was found: of one CPU, by address and list. */
struct recalled {
	__u64 at;
	__u32 list, rule; /* rule 0: none */
};

struct unwind_page {
	__u32 first; /* row: shard << UNWIND_SHARD_BITS | place */
	__u32 n;     /* rows, at most UNWIND_PAGE_ROWS_MAX; 0: no rules */
};

/* An executable mapping. (address - bias) >> 12 < n_pages tells the page behind `page`. */
struct unwind_range {
	__u64 start, end;
	__u64 bias;
	__u32 page;    /* or UNWIND_PAGE_LATE, with n_pages 0; or UNWIND_PAGE_MADE */
	__u32 n_pages; /* 0: no rules for any of it */
};

/*
 * No stack has led here yet, so the rules are not compiled: the walk ends, and user space goes on
 * with it.
 */
#define UNWIND_PAGE_LATE (~0u)
/* Code that a runtime makes, which the program can walk: n_pages says where it is described */
#define UNWIND_PAGE_MADE (~1u)

/*
 * proc_entry.ranges: the first of a list, how many, 1 + the index of V8's layout or 0, and a number
 * that no other list has: what an address means in a list never changes.
 */
#define UNWIND_LIST(first, n, v8, number) \
	((__u64)(number) << 33 | (__u64)(v8) << 26 | (__u64)(n) << 15 | (first))
#define UNWIND_LIST_FIRST(list) ((__u32)(list) & 0x7fff)
#define UNWIND_LIST_N(list) ((__u32)((list) >> 15) & 0x7ff)
#define UNWIND_LIST_V8(list) ((__u32)((list) >> 26) & 0x7f)
#define UNWIND_LIST_NUMBER(list) ((__u32)((list) >> 33))
#define UNWIND_LIST_NUMBERS (1u << 31) /* then they begin anew */

_Static_assert(UNWIND_RANGES <= 1 << 15 && UNWIND_PROC_RANGES_MAX < 1 << 11, "UNWIND_LIST");
_Static_assert(sizeof(struct unwind_rule) == 16, "unwind_rule");
_Static_assert(sizeof(struct unwind_page) == 8, "unwind_page");
_Static_assert(sizeof(struct unwind_range) == 32, "unwind_range");

#endif
