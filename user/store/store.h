/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store: what `record` and the daemon write and everything else reads. Layout: docs/format.md.
 *
 * A store is a directory of append-only, checksummed files. Ids are u32, given in order of first
 * use:
 *   string   id -> bytes; id 0 is the empty string
 *   frame    (kind, function, module, build id, source file, line, offset); id 0 is never used
 *   stack    node of a parent-pointer tree (parent, frame): the id names the path from the root to
 *            this leaf; id 0 is the empty stack
 *   set      a label set; id 0 is the empty set
 *   event    what fired
 * and windows: [t0, t1) with rows (set, stack, event) -> samples, value, and totals per CPU.
 *
 * One writer per store (it holds a lock); any number of readers, in any process, without locks. A
 * reader sees the windows that were committed when it opened the store.
 */
#ifndef ASCRIBE_STORE_STORE_H
#define ASCRIBE_STORE_STORE_H

#include "labels/labels.h"
#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum frame_kind {
	FRAME_USER = 0,
	FRAME_KERNEL = 1,
	FRAME_IDLE = 2, /* the one frame of an idle CPU */
};

#define FRAME_INLINED 1u /* flags: an inlined call, its caller is the next frame towards the root */

/*
 * All members are values or string ids. A frame with function 0 is known by module and offset only.
 */
struct store_frame {
	uint32_t kind;	   /* enum frame_kind */
	uint32_t flags;	   /* FRAME_* */
	uint32_t function; /* string: the name to show, demangled */
	/* String: path of the file, "[kernel]", a kernel module "[ext4]", "[vdso]", "[jit]" */
	uint32_t module;
	uint32_t build_id; /* string: hexadecimal, empty when there is none */
	uint32_t file;	   /* string: source file, empty when unknown */
	uint32_t line;	   /* 0 when unknown */
	uint64_t offset;   /* in the file, bytes; only when function is 0 */
};

/* What fires. Two rates of one event are two events. */
struct store_event {
	const char *name; /* "cpu-clock", "page-faults", "sched:sched_switch" */
	const char *unit; /* of a row's value: "nanoseconds", "cycles", "count" */
	/* Time that one sample stands for; 0 when it does not stand for time */
	uint64_t ns_per_sample;
	uint64_t period; /* value that one sample adds when it is constant, else 0 */
};

/*
 * Counters of one window on one CPU: fired == stored + sum(lost). The names of lost[] and flagged[]
 * are in struct store_meta.
 */
struct store_cpu_totals {
	uint32_t cpu;
	uint64_t fired;
	uint64_t stored;
	uint64_t *lost;	   /* [meta.n_lost] */
	uint64_t *flagged; /* [meta.n_flagged] */
};

struct store_totals {
	struct store_cpu_totals *cpu;
	size_t n_cpus;
	/* fired outside the selection (-p, -t, -G, COMMAND); not part of fired */
	uint64_t outside;
	uint64_t own_cpu_ns; /* the recorder's own CPU time in this window */
	uint64_t own_rss;    /* its resident bytes at the end of the window */
};

struct store_meta {
	const char *host; /* host name */
	const char *os;	  /* kernel release and machine */
	const char *what; /* the command line's meaning: "all processes, cpu-clock at 99 Hz" */
	const char *const *lost_names;
	size_t n_lost;
	const char *const *flagged_names;
	size_t n_flagged;
	int64_t created_ns; /* realtime */
};

struct store_row;
struct store_block;

/* ---- reading ---- */

struct store;

/*
 * Open for reading. A directory that is no store: -ENOTDIR or -EINVAL with a text that says so; a
 * newer format: -EPROTONOSUPPORT; damage before the last window: -EBADMSG names the file and
 * offset. A tail cut short (a crash, a store being written) is not an error: the whole windows
 * before it are there and store_damage() tells.
 */
int store_open(struct store **ret, const char *dir, struct err *err);
void store_close(struct store *s);

/*
 * Open several stores to be read as one, in any order. Rows without the label `host` get it, with
 * the host name of their store. Counters are joined by their names. Ranges are rounded for each
 * store by itself. Lists of windows (store_window) it has not. One store alone is opened as it is.
 * -E2BIG: more than STORE_UNION_MAX. Else as store_open.
 */
#define STORE_UNION_MAX 64
int store_open_all(struct store **ret, const char *const *dirs, size_t n, struct err *err);
/* Which of these a block is in, from 0. */
size_t store_block_source(const struct store_block *b);

/* NULL when nothing is wrong, else a line that says what was left out. */
const char *store_damage(const struct store *s);

/*
 * Acknowledged windows are left out, since a dictionary is too short for them: no crash does that.
 */
bool store_lost_windows(const struct store *s);

