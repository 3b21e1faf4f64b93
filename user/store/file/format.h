/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of docs/format.md, which is the authority: change both together.
 */
#ifndef ASCRIBE_STORE_FILE_FORMAT_H
#define ASCRIBE_STORE_FILE_FORMAT_H

#define FORMAT_VERSION 3
#define FORMAT_OLD 2 /* can be read, to be rewritten (old.h) */

#define HEADER_MAGIC "ASCRSTOR"
#define MANIFEST_MAGIC "ASCRMANI"
#define FILE_MAGIC "ASCRFILE"
#define FRAME_MAGIC 0x52465341u /* "ASFR" */

#define HEADER_SIZE 32 /* fixed part, the same in every version of the format */
#define FILE_HEADER_SIZE 32
#define FRAME_SIZE 40
#define BLOCK_SIZE 112
#define OLD_BLOCK_SIZE 184
#define COLUMN_SIZE 16

/* What a frame holds; the file's own kind is one of the last two. */
enum kind {
	KIND_STRINGS = 1,
	KIND_FRAMES = 2,
	KIND_STACKS = 3,
	KIND_SETS = 4,
	KIND_EVENTS = 5,
	KIND_LEAVES = 6,
	KIND_BLOCKS = 7,  /* a segment, and a block of it */
	KIND_INDEX = 8,	  /* of a sealed segment */
	KIND_SYMBOLS = 9, /* the dictionaries of a segment that is still open */
	KIND_TRACKS = 10, /* a file of tracks, and the track of a window */
};

/* Dictionaries have kinds 1 to N_DICTS. */
#define N_DICTS 6

enum codec {
	CODEC_RAW = 0,
	CODEC_ZSTD = 1,
	CODEC_BITS = 2, /* varints: how many bits each has, by zstd, and the bits */
};

enum column {
	COLUMN_TOTALS = 0,
	/* Groups: the stacks with all labels folded, per event. */
	COLUMN_LEAF = 1,
	COLUMN_EVENT = 2,
	COLUMN_SAMPLES = 3,
	COLUMN_VALUE = 4,
	/* Of level 0: how each group is made up of label sets. */
	COLUMN_COUNT = 5,
	COLUMN_SET = 6,
	COLUMN_SET_SAMPLES = 7,
	COLUMN_SET_VALUE = 8,
	/* The label sets of a block of level 0 with wide keys. */
	COLUMN_TABLE_NARROW = 9,
	COLUMN_TABLE_COUNT = 10,
	COLUMN_TABLE_KEY = 11,
	COLUMN_TABLE_TYPE = 12,
	COLUMN_TABLE_LEN = 13,
	COLUMN_TABLE_TEXT = 14,
	COLUMN_TABLE_INT = 15,
	COLUMN_TABLE_BIN = 16,
	COLUMN_KEYS = 17, /* which label keys the block has, and how they are answered */
	COLUMN_TOP = 18,  /* the most frequent values of keys with too many of them */
	COLUMN_SUMS = 19, /* sums by label set, without stacks */
	/* Read by pieces: as they are. */
	COLUMN_POST_HEAD = 20,
	COLUMN_POST_DATA = 21,
	COLUMN_VALUES = 22,	 /* lists of the values of projected keys */
	COLUMN_PROJECTIONS = 23, /* the groups of each of those values */
	N_COLUMNS = 24,
};

#define COLUMN_FIRST_RAW COLUMN_POST_HEAD

/* Types of values in the table of a block: texts of a fixed form take their bytes only. */
enum value_type {
	VALUE_TEXT = 0,
	VALUE_INT = 1,
	VALUE_UUID = 2, /* 8-4-4-4-12 hexadecimal digits, small letters */
	VALUE_HEX = 3,	/* 32 hexadecimal digits, small letters: a trace id */
};

#define BLOCK_NO_LABELS 1u /* flags: of a parent whose windows were gone: groups alone are known */

/*
 * Limits: a reader refuses what is above them, so that a damaged or hostile file cannot make it
 * allocate at will.
 */
#define STRING_MAX 65535u     /* bytes of one string */
#define STRING_DEPTH_MAX 16u  /* back-references until a string that stands by itself */
#define TEXT_MAX (1ull << 30) /* bytes of all strings of one table */
#define IDS_MAX (1u << 30)    /* ids of one dictionary */
#define SET_LABELS_MAX 256u   /* labels of one set */
#define EVENTS_MAX 4096u
#define COUNTERS_MAX 256u /* names of losses, and of flags */
#define CPUS_MAX 65536u
#define ROWS_MAX (1u << 22)	  /* rows of one window */
#define FRAME_RAW_MAX (64u << 20) /* bytes of a dictionary frame before compression */
#define FRAME_STORED_MAX (256u << 20)
#define HEADER_PAYLOAD_MAX (1u << 20)
#define MANIFEST_PAYLOAD_MAX (64u << 20)
#define COLUMNS_OF_BLOCK_MAX 32u
#define TABLE_MAX (1u << 22)		 /* label sets of one block */
#define TOP_K 256u			 /* values kept of a key with too many of them */
#define SUMS_MAX 4096u			 /* label sets of a parent's sums */
#define PROJECTED_MAX 20000u		 /* values of a projected key */
#define KEYS_MAX 4096u			 /* keys of a block */
#define TRACK_MAX (1u << 19)		 /* instants of a track: STORE_INSTANTS_MAX */
#define TRACK_RAW_MAX (24u << 20)	 /* bytes of a track before compression */
#define TRACK_SPAN_MAX 86400000000000ull /* ns of the window of a track: a day */

/* A writer begins a new dictionary frame at these, far below the limits. */
#define BATCH_BYTES (4u << 20)
#define BATCH_IDS (1u << 18)

#define COMPRESSION_LEVEL 13
#define COMPRESSION_LEVEL_BITS 3 /* nothing repeats in those but how often each comes */

#endif
