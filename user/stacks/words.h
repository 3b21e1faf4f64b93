/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of frames that are words, not addresses: code made at run time that the BPF program
 * walks (hotspot_wire.h, v8_wire.h). Kept for each process, so that a name outlives its code. Not
 * thread-safe.
 */
#ifndef ASCRIBE_STACKS_WORDS_H
#define ASCRIBE_STACKS_WORDS_H

#include "proc/proc.h"
#include "stacks/frame_reasons.h"
#include "store/store.h"
#include "store/writer.h"
#include "util/idhash.h"
#include "util/quota.h"

#define WORDS_MAX (1u << 17) /* of all processes; 40 bytes each and 4 for each frame */

struct word_name {
	uint64_t from_ns, word;
	uint32_t tgid, user;
	uint32_t first, n; /* in frames */
};

struct words {
	struct store_writer *store;
	struct procs *procs;
	struct frame_reasons *reasons; /* NULL: not asked for */
	struct word_name *names;
	size_t n, cap;
	uint32_t *frames;
	size_t n_frames, frames_cap;
	struct idhash hash;
	struct quota quota;
	uint64_t forgotten; /* times that a user's names made room */
};

/*
 * Functions of a process that are named as soon as they are first on a stack, before its rows are
 * read: WORDS_TOLD_MAX in a second. All zero at first.
 */
#define WORDS_TOLD_MAX 2000
struct words_told {
	uint64_t second;
	uint32_t n;
};
/* Count one more. False: there were enough in this second. */
bool words_told(struct words_told *t);

/* store and procs are borrowed until words_fini. */
void words_init(struct words *w, struct store_writer *store, struct procs *procs);
void words_fini(struct words *w);

/*
 * The frames of a word of an image, innermost first. NULL: it is not known. Valid until the next
 * call.
 */
const uint32_t *words_find(struct words *w, const struct proc_image *im, uint64_t word,
			   size_t *ret_n);

/* Keep a name, unless it is known. When there is no room, the user's others go. */
int words_keep(struct words *w, struct proc_image *im, uint64_t word, const uint32_t *frames,
	       size_t n);

/* Add a frame to the store: texts that end in a NUL, as the process has them; file may be empty. */
int words_add_frame(struct words *w, const char *function, const char *module, const char *file,
		    uint32_t line, uint32_t *ret);

/* Carry all frames over to the renewed store; between store_renew and its end. */
int words_renewed(struct words *w);
/* Remove names of processes that have ended. */
void words_forget(struct words *w);

#endif