const struct store_meta *store_meta(const struct store *s);
/*
 * A random number given when the store was made, also when it was written anew (delete, compact of
 * an old format): numbers of windows are of this store alone. 0 of a union.
 */
uint64_t store_id(const struct store *s);

/*
 * Strings and labels stay valid until store_close, a frame until rows are read. Ids out of range
 * give the empty string / NULL / the empty set. A string is followed by a NUL that its length does
 * not count, and may hold others. One thread at a time.
 */
const char *store_string(const struct store *s, uint32_t id, size_t *ret_len);
const struct store_frame *store_frame(const struct store *s, uint32_t id);
/*
 * The parent of a stack node and its frame; both 0 for id 0 and for ids out of range. parent < id
 * always.
 */
void store_stack(const struct store *s, uint32_t id, uint32_t *ret_parent, uint32_t *ret_frame);
size_t store_set(const struct store *s, uint32_t id, const struct label **ret_labels);
#define STORE_SET_MAX 256 /* labels of a set */
const struct store_event *store_event(const struct store *s, uint32_t id);
uint32_t store_n_strings(const struct store *s);
uint32_t store_n_frames(const struct store *s);
uint32_t store_n_stacks(const struct store *s);
uint32_t store_n_sets(const struct store *s);
uint32_t store_n_events(const struct store *s);

/*
 * What a question to this handle may take. Dictionaries have at most three quarters of the bytes,
 * the asker what they leave, and all without stacks. 0: the asker's own limit. *stop: it ends.
 */
struct store_limits {
	size_t bytes;
	size_t symbols;	   /* bytes of dictionaries; 0: of `bytes`, at least 16 MiB */
	bool whole_stacks; /* those of a question with labels are never cut */
	const bool *stop;  /* written by any thread; NULL: never */
};
void store_limit(struct store *s, const struct store_limits *limits);
/*
 * From now on this handle answers for the label sets of a selector alone (query/scope.h); NULL: for
 * all. The text is borrowed. With one, rows are only read through a filter of label sets: what has
 * no labels, or needs no filter, is refused with -EACCES. Names of keys and events are those of the
 * whole store: whoever shows them asks first which have rows.
 */
void store_set_scope(struct store *s, const char *selector);
const char *store_scope(const struct store *s);
size_t store_budget(const struct store *s);
/* Return the bytes of the dictionaries in memory: the reader's own, and those of segments. */
size_t store_dictionaries(const struct store *s);
/* In a question, what dictionaries lack room for is cut to a frame (other). True: some was. */
void store_begin_question(struct store *s);
bool store_end_question(struct store *s);
/* Whether earlier questions have left so much in this handle that it is better opened anew. */
bool store_is_full(const struct store *s);
/* -EAGAIN: the question shall end. */
int store_goes_on(const struct store *s, struct err *err);

/* ---- blocks: the segment tree ---- */

/*
 * A node of the segment tree. Level 0 are the windows as they were written. A block of a higher
 * level is the merge of n_windows of them, [t0, t1) from the beginning of the first to the end of
 * the last.
 */
struct store_block {
	int64_t t0_ns, t1_ns, boot_ns;
	uint32_t n_rows;   /* with labels */
	uint32_t n_folded; /* with labels folded */
	uint32_t n_table;  /* label sets that stand in the block itself */
	/* Order of writing within the level: the order in time, whatever the clock did */
	uint32_t seq;
	uint32_t n_windows;
	uint32_t n_children, child_lo, child_hi; /* seq of its children are in [lo, hi) */
	uint32_t window_lo, window_hi;		 /* seq of its windows are in [lo, hi) */
	uint32_t idle;	 /* the leaf of idle CPUs + 1; 1: it has none; 0: unknown, or several */
	uint32_t anchor; /* store_anchor */
	uint8_t level;
#define STORE_PRUNED 2u /* of its stacks only the largest are kept, what is below them is (other) */
	uint8_t flags;
};

/*
 * A stretch of time in which realtime ran beside CLOCK_BOOTTIME: a boot, or what lies between two
 * steps of the clock.
 */
struct store_anchor {
	uint8_t boot_id[16];
	int64_t real_minus_boot_ns;
};

/* What retention has cut of a level. */
struct store_cut {
	int64_t before_ns; /* nothing older than this is promised to be there; 0: nothing was cut */
	uint64_t blocks, bytes_by_age, bytes_by_size;
};

#define STORE_N_LEVELS 9

const char *store_level_name(uint8_t level);

enum store_want {
	STORE_FOLDED,	   /* stacks only */
	STORE_KEY_SUMS,	   /* sums by the keys in question, without stacks */
	STORE_NARROW_KEYS, /* rows that have the keys in question exactly, with stacks */
	STORE_ALL_LABELS,  /* rows as they were recorded: level 0 */
};

