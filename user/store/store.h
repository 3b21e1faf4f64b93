/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store: what `record` and the daemon write and everything else reads. Layout: docs/format.md.
 *
 * A store is a directory of append-only, checksummed files. Ids are u32, given in order of first use:
 *   string   id -> bytes; id 0 is the empty string
 *   frame    (kind, function, module, build id, source file, line, offset); id 0 is never used
 *   stack    node of a parent-pointer tree (parent, frame): the id names the path from the root to this
 *            leaf; id 0 is the empty stack
 *   set      a label set; id 0 is the empty set
 *   event    what fired
 * and windows: [t0, t1) with rows (set, stack, event) -> samples, value, and totals per CPU.
 *
 * One writer per store (it holds a lock); any number of readers, in any process, without locks. A reader sees
 * the windows that were committed when it opened the store.
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

/* All members are values or string ids. A frame with function 0 is known by module and offset only. */
struct store_frame {
	uint32_t kind;     /* enum frame_kind */
	uint32_t flags;    /* FRAME_* */
	uint32_t function; /* string: the name to show, demangled */
	uint32_t module;   /* string: path of the file, "[kernel]", a kernel module "[ext4]", "[vdso]", "[jit]" */
	uint32_t build_id; /* string: hexadecimal, empty when there is none */
	uint32_t file;     /* string: source file, empty when unknown */
	uint32_t line;     /* 0 when unknown */
	uint64_t offset;   /* in the file, bytes; only when function is 0 */
};

/* What fires. Two rates of one event are two events. */
struct store_event {
	const char *name;       /* "cpu-clock", "page-faults", "sched:sched_switch" */
	const char *unit;       /* of a row's value: "nanoseconds", "cycles", "count" */
	uint64_t ns_per_sample; /* time that one sample stands for; 0 when it does not stand for time */
	uint64_t period;        /* value that one sample adds when it is constant, else 0 */
};

/*
 * Counters of one window on one CPU: fired == stored + sum(lost). The names of lost[] and flagged[] are in
 * struct store_meta.
 */
struct store_cpu_totals {
	uint32_t cpu;
	uint64_t fired;
	uint64_t stored;
	uint64_t *lost;    /* [meta.n_lost] */
	uint64_t *flagged; /* [meta.n_flagged] */
};

struct store_totals {
	struct store_cpu_totals *cpu;
	size_t n_cpus;
	uint64_t outside;    /* fired outside the selection (-p, -t, -G, COMMAND); not part of fired */
	uint64_t own_cpu_ns; /* the recorder's own CPU time in this window */
	uint64_t own_rss;    /* its resident bytes at the end of the window */
};

struct store_meta {
	const char *host; /* host name */
	const char *os;   /* kernel release and machine */
	const char *what; /* the command line's meaning: "all processes, cpu-clock at 99 Hz" */
	const char *const *lost_names;
	size_t n_lost;
	const char *const *flagged_names;
	size_t n_flagged;
	int64_t created_ns; /* realtime */
};

/* ---- writing ---- */

struct store_writer;

/*
 * Create a store in dir (made with mode 0700 when missing), or append to the one that is there. Refuses a
 * directory that holds other things (-EEXIST), a store that is being written (-EBUSY), a newer format
 * (-EPROTONOSUPPORT). What an interrupted writer left half-written is cut off first; damage that no crash explains
 * is -EBADMSG and nothing is touched. Appending keeps the meta of the store, but for names that meta adds at the
 * end of lost_names or flagged_names; other names there are -EINVAL.
 */
int store_writer_open(struct store_writer **ret, const char *dir, const struct store_meta *meta, struct err *err);

/*
 * Intern; equal content gives the same id. Cost: one hash look-up when known. Fail with -ENOMEM or -E2BIG (strings over
 * 65535 bytes, sets over STORE_SET_MAX labels, full tables), -EINVAL for ids that were not given. Events count from 0.
 */
