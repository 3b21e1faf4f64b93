/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder's state, and what its files do with it:
 *
 *   collector.c  open, the loop, drains, windows, close
 *   news.c       apply side-band records, and records of the BPF programs
 *   rows.c       add rows of a half, copies and waits to the store
 *   wakers.c     add rows of wakers to the sums of the window
 *   hangs.c      find the user frames of threads that hang
 */
#ifndef ASCRIBE_COLLECT_COLLECTOR_INT_H
#define ASCRIBE_COLLECT_COLLECTOR_INT_H

#include "attribute/labelling.h"
#include "attribute/ruled.h"
#include "attribute/chooser.h"
#include "attribute/sets.h"
#include "attribute/trampolines.h"
#include "collect/aside.h"
#include "collect/collector.h"
#include "collect/heap.h"
#include "collect/instants.h"
#include "collect/own.h"
#include "collect/waits.h"
#include "collect/window.h"
#include "sampler/sideband.h"
#include "stacks/copies.h"
#include "stacks/scripts.h"
#include "stacks/resolve.h"
#include "stacks/unwinding.h"

#include "script_wire.h"
#include "store/writer.h"

#include <poll.h>

#define NS 1000000000ull
#define HANGS 16 /* threads of a window whose user frames are looked for */

/* Stacks of blocked threads in the arena of a half, for rows of wakers that name them. */
struct blocked_stack {
	uint32_t at;	  /* in the arena */
	uint32_t lengths; /* stack_lengths_word */
	uint8_t part;	  /* enum cause_part; CAUSE_UNKNOWN: not worked out yet */
	uint8_t lock;	  /* enum lock_kind; when part is worked out */
};

struct blocked_stacks {
	bool listed;		 /* false: not of this half yet */
	struct blocked_stack *v; /* by `at` */
	size_t n, cap;
};

/* Threads that hang: hangs.c. */
struct hang;
struct hang_known;
struct hangs {
	struct hang *v[HANGS]; /* of the open window, whose frames are being found */
	size_t n;
	struct hang_known *known; /* waits whose frames were looked for */
	size_t n_known, cap_known;
	uint32_t bucket[256]; /* of known, by tid: index plus 1 */
};

/* A new process, by its first sample. */
struct arrival {
	struct wire_record record;
	char arguments[WIRE_CMDLINE_MAX];
};

struct collector {
	struct sampler *sampler;
	struct sideband *sideband;
	struct procs *procs;
	struct sandbox *sandbox;
	struct symbolizer *symbolizer;
	struct downloads *downloads; /* NULL: none */
	struct resolver *resolver;
	struct labelling *labelling;
	struct ruled *ruled;
	struct unwinding *unwinding;
	struct copies *copies;
	struct scripts *scripts;
	struct trampolines *trampolines;
	struct chooser *chooser; /* NULL: every cgroup is recorded, at one rate */
	struct sets sets;
	struct waits waits;
	struct locks *locks; /* NULL: wakers are not recorded */
	struct heap heap;
	struct instants instants;
	struct own_metrics own;
	struct store_writer *store;
	struct sampler_config cfg;
	unsigned n_cpus;
	uint32_t event_id[MAX_EVENTS];
	uint32_t rate_id[MAX_EVENTS][RATES_MAX]; /* of samples, by the rate of their cgroup */
	struct window *window;
	struct pollfd *poll;
	int64_t t0_ns, next_window_ns; /* realtime */
	/* The last drain began, or recording was stopped: what comes later is the next window's */
	int64_t end_ns, end_boot_ns;
	uint64_t next_drain_ns, next_cpus_ns, next_news_ns; /* BOOTTIME */
	uint64_t ring_ns; /* BOOTTIME: read no further records of the BPF programs until then */
	uint64_t news_ns; /* BOOTTIME: the side-band was read up to here */
	uint64_t lost_from_ns,
		lost_to_ns; /* BOOTTIME: records of the side-band are missing between; 0: none */
	uint64_t next_attend_ns; /* BOOTTIME, while rows are added */
	struct arrival *arrived; /* they wait for the side-band to be read up to them */
	size_t n_arrived, cap_arrived;
	struct frame_reasons reasons;  /* with wakers: why blocked threads wait, by frame */
	struct blocked_stacks blocked; /* of the half in hand */
	struct hangs hangs;
	struct aside aside; /* rows of the open window */
	bool copies_left;   /* as of copies_hand_out */
	/* Debug files are being fetched: rows wait even if they could be stored */
	bool hold_names;
	bool closing; /* the window has ended, and its last rows wait for their names */
	int64_t closing_end_ns, closing_end_boot_ns; /* its end */
	uint64_t closing_ns;			     /* BOOTTIME: write it then at the latest */
	/* sandbox_stats.answered and reader_stats.moved at the last parse_go_on */
	uint64_t answered;
	uint64_t rows_ns; /* BOOTTIME of the last rows_go_on, and the CPU time that it took */
	uint64_t rows_spent_ns;
	uint64_t go_on_ns;	 /* BOOTTIME of the last parse_go_on, */
	uint64_t go_on_spent_ns; /* and the CPU time that it took, with what followed from it, */
	bool follows;		 /* which is not done yet */
	struct collector_detail detail;
	uint32_t other_stack; /* "(other)", in the store */
	bool ids_void;	      /* those of the store, until new ones are made */
	bool filling, settled, stopped;
	/* Frames of the row in hand, those of trampolines changed */
	uint64_t folded[STACK_WORDS_MAX];
	struct collector_progress sum;
};