/* Blocks that are the cover's own: parts of windows. */
struct store_part {
	struct store_part *next;
};

struct store_cover {
	const struct store_block **blocks; /* by t0 */
	size_t n;
	int64_t from_ns, to_ns; /* that they cover: whole windows */
	/* windows without what was wanted: only parents are left, or rows were not written */
	uint64_t coarse;
	/*
	 * windows of the range that none of the blocks holds: cut, and what is left of their
	 * parents cannot be told apart
	 */
	uint64_t gone;
	struct store_part *parts;
};

/*
 * The fewest blocks that hold every window overlapping [from, to) once. Where the wanted detail is
 * gone a parent stands in, and `coarse` counts its windows. But where it has none of it, and some
 * of its windows do, those are taken and `gone` counts the others. keys: for STORE_KEY_SUMS and
 * STORE_NARROW_KEYS. Owned by the caller; the blocks by the store.
 */
int store_cover(struct store *s, int64_t from_ns, int64_t to_ns, enum store_want want,
		const char *const *keys, size_t n_keys, struct store_cover *ret, struct err *err);
/*
 * The same for the windows of which the greater part is in the range: store_round, then
 * store_cover. But a range of less than a minute ends where it says in windows that have tracks:
 * the blocks there are parts of windows.
 */
int store_cover_nearest(struct store *s, int64_t from_ns, int64_t to_ns, enum store_want want,
			const char *const *keys, size_t n_keys, struct store_cover *ret,
			struct err *err);
#define STORE_CUT_NS 60000000000ll /* ranges shorter than this are cut by tracks */
/*
 * Move the ends of a range to borders of windows (round.c), the nearest ones. They stay as they are
 * when it would be empty then: a range within one window is that window. Not of a union, whose
 * stores have borders of their own. 0, or an error of store_cover.
 */
int store_round(struct store *s, int64_t *from_ns, int64_t *to_ns, struct err *err);
/*
 * As store_cover with STORE_NARROW_KEYS, for rows in which one key has one value: where the key is
 * wide, postings say which windows may have it, and only those are given. values: the forms that
 * the value may have (text, integer), all of the same key, which must be among keys too. from_ns
 * and to_ns are those of the blocks given. gone also counts windows that are no longer there to be
 * looked into. nearest: as store_cover_nearest.
 */
#define STORE_VALUES_MAX 2
/* A key whose values stand in the windows of a file themselves, since it has too many of them. */
struct store_wide_key {
	const char *key; /* borrowed until store_close */
	/* Most in one hour, as far as they were counted: 8 times the limit */
	uint32_t values;
	int64_t from_ns, to_ns; /* of the file; INT64_MAX: it is the newest */
};

/* The i-th of all files of windows, from the oldest on; false: there is none. */
bool store_wide_key(const struct store *s, size_t i, struct store_wide_key *ret);
/*
 * The other keys of the newest file of windows, and how many of its label sets have each; stops at
 * the first non-zero result of cb.
 */
int store_narrow_keys(struct store *s, int (*cb)(void *ctx, const char *key, uint32_t sets),
		      void *ctx, struct err *err);
/* How many files of windows there are. */
size_t store_n_files(const struct store *s);
typedef int store_key(void *ctx, const char *key, size_t len);
/*
 * The keys of the label sets of all files, those of the newest first, most of them more than once.
 * Ends with the first result of cb that is not 0, and returns it.
 */
int store_each_key(struct store *s, store_key *cb, void *ctx, struct err *err);
/*
 * Whether any label set of the store has this key. Cost: reads files from the newest on until one
 * has it; a key of none reads all.
 */
int store_has_key(struct store *s, const char *key, bool *ret, struct err *err);
/* Whether a key is wide in any file of the store. */
bool store_is_wide(const struct store *s, const char *key);
int store_cover_value(struct store *s, int64_t from_ns, int64_t to_ns, bool nearest,
		      const struct label *values, size_t n_values, const char *const *keys,
		      size_t n_keys, struct store_cover *ret, struct err *err);
void store_cover_free(struct store_cover *c);

struct store_row {
	uint32_t set, stack, event;
	uint64_t samples, value;
};

/*
 * Says whether a label set is wanted, before it is kept: 0 or 1 in *ret; any other result ends the
 * reading.
 */
typedef int store_filter(void *ctx, const struct label *labels, size_t n, bool *ret);

/* Labels that are of interest. */
struct store_keys {
	const char *const *v;
	size_t n;
};

/* Stands for a label set while nobody looks at its labels. */
struct store_set_key {
	uint64_t key;	/* labels_list_key */
	uint32_t n;	/* labels */
	uint32_t bytes; /* of their keys and values; 8 of an integer */
};

