/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolve sampled addresses to frames and stacks of the store.
 *
 *   address -> mapping -> module (module.h) -> inlined calls (inlined.h),
 *              else the JIT's map, else the symbol (frame.h)
 *
 * No call waits for a parser. A file is opened when a process first maps it, so that a process that
 * ends before its window still gets its names. Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_RESOLVE_H
#define ASCRIBE_STACKS_RESOLVE_H

#include "proc/proc.h"
#include "stacks/frame_reasons.h"
#include "stacks/hotspot.h"
#include "stacks/v8.h"
#include "stacks/jit.h"
#include "stacks/module.h"
#include "store/writer.h"

struct resolver;

/*
 * Parse the files of the processes in procs by symbolizer; borrow all until resolver_free. Read the
 * kernel's symbols now. When they cannot be read, *ret_warning (errno and text) says why, and
 * kernel frames stay unresolved.
 */
int resolver_new(struct resolver **ret, struct store_writer *w, struct symbolizer *symbolizer,
		 struct procs *procs, struct err *ret_warning);
void resolver_free(struct resolver *r);
void resolver_ask_jvms(struct resolver *r); /* jits_ask_jvms */

/*
 * Download debug files that this host lacks from d, borrowed. A file's is requested when the file
 * is first in a stack, a program's at its first sample. Call it before the first mapping.
 */
void resolver_set_downloads(struct resolver *r, struct downloads *d);

/* True while a downloaded debug file is being parsed. */
bool resolver_expects_downloads(const struct resolver *r);

/*
 * All ids of the store are void (store_renew): make them again. 0 or -errno of the store; then call
 * it again.
 */
int resolver_renewed(struct resolver *r);

/* For procs_new: no process maps this file any more. */
void resolver_file_gone(void *module);

/*
 * Open the file of a mapping, unless that was tried before. NULL: it cannot be opened, or it is
 * late.
 */
struct binary *resolver_binary(struct resolver *r, const struct proc_image *im,
			       const struct proc_map *map);

/*
 * True while the file of a mapping is not read yet, for lack of an answer or of time. Answers of
 * the calls around are not final then: ask again later. False after some tries.
 */
bool resolver_is_late(const struct proc_map *map);

/*
 * Return the identity of the content of a mapping's file, RESOLVER_CONTENT bytes; NULL when it
 * could not be read. Borrowed until the mapping is removed.
 */
#define RESOLVER_CONTENT MODULE_ID_BYTES
const uint8_t *resolver_content(struct resolver *r, const struct proc_image *im,
				const struct proc_map *map);

/*
 * Have a worker parse the file of a mapping. call names the operation of the sandbox and its bytes;
 * the file is its descriptor. As symbolizer_run; -ENODATA: the file cannot be opened; -EAGAIN,
 * -EBUSY: try again later. symbolizer_cancel gives the job up.
 */
int resolver_parse(struct resolver *r, const struct proc_image *im, const struct proc_map *map,
		   struct symbols_job *io_job, const struct sandbox_call *call, struct buf *reply);

/* Return the bytes of the vdso and their number; NULL when there is none. */
const uint8_t *resolver_vdso(const struct resolver *r, size_t *ret_size);

/*
 * Note in r what frames say of waits (frame_reasons.h), borrowed, so that resolver_flags.wait is
 * known. Call it before the first stack.
 */
void resolver_note_reasons(struct resolver *r, struct frame_reasons *reasons);

struct resolver_stack {
	const uint64_t *frames; /* kernel frames, then user frames, both leaf first */
	uint32_t n_kernel, n_user;
	/* The store's frames of scripts, leaf first; see stacks/interleave.h */
	const uint32_t *script;
	const bool *entry;
	uint32_t n_script;
	unsigned language; /* of these: enum script_language */
	bool script_cut;   /* frames towards the root are missing */
	bool put_off;	   /* return -EINPROGRESS while names are being read */
	uint32_t root;	   /* stack of the store below all frames; 0: none */
};

/* Flags of the frames of a stack. */
struct resolver_flags {
	bool no_mapping; /* some user frame lies in no known mapping */
	/* Some user frame lies in code made at run time that its process does not describe */
	bool jit_unnamed;
	bool names_refused; /* some user frame lies in a file whose symbols were refused */
	bool names_late;    /* some user frame lies in a file that was not read yet */
	/* Inlined calls and lines of some user frame were not looked up: resolver_set_detail */
	bool lines_saved;
	/* Some user frame lies in a cold file, which was not read: resolver_set_detail */
	bool names_saved;
	/* Enum wait_class: why a thread with this stack waits, after resolver_note_reasons; */
	uint8_t wait;
	uint8_t lock; /* likewise, enum lock_kind: for which lock; */
	bool release; /* and whether a function of the stack releases a lock */
};

/*
 * Set how much is looked up. no_lines: no inlined calls and lines. no_cold_names: no names of files
 * with fewer than RESOLVER_COLD sampled frames since. Names in memory are used either way.
 */
#define RESOLVER_COLD 64
struct resolver_detail {
	bool no_lines, no_cold_names;
};
void resolver_set_detail(struct resolver *r, const struct resolver_detail *d);

/*
 * Resolve the stack of a sample; im may be NULL. 0 or -errno of the store. -EINPROGRESS, only with
 * put_off: files are being read or addresses looked up; all that it needs is requested. Resolve it
 * again after resolver_go_on.
 */
int resolver_stack(struct resolver *r, const struct proc_image *im, const struct resolver_stack *s,
		   uint32_t *ret_stack, struct resolver_flags *ret_flags);

/* Take answers of the parsers, and send what is wanted next. */
void resolver_go_on(struct resolver *r);

/* Request the debug file of the program of a process that has a sample. */
void resolver_want_program(struct resolver *r, const struct proc_image *im);

/*
 * Remove the frames of the scheduler and of our own program from the stack of a thread that left
 * its CPU. Its stack then begins where it called the scheduler.
 */
void resolver_trim_switch(struct resolver *r, struct resolver_stack *s);

/* The same for a thread that woke another. */
void resolver_trim_waking(struct resolver *r, struct resolver_stack *s);

/*
 * Note a new mapping without a file: the process may make code at run time. False: it is of a file,
 * or not code.
 */
bool resolver_note_code(struct resolver *r, const struct proc_image *im,
			const struct proc_map *map);

/* Begin the rows of a drain; drains are drain_ms apart. */
void resolver_begin(struct resolver *r, unsigned drain_ms);

/* Free what belongs to processes that procs has forgotten. */
void resolver_forget(struct resolver *r);

/* Who finds and names Java code; borrowed. */
struct hotspots *resolver_hotspots(const struct resolver *r);
struct v8s *resolver_v8s(const struct resolver *r);

void resolver_jit_stats(const struct resolver *r, struct jits_stats *ret);

/* Return the stack of idle CPUs. */
int resolver_idle(struct resolver *r, uint32_t *ret_stack);

#endif
