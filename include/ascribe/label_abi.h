/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * The label ABI: what an application publishes and what a profiler reads.
 *
 * Shared by three readers of the same bytes: the application (label.h), the BPF program
 * (bpf/labels.bpf.h) and the daemon (user/labels/). Only layouts and constants live here; it
 * compiles freestanding, in C and C++, on the host and for BPF.
 *
 *   thread          slot (8 bytes of TLS) ----> header [attributes ...]
 *                                         ^--- the prefix stands in the 32 bytes before it
 *   module (.so or executable)
 *     ELF note "ascribe" --(relative offset)--> descriptor --> key table
 *
 * Rules for writers
 *  1. A record is immutable from the moment its address is stored in a slot until the slot has
 *     moved on.
 *  2. Publishing is one aligned 8-byte store, after a compiler barrier. Detaching is the same store
 *     with the previous address (or 0), before the memory of the record is reused.
 *  3. The key table only grows: text first, then `bytes` by a release store.
 *  4. descriptor.tp_offset stays 0 until the slot may be read.
 * Rules for readers: trust nothing. Every field is another process's memory: check magic, abi and
 * sizes.
 *
 * The header and attributes follow OpenTelemetry's thread-context record (OTEP 4947): packed,
 * attributes are {u8 key, u8 len, bytes[len]}, the last duplicate of a key wins. Values are text; a
 * key whose table entry says integer has a decimal int64 as its text.
 */
#ifndef ASCRIBE_LABEL_ABI_H
#define ASCRIBE_LABEL_ABI_H

#define ASCRIBE_ABI_VERSION 1
#define ASCRIBE_RECORD_MAGIC 0x4c435341u     /* "ASCL" */
#define ASCRIBE_DESCRIPTOR_MAGIC 0x44435341u /* "ASCD" */
#define ASCRIBE_KEYS_MAGIC 0x4b435341u	     /* "ASCK" */

#define ASCRIBE_NOTE_NAME "ascribe" /* with its NUL: namesz 8 */
#define ASCRIBE_NOTE_TYPE 1

/* Header + attributes at most; OTEP 4947 recommends <= 640 bytes for what its readers copy. */
#define ASCRIBE_RECORD_MAX 640
#define ASCRIBE_PREFIX_SIZE 32
#define ASCRIBE_HEADER_SIZE 28
#define ASCRIBE_ATTRS_MAX (ASCRIBE_RECORD_MAX - ASCRIBE_HEADER_SIZE)
#define ASCRIBE_VALUE_MAX 255 /* bytes of a value's text; longer ones are cut at a UTF-8 boundary */
#define ASCRIBE_KEY_MAX 63    /* bytes of a key's name */
#define ASCRIBE_KEYS_MAX 255  /* keys in one table */
#define ASCRIBE_KEYS_TEXT_MAX 4080

typedef unsigned char ascribe_u8;
typedef unsigned short ascribe_u16;
typedef unsigned int ascribe_u32;
typedef unsigned long long ascribe_u64;
typedef long long ascribe_s64;

/* Stands in the 32 bytes before the address in the slot. */
struct ascribe_record_prefix {
	ascribe_u32 magic;	/* ASCRIBE_RECORD_MAGIC */
	ascribe_u16 abi;	/* ASCRIBE_ABI_VERSION */
	ascribe_u16 total_size; /* prefix + header + attributes, in bytes */
	ascribe_u64 set_id;	/* order-free content hash of the whole set; 0 is never used */
	ascribe_u64 parent_id;	/* set_id of the set that this one was built on, 0 for none */
	ascribe_u64 reserved;	/* 0 */
};

/* What the slot points at: OTEP 4947. */
struct ascribe_record_header {
	ascribe_u8 trace_id[16]; /* all zero: none */
	ascribe_u8 span_id[8];
	ascribe_u8 valid; /* 1 */
	ascribe_u8 trace_flags;
	/* u16 in the machine's byte order, bytes of attributes that follow */
	ascribe_u8 attrs_size[2];
};

/* Entries in text: {u8 type, u8 len, name[len]}, in order of their index: the first is key 0. */
#define ASCRIBE_KEY_STRING 0
#define ASCRIBE_KEY_INT 1

struct ascribe_key_table {
	ascribe_u32 magic; /* ASCRIBE_KEYS_MAGIC */
	ascribe_u32 bytes; /* of text in use; stored with release order after the text */
	ascribe_u64 reserved;
	ascribe_u8 text[ASCRIBE_KEYS_TEXT_MAX];
};

/* One per module, found through the ELF note. */
struct ascribe_descriptor {
	ascribe_u32 magic; /* ASCRIBE_DESCRIPTOR_MAGIC */
	ascribe_u16 abi;
	ascribe_u16 size;      /* sizeof(struct ascribe_descriptor) of the writer */
	ascribe_s64 tp_offset; /* slot address - thread pointer; 0: not ready */
	ascribe_u64 key_table; /* address of struct ascribe_key_table */
};

/*
 * The note's descriptor (16 bytes): u32 abi, u32 0, then s64 offset = address of the struct
 * ascribe_descriptor minus the address of this s64 itself. No relocation is needed, so it stands in
 * a read-only segment and survives strip.
 */

#ifdef __cplusplus
#define ASCRIBE_ABI_ASSERT(e, t) static_assert(e, t)
#else
#define ASCRIBE_ABI_ASSERT(e, t) _Static_assert(e, t)
#endif
ASCRIBE_ABI_ASSERT(sizeof(struct ascribe_record_prefix) == ASCRIBE_PREFIX_SIZE, "prefix");
ASCRIBE_ABI_ASSERT(sizeof(struct ascribe_record_header) == ASCRIBE_HEADER_SIZE, "header");
ASCRIBE_ABI_ASSERT(sizeof(struct ascribe_key_table) == 4096, "key table");
ASCRIBE_ABI_ASSERT(sizeof(struct ascribe_descriptor) == 24, "descriptor");

#endif