/* How the rows of a block are wanted. */
struct store_reading {
	const struct store_keys *keys; /* NULL: all */
	store_filter *filter;	       /* which label sets; NULL: all */
	/*
	 * Gives a label set that is wanted its id in the rows, below UINT32_MAX - 1; NULL: the
	 * store does.
	 */
	int (*set)(void *ctx, const struct label *labels, size_t n, uint32_t *ret);
	/*
	 * Gives a label set its id by its key alone, before `set`; false: by its labels. NULL:
	 * always so. Not called with keys or a filter, nor where sets get the label of their host.
	 */
	bool (*key)(void *ctx, const struct store_set_key *key, uint32_t *ret);
	uint64_t key_seed;
	bool fold_stacks;   /* rows are summed over all stacks: stack is 0 */
	bool fold_sets;	    /* or over all sets that are wanted: set is 0 */
	const bool *events; /* [store_n_events]: which are wanted; NULL: all */
	/* Before the rows of a stack and event: 1 when they are wanted, else 0; NULL: all */
	int (*group)(void *ctx, const struct store_row *sum);
	/* Some, of one stack and one event; borrowed during the call */
	int (*rows)(void *ctx, const struct store_row *rows, size_t n);
	void *ctx;
};

/*
 * Rows of a block; stops at the first non-zero result of rows, or negative one of group, and
 * returns it. store_block_read: by label set, of sets that the filter lets pass; not in any order.
 * With keys neither the sets nor what the filter sees have other labels, which is quicker where
 * there are few of them. Sets that differ in nothing else are one, though their rows still come one
 * by one, and a stack more than once. store_block_rows: the same one by one. store_block_folded:
 * set is 0. -ENODATA: the block cannot tell; its windows can. -ESTALE: retention has unlinked the
 * block since the store was opened.
 */
int store_block_read(struct store *s, const struct store_block *b, const struct store_reading *how,
		     struct err *err);
int store_block_rows(struct store *s, const struct store_block *b, const struct store_keys *keys,
		     store_filter *filter, int (*cb)(void *ctx, const struct store_row *row),
		     void *ctx, struct err *err);
int store_block_folded(struct store *s, const struct store_block *b,
		       int (*cb)(void *ctx, const struct store_row *row), void *ctx,
		       struct err *err);
/* As store_block_folded, summed over all stacks: stack is 0, or that of idle CPUs. */
int store_block_sums(struct store *s, const struct store_block *b,
		     int (*cb)(void *ctx, const struct store_row *row), void *ctx, struct err *err);

/* Frames of one function are equal but for their source lines. */
bool store_same_function(const struct store_frame *a, const struct store_frame *b);
/* What they have in common, to be hashed. */
struct store_function_key {
	uint64_t v[4];
};
struct store_function_key store_function_key(const struct store_frame *f);

/*
 * The sums by stack of many blocks. All zero is empty; store_fold_rows does the work, and gives
 * each stack and event once. A row with the set STORE_OTHER has the samples below its stack whose
 * own stacks were not kept. There was no room for them (*ret_pruned), or they are less than 1/least
 * of the samples. With `least` stacks may come without source lines.
 */
struct store_folding {
	const struct store_block **blocks;
	size_t n, cap;
	uint32_t least;	    /* 0: all stacks are wanted */
	const bool *events; /* borrowed, as in store_reading */
};
#define STORE_OTHER 1u
int store_fold_block(struct store *s, struct store_folding *f, const struct store_block *b,
		     struct err *err);
int store_fold_rows(struct store *s, const struct store_folding *f,
		    int (*cb)(void *ctx, const struct store_row *row), void *ctx, bool *ret_pruned,
		    struct err *err);
void store_folding_fini(struct store_folding *f);

/* The counters of a block; freed with store_totals_free. */
int store_block_totals(struct store *s, const struct store_block *b, struct store_totals **ret,
		       struct err *err);
void store_totals_free(struct store_totals *t);

/* ---- windows: level 0 ---- */

struct store_window {
	int64_t t0_ns, t1_ns, boot_ns;
	uint64_t n_rows;
	struct store_totals totals; /* borrowed until store_close */
};

/* Windows in order of t0. Cost: the first call reads the index of all of them. */
size_t store_n_windows(struct store *s);
/* Borrowed until the next call. NULL: out of range, or damaged (err says). */
const struct store_window *store_window(struct store *s, size_t i, struct err *err);

/*
 * Decode the rows of window i and hand them to cb; stops at the first non-zero result and returns
 * it.
 */
int store_rows(struct store *s, size_t i, int (*cb)(void *ctx, const struct store_row *row),
	       void *ctx, struct err *err);

/* ---- what the store says of itself ---- */

const struct store_anchor *store_anchor(const struct store *s, uint32_t i);
const struct store_cut *store_cut(const struct store *s, uint8_t level);

#endif