/* Milliseconds from now to ns for poll: from 0 to a minute. */
static inline int ms_until(uint64_t ns, uint64_t now)
{
	if (ns <= now)
		return 0;
	uint64_t ms = (ns - now + 999999) / 1000000;
	return ms > 60000 ? 60000 : (int)ms;
}

/* ---- news.c ---- */

/* Read the side-band of all CPUs, and apply it in the order of time. */
void news_read(struct collector *c);

/*
 * Take up the images that the BPF programs asked about. The side-band is read first: the fork or
 * exec that an image began with is written there before the first sample of the image.
 */
void news_admit(struct collector *c);

/*
 * Look at new processes while rows are added, which may take long. Call it between two rows: images
 * may end, and ids of processes change.
 */
void news_attend(struct collector *c);

/* Callbacks of sampler.h and labelling.h; ctx is the collector. */
void news_on_record(void *ctx, const struct wire_record *r, const void *payload);
void news_on_copy(void *ctx, const struct wire_copy *w, const uint8_t *stack);
void news_on_known(void *ctx, struct proc_image *im);

/* ---- limit.c ---- */

/*
 * Fold the smallest rows of the open window when it has more than it may. Call it between two rows.
 */
void limit_rows(struct collector *c);
/* Do the store's dictionaries have no room for more stacks? Then rows get c->other_stack. */
bool limit_is_full(const struct collector *c);
/* So many samples got that stack. */
void limit_count(struct collector *c, uint64_t samples);

/* ---- rows.c ---- */

/* Add all samples of a half to the store's window; for sampler_drain. */
void rows_on_half(void *ctx, const struct sampler_half *h);

/*
 * Add a row. number: of its instants, INSTANTS_NONE: it has none. rows_enter_one: the row is one
 * sample, whose instant is its own.
 */
void rows_enter(struct collector *c, const struct sampler_half *h, const struct row *row,
		uint32_t number);
void rows_enter_one(struct collector *c, const struct sampler_half *h, const struct row *row);

/*
 * Try again to store the rows that wait for names, and the copies that wait for unwind rules. now:
 * store them with the names and rules that there are.
 */
void rows_go_on(struct collector *c, bool now);
/* Are there any? */
bool rows_wait(const struct collector *c);

/* Store what is only known at the end of a window. Call it before the window's totals are made. */
void rows_end_window(struct collector *c);

/*
 * Whether the selection leaves a row out. Such a row is counted as outside, and the caller drops
 * it. Without `last`, a row whose pod has no name yet stays in.
 */
bool rows_left_out(struct collector *c, unsigned cpu, const struct row *row, bool last);

/* Keep a sample until its names come. False: there is no room for it. */
bool rows_put_aside(struct collector *c, struct sample *s);

/* Return the image of a row, NULL: not known. */
struct proc_image *rows_image(struct collector *c, const struct row *row);

/* Find the store's frames of a row's script words, behind those that *io has, and add them. */
struct rows_script {
	uint32_t frame[SCRIPT_FRAMES_MAX];
	bool entry[SCRIPT_FRAMES_MAX];
};
void rows_script(struct collector *c, const struct row *row, struct rows_script *script,
		 struct resolver_stack *io);

/* ---- rows_waits.c ---- */

/*
 * Add a record of the iterator over threads: a part of a wait that goes on, or sums that are in no
 * half.
 */
void rows_on_wait(void *ctx, const struct row *row, const uint64_t *words, uint64_t futex);

/* Add the part so far of a wait that goes on; words are those of its stack. */
void rows_add_part(struct collector *c, const struct row *row, const uint64_t *words,
		   uint64_t futex);

/* ---- windows.c ---- */

/* Give the store our events and the stack of rows that found no room. */
int windows_add_events(struct collector *c);
/* Take what of the waits that go on belongs to this window. */
void windows_tell_waits(struct collector *c);
/* Take all rows that the BPF programs have made. A closed window is written before. */
void windows_drain(struct collector *c);
/*
 * The window is over, and all of its samples were drained. What its last rows wait for may still
 * come.
 */
void windows_close(struct collector *c);
/* Write the closed window, with the names that there are. */
int windows_write(struct collector *c, struct err *err);

/* ---- hangs.c ---- */

/*
 * Take the part so far of a wait without user frames, to be added with them: now if they are known,
 * else by hangs_go_on. False: it is not taken.
 */
bool hangs_take(struct collector *c, const struct row *row, const uint64_t *words, uint64_t futex,
		const struct wire_hang *hang);
/* Go on with what was taken. now: add it with the frames that there are. */
void hangs_go_on(struct collector *c, bool now);
/* A window has ended: forget waits that are over. */
void hangs_forget(struct collector *c);
void hangs_fini(struct collector *c);

/* ---- wakers.c ---- */

/* The rows to come are of another half. */
void wakers_begin_half(struct collector *c);
/* Add a ROW_WAKER, or put it aside while names or labels are missing. */
void wakers_add(struct collector *c, const struct sampler_half *h, const struct row *row);
/* Add one that was put aside; h has its words. False, never with `last`: names or labels are still
 * missing. */
bool wakers_try(struct collector *c, const struct sampler_half *h, const struct sample *s,
		bool last);
/*
 * Add the part so far of blocked time that goes on; row is a record of the iterator with a stack.
 */
void wakers_add_part(struct collector *c, const struct row *row, const uint64_t *words,
		     uint64_t futex);

#endif
