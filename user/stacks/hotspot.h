/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Java without options: find the processes that run HotSpot, describe their code heaps to
 * bpf/hotspot.bpf.h, and name the frames that it finds. All is read from the memory of the process
 * (proc/hotspot.h); nobody talks to the JVM. Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_HOTSPOT_H
#define ASCRIBE_STACKS_HOTSPOT_H

#include "proc/hotspot.h"
#include "proc/proc.h"
#include "stacks/frame_reasons.h"
#include "store/store.h"
#include "store/writer.h"
#include "symbols/symbols.h"
#include "unwind_wire.h"

struct hotspots;

/* Everything is borrowed until hotspots_free; procs has been freed by then, or has no image. */
int hotspots_new(struct hotspots **ret, struct store_writer *w, struct procs *procs);
/* Note in r what frames say of waits (frame_reasons.h). Call it before the first frame. */
void hotspots_note_reasons(struct hotspots *h, struct frame_reasons *r);
/* Describe code heaps in this table (HOTSPOT_CODES) from now on; NULL: in none. */
void hotspots_share(struct hotspots *h, struct hotspot_code *codes);
void hotspots_free(struct hotspots *h);

/*
 * Look for HotSpot's heaps in a process that has mapped libjvm: tables at these vaddrs plus bias.
 * 0: they are known, or never will be. -EINPROGRESS: ask again, by hotspots_wait.
 */
int hotspots_look(struct hotspots *h, struct proc_image *im, const struct binary_hotspot *at,
		  uint64_t bias);

/* Return in how many ms to look again at processes that are being started; -1: there are none. */
int hotspots_wait(struct hotspots *h);

/*
 * Add the code heaps of a process that begin at or below `upto`, from *io_heap on, with all that
 * they may grow to. What of out[n] they cover is dropped. Return the new n, at most
 * UNWIND_PROC_RANGES_MAX.
 */
uint32_t hotspots_add_ranges(const struct proc_image *im, uint64_t upto, struct unwind_range *out,
			     uint32_t n, uint32_t *io_heap);

/* Is this address in a code heap that was found? */
bool hotspots_hold(const struct proc_image *im, uint64_t addr);

/*
 * Return the store's frames for a word of hotspot_wire.h, innermost first, or for such an address,
 * as the code is now. -ENOENT: it has no name.
 * -EINPROGRESS: no answer yet.
 */
int hotspots_frames(struct hotspots *h, const struct proc_image *im, uint64_t word,
		    uint32_t out[HOTSPOT_CALLS_MAX], size_t *ret_n);

/* A word is on a stack for the first time: name it at once. im may be NULL. */
void hotspots_told(struct hotspots *h, const struct proc_image *im, uint64_t word);

/* Return the store's frame of Java code without a name. */
int hotspots_unnamed(struct hotspots *h, uint32_t *ret);

/* Drop all ids of the store; between store_renew and its end. */
int hotspots_renewed(struct hotspots *h);
/* Remove names of processes that have ended. */
void hotspots_forget(struct hotspots *h);

struct hotspots_stats {
	uint64_t jvms;			   /* whose code heaps were found */
	uint64_t unknown;		   /* JVMs that cannot be walked */
	uint64_t no_room;		   /* JVMs whose heaps found no place in the table */
	uint64_t names;			   /* frames that were named */
	uint64_t stale;			   /* frames whose code was gone */
	uint64_t forgotten;		   /* times that a user's names made room */
	char missing[HOTSPOT_MISSING_MAX]; /* of the last JVM that cannot be walked */
};
void hotspots_stats(const struct hotspots *h, struct hotspots_stats *ret);

#endif