int store_add_string(struct store_writer *w, const char *s, size_t len, uint32_t *ret_id);
int store_add_frame(struct store_writer *w, const struct store_frame *f, uint32_t *ret_id);
int store_add_stack(struct store_writer *w, uint32_t parent, uint32_t frame, uint32_t *ret_id);
/* labels must be normalized (labels_normalize). */
int store_add_set(struct store_writer *w, const struct label *labels, size_t n, uint32_t *ret_id);
int store_add_event(struct store_writer *w, const struct store_event *e, uint32_t *ret_id);

/*
 * Rows of the open window, summed by (set, stack, event). -ENOMEM and -E2BIG (over 4 Mi rows) lose nothing that was
 * added before.
 */
int store_add_row(struct store_writer *w, uint32_t set, uint32_t stack, uint32_t event, uint64_t samples,
		  uint64_t value);

/*
 * Write the window durably: dictionaries, then the block, each with fdatasync. t0_ns < t1_ns, realtime; boot_ns is
 * BOOTTIME at t1. After a failure the rows of this window are gone, the store stays valid and the next
 * window may be tried: the caller counts its samples as lost (store_failed).
 */
int store_commit_window(struct store_writer *w, int64_t t0_ns, int64_t t1_ns, int64_t boot_ns,
			const struct store_totals *totals, struct err *err);

/* Release; does not commit an open window. NULL is fine. */
void store_writer_close(struct store_writer *w);

/* ---- reading ---- */

struct store;

/*
 * Open for reading. A directory that is no store: -ENOTDIR or -EINVAL with a text that says so; a newer
 * format: -EPROTONOSUPPORT; damage before the last window: -EBADMSG names the file and offset. A tail cut
 * short (a crash, a store being written) is not an error: the whole windows before it are there and
 * store_damage() tells.
 */
int store_open(struct store **ret, const char *dir, struct err *err);
void store_close(struct store *s);

/* NULL when nothing is wrong, else a line that says what was left out. */
const char *store_damage(const struct store *s);

const struct store_meta *store_meta(const struct store *s);

/*
 * Pointers stay valid until store_close. Ids out of range give the empty string / NULL / the empty set. A string is
 * followed by a NUL that its length does not count, and may hold others. One thread at a time.
 */
const char *store_string(const struct store *s, uint32_t id, size_t *ret_len);
const struct store_frame *store_frame(const struct store *s, uint32_t id);
/* The parent of a stack node and its frame; both 0 for id 0 and for ids out of range. parent < id always. */
void store_stack(const struct store *s, uint32_t id, uint32_t *ret_parent, uint32_t *ret_frame);
size_t store_set(const struct store *s, uint32_t id, const struct label **ret_labels);
/* The same without keeping anything: writes at most cap labels, returns how many the set has. */
size_t store_set_copy(const struct store *s, uint32_t id, struct label *out, size_t cap);
#define STORE_SET_MAX 256 /* labels of a set */
const struct store_event *store_event(const struct store *s, uint32_t id);
uint32_t store_n_strings(const struct store *s);
uint32_t store_n_frames(const struct store *s);
uint32_t store_n_stacks(const struct store *s);
uint32_t store_n_sets(const struct store *s);
uint32_t store_n_events(const struct store *s);

struct store_window {
	int64_t t0_ns, t1_ns, boot_ns;
	uint64_t n_rows;
	struct store_totals totals; /* borrowed until store_close */
};

struct store_row {
	uint32_t set, stack, event;
	uint64_t samples, value;
};

/* Windows in order of t0. */
size_t store_n_windows(const struct store *s);
const struct store_window *store_window(const struct store *s, size_t i);

/* Decode the rows of window i and hand them to cb; stops at the first non-zero result and returns it. */
int store_rows(struct store *s, size_t i, int (*cb)(void *ctx, const struct store_row *row), void *ctx,
	       struct err *err);

#endif
