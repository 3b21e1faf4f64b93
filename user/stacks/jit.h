/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames in code that processes made while they ran: which process's map to read, when to read it again, and whom to
 * ask for one (the JVM).
 *
 * A map is found as /tmp/perf-N.map in the root of the process, N its number in its innermost namespace (or its parent's: workers
 * forked after the code was made), a jitdump by its mapping, whose path ends in jit-N.dump. Roots are kept open from the first
 * sight of such code, so that a process that ended before its samples are looked at has its names all the same.
 */
#ifndef ASCRIBE_STACKS_JIT_H
#define ASCRIBE_STACKS_JIT_H

#include "proc/proc.h"
#include "store/store.h"
#include "symbols/jit.h"

struct jits;

struct jits_stats {
	uint64_t maps;     /* read */
	uint64_t refused;  /* files that were not: wrong owner, too large, nonsense; each once */
	uint64_t failures; /* lines and records that made no sense */
	uint64_t jvms;     /* JVMs whose own code ran */
	uint64_t asked;    /* JVMs asked for their map */
	uint64_t silent;   /* of these, without an answer */
};

/* All are borrowed until jits_free. */
int jits_new(struct jits **ret, struct store_writer *w, struct symbolizer *s, struct procs *procs);
void jits_free(struct jits *j);

/* From now on ask JVMs to write their maps, and remove those maps when they end or we do (stacks/jvm.h). */
void jits_ask_jvms(struct jits *j);

/* Every id of the store is void from now on; to be called once before anything is asked, too. */
int jits_renewed(struct jits *j);

/* Is this where code of the process's own making may be? */
bool jits_is_code(const struct proc_map *m);

/* Such a mapping was seen. */
void jits_note(struct jits *j, const struct proc_image *im);

/* A new drain: JVMs may be asked again, within the time that is set aside for it. */
void jits_begin(struct jits *j);

/* The store's frame of an address in such a mapping; -ENOENT: nobody says what is there; -EINPROGRESS: a map is being read. */
int jits_frame(struct jits *j, const struct proc_image *im, uint64_t addr, uint32_t *ret_frame);

/* Forget processes that procs has forgotten. */
void jits_forget(struct jits *j);
void jits_stats(const struct jits *j, struct jits_stats *ret);

#endif
