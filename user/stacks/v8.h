/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JavaScript without options: find the processes that run V8, tell bpf/v8.bpf.h where their version
 * keeps what it reads, and name the frames that it finds. Names are read from the memory of the
 * process (proc/v8.h). Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_V8_H
#define ASCRIBE_STACKS_V8_H

#include "proc/proc.h"
#include "stacks/frame_reasons.h"
#include "store/writer.h"
#include "symbols/symbols.h"

struct v8s;

/* Everything is borrowed until v8s_free; procs has been freed by then, or has no image. */
int v8s_new(struct v8s **ret, struct store_writer *w, struct procs *procs);
/* Note in r what frames say of waits (frame_reasons.h). Call it before the first frame. */
void v8s_note_reasons(struct v8s *v, struct frame_reasons *r);
/* Describe layouts in this table (V8_LAYOUTS) from now on; NULL: in none. */
void v8s_share(struct v8s *v, struct v8_layout *table);
void v8s_free(struct v8s *v);

/* A process has mapped a file that holds V8. */
void v8s_found(struct v8s *v, struct proc_image *im, const struct binary_v8 *b);
/* Has one been found? */
bool v8s_knows(const struct proc_image *im);

/* 1 + the index of its layout in the table; 0: none, its stacks stay native. */
uint32_t v8s_layout(const struct proc_image *im);

/* A function is on a stack for the first time: read its name while it is there. im may be NULL. */
void v8s_told(struct v8s *v, const struct proc_image *im, uint64_t word);

/*
 * Return the store's frame for a word of v8_wire.h. -ENOENT: it has no name. -EINPROGRESS: no
 * answer yet.
 */
int v8s_frame(struct v8s *v, const struct proc_image *im, uint64_t word, uint32_t *ret);

/* Return the store's frame of a function without a name. */
int v8s_unnamed(struct v8s *v, uint32_t *ret);

/* Drop all ids of the store; between store_renew and its end. */
int v8s_renewed(struct v8s *v);
/* Remove names of processes that have ended. */
void v8s_forget(struct v8s *v);

struct v8s_stats {
	uint64_t programs;	      /* processes whose frames are named */
	uint64_t unknown;	      /* processes with a V8 that cannot be walked */
	uint64_t no_room;	      /* processes whose layout found no place in the table */
	uint64_t names;		      /* functions that were named */
	uint64_t stale;		      /* frames whose function was gone, or moved */
	uint64_t forgotten;	      /* times that a user's names made room */
	char missing[V8_MISSING_MAX]; /* of the last that cannot be walked */
};
void v8s_stats(const struct v8s *v, struct v8s_stats *ret);

#endif
