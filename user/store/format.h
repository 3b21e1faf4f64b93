/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of docs/format.md, which is the authority: change both together.
 */
#ifndef ASCRIBE_STORE_FORMAT_H
#define ASCRIBE_STORE_FORMAT_H

#define FORMAT_VERSION 1

#define HEADER_MAGIC "ASCRSTOR"
#define FILE_MAGIC "ASCRFILE"
#define FRAME_MAGIC 0x52465341u /* "ASFR" */

#define HEADER_SIZE 32 /* fixed part, the same in every version of the format */
#define FILE_HEADER_SIZE 32
#define FRAME_SIZE 40
#define BLOCK_SIZE 128
#define COLUMN_SIZE 12

enum file_kind {
	KIND_STRINGS = 1,
	KIND_FRAMES = 2,
	KIND_STACKS = 3,
	KIND_SETS = 4,
	KIND_EVENTS = 5,
	KIND_BLOCKS = 6,
};

/* Dictionaries have kinds 1 to N_DICTS. */
#define N_DICTS 5

enum codec {
	CODEC_RAW = 0,
	CODEC_ZSTD = 1,
};

enum column {
	COLUMN_TOTALS = 0,
	COLUMN_SET = 1,
	COLUMN_STACK = 2,
	COLUMN_EVENT = 3,
	COLUMN_SAMPLES = 4,
	COLUMN_VALUE = 5,
	N_COLUMNS = 6,
};

/* Limits: a reader refuses what is above them, so that a damaged or hostile file cannot make it allocate at will. */
#define STRING_MAX 65535u            /* bytes of one string */
#define STRING_DEPTH_MAX 16u         /* back-references until a string that stands by itself */
#define TEXT_MAX (1ull << 30)        /* bytes of all strings of one table */
#define IDS_MAX (1u << 30)           /* ids of one dictionary */
#define SET_LABELS_MAX 256u          /* labels of one set */
#define EVENTS_MAX 4096u
#define COUNTERS_MAX 256u            /* names of losses, and of flags */
#define CPUS_MAX 65536u
#define ROWS_MAX (1u << 22)          /* rows of one window */
#define FRAME_RAW_MAX (64u << 20)    /* bytes of a dictionary frame before compression */
#define FRAME_STORED_MAX (256u << 20)
#define HEADER_PAYLOAD_MAX (1u << 20)

/* A writer begins a new dictionary frame at these, far below the limits. */
#define BATCH_BYTES (4u << 20)
#define BATCH_IDS (1u << 18)

#define COMPRESSION_LEVEL 9

#endif
