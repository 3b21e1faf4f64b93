/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Labels that programs publish in other ways than ours, and labels read from programs that publish
 * none: where they are (user space finds out, bpf/foreign.bpf.h reads) and what comes back.
 *
 *   proc_labels[i]: up to LABEL_SOURCES sources of the process in proc_entry[i]
 *     -> one capture for each sample: entries, one behind the other, in the order of the sources
 *
 * The hash of a capture is the set's id. What was hashed is what is sent, once: nothing is read
 * twice.
 */
#ifndef ASCRIBE_LABEL_WIRE_H
#define ASCRIBE_LABEL_WIRE_H

#define LABEL_SOURCES 8	     /* read per process */
#define LABEL_PAIRS 16	     /* labels taken of one source; further ones are left out */
#define LABEL_KEY_BYTES 128  /* of a key; a longer one leaves its label out */
#define LABEL_TEXT_BYTES 255 /* of a value, which is cut there */
#define LABEL_STEPS 4096     /* of all label paths together */
#define LABEL_PATH_STEPS 64  /* of one source */
#define CAPTURE_MAX 4096     /* bytes of entries */
#define CAPTURE_ENTRY 1088   /* bytes of one entry, at most */

/* Of one process: beyond, its samples are (other). Many times what its samples can need. */
#define LABEL_SETS_A_SECOND 16384
#define LABEL_BYTES_A_SECOND (8u << 20)

enum label_kind {
	LABEL_NONE = 0,
	LABEL_OTEL = 1,	  /* pointer to a thread context record, OTEP 4947 */
	LABEL_CUSTOM = 2, /* pointer to {label *, count}; with arg 1 that itself */
	/*
	 * Pointer to g, or with LABEL_AT_GO_REGISTER g itself; arg: offset of curg << 16 | offset
	 * of labels
	 */
	LABEL_GO_MAP = 3,
	LABEL_GO_SLICE = 4,
	LABEL_PATH = 5, /* steps [arg, arg + arg2) */
	LABEL_NODE = 6, /* the draft's structure nodejs_v1_dev */
};

/* Where a source begins. */
enum label_start {
	LABEL_AT_ADDRESS = 0,
	LABEL_AT_TP = 1,  /* thread pointer + at */
	LABEL_AT_DTV = 2, /* `at` bytes into the thread's block of `module`, glibc */
	LABEL_AT_DTV_MUSL = 3,
	LABEL_AT_GO_REGISTER = 4, /* arm64: g is in x28 while Go's code runs */
	LABEL_AT_TP_MUSL = 5,	  /* as LABEL_AT_TP, as soon as there are thread-local blocks */
};

struct label_source {
	__u8 kind;
	__u8 start;
	__u8 fault; /* the counter of a failed read; the next one is that of wrong content */
	/* LABEL_OTEL, NODE: 1 + the index of the key of record --latency; 0: it is not known */
	__u8 key_index;
	__u32 module; /* TLS module */
	__s64 at;
	__u64 base; /* paths: where the file is loaded */
	__u32 arg, arg2;
};

struct proc_labels {
	__u64 second; /* BOOTTIME >> 30: what sent_* count for; written by the BPF program */
	__u32 sent_sets;
	__u32 sent_bytes;
	__u64 other;   /* user space keeps no more sets of this process */
	__u64 limited; /* a set was not sent, for one of these reasons */
	struct label_source source[LABEL_SOURCES];
};

/*
 * What a step of a label path does. cur is an address, acc a number. A step that cannot go on ends
 * its field.
 */
enum label_op {
	STEP_FIELD = 1, /* the field `field` begins; cur and acc are 0 */
	STEP_TP,	/* cur = thread pointer + imm */
	STEP_BASE,	/* cur = base + imm */
	STEP_START,	/* cur = where the source begins, + imm */
	STEP_DEREF,	/* cur = the pointer at cur + imm; NULL ends the field without a label */
	STEP_ADD,	/* cur += imm */
	STEP_SAVE,	/* saved[len] = cur */
	STEP_LOAD,	/* cur = saved[len]; 0 ends the field */
	STEP_NUMBER,	/* acc = the integer of |len| bytes at cur + imm, signed when flags & 1 */
	/*
	 * Acc must be imm; flags & 1: else, unless it is 0, the source is malformed; flags & 2:
	 * must not be imm
	 */
	STEP_EXPECT,
	STEP_EXPECT_TP, /* acc must be the thread pointer */
	STEP_MAIN,	/* only in the first thread of the process */
	STEP_AND,	/* acc &= imm */
	STEP_SHIFT,	/* acc >>= imm */
	STEP_INT,	/* emit acc */
	STEP_CSTRING,	/* emit the text at cur + imm up to its NUL, len bytes at most */
	STEP_BYTES,	/* emit len bytes at cur + imm */
	STEP_TEXT,	/* emit acc bytes of text at cur + imm, len bytes at most */
};

struct label_step {
	__u8 op;
	__u8 flags;
	__u16 len;
	__u16 field;
	__u16 is_key; /* of an emitting step: the field is the key of record --latency */
	__s64 imm;
};

#define LABEL_SAVED 8

/*
 * An entry of a capture: this head, then len bytes and len2 bytes, each padded with zeros to 8.
 * What is cut was longer.
 */
enum entry_what {
	ENTRY_OTEL = 1,	 /* the record: header and attributes */
	ENTRY_PAIR = 2,	 /* key, value */
	ENTRY_INT = 3,	 /* 8 bytes: a number of field `field` */
	ENTRY_BYTES = 4, /* of field `field` */
	/*
	 * Key, then struct label_absent: its value is in memory that is not resident, for user
	 * space to read
	 */
	ENTRY_ABSENT = 5,
};

/*
 * The source of an entry that is an argument of a probe (ENTRY_INT, ENTRY_BYTES: text). Its field
 * is the argument's number, from 1.
 */
#define ENTRY_ARGUMENT 0xff
#define ARGUMENT_TEXT_BYTES 127 /* of text, which is cut there */

/*
 * The source of an entry that is the timed call in which the thread is: ENTRY_BYTES without bytes.
 * Its field is the index of the event.
 */
#define ENTRY_CALL 0xfe

/*
 * Text of the process that a BPF program cannot read, as it must not wait for a page. The same
 * place may have another text later, so the second is part of what is hashed.
 */
struct label_absent {
	__u64 at;
	__u64 len;    /* at most LABEL_TEXT_BYTES */
	__u64 second; /* BOOTTIME >> 30 */
};

struct label_entry {
	__u8 source;
	__u8 what;
	__u8 cut;
	__u8 is_key; /* is_key of the step, key_index of the source */
	__u16 len;
	__u16 len2; /* ENTRY_PAIR, ENTRY_ABSENT: of the second part; else the field */
};

#ifdef __cplusplus
#define LABEL_WIRE_ASSERT static_assert
#else
#define LABEL_WIRE_ASSERT _Static_assert
#endif
LABEL_WIRE_ASSERT(sizeof(struct label_source) == 32, "label_source");
LABEL_WIRE_ASSERT(sizeof(struct label_step) == 16, "label_step");
LABEL_WIRE_ASSERT(sizeof(struct label_entry) == 8, "label_entry");
LABEL_WIRE_ASSERT(sizeof(struct label_absent) == 24, "label_absent");
LABEL_WIRE_ASSERT(sizeof(struct proc_labels) % 8 == 0, "proc_labels");

#endif
