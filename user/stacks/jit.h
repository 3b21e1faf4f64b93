/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames in code that processes generate at run time: find and read the maps of such code, and
 * request them from JVMs.
 *
 * A map is /tmp/perf-N.map in the root of the process. N is its id in its innermost PID namespace,
 * or the id of its parent (workers forked after the code was generated). A jitdump is found by its
 * mapping, whose path ends in jit-N.dump. The root stays open from the first mapping of such code:
 * a process that ended before its samples are read still has names.
 */
#ifndef ASCRIBE_STACKS_JIT_H
#define ASCRIBE_STACKS_JIT_H

#include "proc/proc.h"
#include "stacks/frame_reasons.h"
#include "store/store.h"
#include "store/writer.h"
#include "symbols/jit.h"

struct jits;

struct jits_stats {
	uint64_t maps; /* maps read */
	/* Files that were not read: wrong owner, too large, malformed; each once */
	uint64_t refused;
	uint64_t failures; /* malformed lines and records */
	uint64_t jvms;	   /* JVMs that were sampled */
	uint64_t asked;	   /* requests to JVMs for their map */
	uint64_t silent;   /* of these, requests without an answer */
};

/* Everything is borrowed until jits_free. */
int jits_new(struct jits **ret, struct store_writer *w, struct symbolizer *s, struct procs *procs);
/* Note in r what frames say of waits (frame_reasons.h). Call it before the first frame. */
void jits_note_reasons(struct jits *j, struct frame_reasons *r);
void jits_free(struct jits *j);

/*
 * Request maps of JVMs from now on, and remove those maps when the JVM or the recorder ends
 * (stacks/jvm.h).
 */
void jits_ask_jvms(struct jits *j);

/* Drop all ids of the store. Call it once at the start, and whenever the store renews its ids. */
int jits_renewed(struct jits *j);

/* True for a mapping that may hold generated code. */
bool jits_is_code(const struct proc_map *m);

/* Note such a mapping. */
void jits_note(struct jits *j, const struct proc_image *im);

/* Begin a drain: take what JVMs have answered. */
void jits_begin(struct jits *j);

/* Open the roots that readers had no time for: a process may end before its first drain. */
void jits_go_on(struct jits *j);

/*
 * Return the store's frame of an address in such a mapping. -ENOENT: no map names it. -EINPROGRESS:
 * a map is being read.
 */
int jits_frame(struct jits *j, const struct proc_image *im, uint64_t addr, uint32_t *ret_frame);

/* Remove processes that are no longer in procs. */
void jits_forget(struct jits *j);
void jits_stats(const struct jits *j, struct jits_stats *ret);

#endif
