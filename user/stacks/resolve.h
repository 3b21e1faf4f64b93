/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From sampled addresses to the store's frames and stacks.
 *
 *   address -> mapping -> module (module.h) -> inlined calls (inlined.h), else the JIT's map, else the symbol (frame.h)
 *
 * Nothing here waits for a parser. Files are opened the first time that somebody maps them, so that a process that ended
 * before its window still gets its names. Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_RESOLVE_H
#define ASCRIBE_STACKS_RESOLVE_H

#include "proc/proc.h"
#include "stacks/jit.h"
#include "stacks/module.h"

struct resolver;

/*
 * Files of the processes in procs are parsed by symbolizer; all are borrowed until resolver_free. The kernel's symbols are read now;
 * when they are not to be had, *ret_warning (errno and text) says why, and kernel frames stay unresolved.
 */
int resolver_new(struct resolver **ret, struct store_writer *w, struct symbolizer *symbolizer, struct procs *procs,
		 struct err *ret_warning);
void resolver_free(struct resolver *r);
void resolver_ask_jvms(struct resolver *r); /* jits_ask_jvms */

/*
 * Debug files that this host has not may come from there: asked for when a file is first seen in a stack, that of a process's own program
 * at its first sample. Borrowed; before the first mapping.
 */
void resolver_set_downloads(struct resolver *r, struct downloads *d);

/* Is a debug file that came being looked at? */
bool resolver_expects_downloads(const struct resolver *r);

/* Every id of the store is void from now on (store_renew). 0 or -errno of the store: to be called again then. */
int resolver_renewed(struct resolver *r);

/* For procs_new: a file that nobody maps any more. */
void resolver_file_gone(void *module);

/* Open the file behind a mapping unless that was tried before. NULL when it is not to be had. */
struct binary *resolver_binary(struct resolver *r, const struct proc_image *im, const struct proc_map *map);

/*
 * Was the file behind a mapping not read (or not opened once more) yet, for lack of an answer or of time? Then what was asked
 * above and below had no answer yet, and is to be asked again later: at the latest after some tries this is false.
 */
bool resolver_is_late(const struct proc_map *map);

/*
 * What tells the content of the file behind a mapping from all others, RESOLVER_CONTENT bytes; NULL when it could not
 * be read. Borrowed while the mapping is there.
 */
#define RESOLVER_CONTENT MODULE_ID_BYTES
const uint8_t *resolver_content(struct resolver *r, const struct proc_image *im, const struct proc_map *map);

/*
 * Have a worker parse the file behind a mapping: call says which op of the sandbox, with what bytes; its descriptor is that of the file.
 * As symbolizer_run; -ENODATA: the file is not to be had, now or ever; -EAGAIN, -EBUSY: not now.
 */
int resolver_parse(struct resolver *r, const struct proc_image *im, const struct proc_map *map, struct symbols_job *io_job,
		   const struct sandbox_call *call, struct buf *reply);
void resolver_cancel(struct resolver *r, struct symbols_job *io_job);

/* The bytes of the vdso and their number; NULL when there is none. */
const uint8_t *resolver_vdso(const struct resolver *r, size_t *ret_size);

struct resolver_stack {
	const uint64_t *frames; /* kernel frames, then user frames, both leaf first */
	uint32_t n_kernel, n_user;
	const uint32_t *python; /* the store's frames of Python code, leaf first; see stacks/interleave.h */
	const bool *entry;
	uint32_t n_python;
	bool python_cut; /* there are more of them towards the root */
	bool put_off;	 /* return -EINPROGRESS rather than leave out names that were requested */
	uint32_t root;	 /* stack of the store below all frames; 0: none */
};

/* What there is to say about the frames of a stack. */
struct resolver_flags {
	bool no_mapping;    /* some user frame lies in no known mapping */
	bool jit_unnamed;   /* some user frame lies in code that its process made and did not describe */
	bool names_refused; /* some user frame lies in a file whose symbols were refused */
	bool names_late;    /* some user frame lies in a file that there was no time to read yet */
	bool lines_saved;   /* inlined calls and lines of some user frame were not looked up: resolver_set_detail */
	bool names_saved;   /* some user frame lies in a cold file, which was not read: resolver_set_detail */
};

/*
 * Set how much is looked up. no_lines: no inlined calls and lines. no_cold_names: no names of files of which fewer than RESOLVER_COLD
 * frames were sampled since. Names that are in memory are used either way.
 */
#define RESOLVER_COLD 64
struct resolver_detail {
	bool no_lines, no_cold_names;
};
void resolver_set_detail(struct resolver *r, const struct resolver_detail *d);

/*
 * The store's stack of a sample; im may be NULL. 0 or -errno of the store. -EINPROGRESS, only with put_off: some of its
 * files are being read, or its places looked up; all that it needs was asked for. Resolve it again after resolver_go_on.
 */
int resolver_stack(struct resolver *r, const struct proc_image *im, const struct resolver_stack *s, uint32_t *ret_stack,
		   struct resolver_flags *ret_flags);

/* Take answers of the parsers, and ask for what is wanted next. */
void resolver_go_on(struct resolver *r);

/* The process has a sample: ask for the debug file of its program. */
void resolver_want_program(struct resolver *r, const struct proc_image *im);

/*
 * Take off the frames of a thread that left its CPU which are the scheduler's and our own program's: its stack then begins where
 * it called the scheduler.
 */
void resolver_trim_switch(struct resolver *r, struct resolver_stack *s);

/* The same of a thread that woke another. */
void resolver_trim_waking(struct resolver *r, struct resolver_stack *s);

/* A mapping appeared that has no file of its own: the process may be making code. */
void resolver_note_code(struct resolver *r, const struct proc_image *im, const struct proc_map *map);

/* Before the rows of a drain; drains are drain_ms apart. A part of that, at most 1 s, may go into DWARF. */
void resolver_begin(struct resolver *r, unsigned drain_ms);

/* Let go of what belongs to processes that procs has forgotten. */
void resolver_forget(struct resolver *r);

void resolver_jit_stats(const struct resolver *r, struct jits_stats *ret);

/* The stack of idle CPUs. */
int resolver_idle(struct resolver *r, uint32_t *ret_stack);

#endif
