/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of CPython, PHP, Ruby, Perl and LuaJIT: find the processes that are one, for
 * bpf/script.bpf.h, and name the code on their stacks. A process chooses the names of its own code,
 * and can falsify only its own frames. Of a process with several interpreters, the first one mapped
 * counts. Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_SCRIPTS_H
#define ASCRIBE_STACKS_SCRIPTS_H

#include "proc/proc.h"
#include "stacks/frame_reasons.h"
#include "stacks/resolve.h"
#include "store/store.h"
#include "store/writer.h"

#include <linux/types.h>
#include <stdbool.h>
#include "wire.h"

struct scripts;

#define SCRIPT_VERSION_MAX 32

/* Processes with an interpreter of a language whose frames cannot be read. */
struct script_unknown {
	uint64_t processes;
	char version[SCRIPT_VERSION_MAX]; /* of the last of them */
};

int scripts_new(struct scripts **ret, struct store_writer *w);
/* Note in r what frames say of waits (frame_reasons.h). Call it before the first record. */
void scripts_note_reasons(struct scripts *p, struct frame_reasons *r);
/* Does this process run CPython, as far as its files were read? */
bool scripts_are_python(struct resolver *r, const struct proc_image *im);
/* Drop all ids of the store; between store_renew and its end. */
int scripts_renewed(struct scripts *p);

void scripts_free(struct scripts *p);

/* Is this a version whose frames are read? */
bool script_is_known(const struct binary_script *s);
/*
 * Write which version it is: "3.16", "API 20230831,TS", "3.4", "3.14t of an unusual build",
 * "offsets 336,4000".
 */
void script_version(const struct binary_script *s, char ret[SCRIPT_VERSION_MAX]);

/*
 * Store where the chain of frames of a process begins, and its layout, in e; zero for none. True:
 * there is an interpreter that is not known, *ret_unknown.
 */
bool scripts_locate(struct resolver *r, const struct proc_image *im, struct proc_entry *e,
		    struct binary_script *ret_unknown);

/* Take a record of kind WIRE_SCRIPT, of a process of this user (proc_image_user). */
void scripts_record(struct scripts *p, const struct wire_record *r, const void *payload,
		    uint32_t user);

/*
 * Return the store's frame for a word of a row's script stack; a frame without a name for code
 * without a description.
 */
uint32_t scripts_frame(const struct scripts *p, const struct row *row, uint64_t word);

/* Remove the code of processes that have ended. */
void scripts_forget(struct scripts *p, struct procs *procs);

#endif
