/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python frames: find the processes that are CPython, for bpf/python.bpf.h, and name the code
 * objects on their stacks. A process chooses the names of its own code, and can falsify only its
 * own frames. Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_PYTHON_H
#define ASCRIBE_STACKS_PYTHON_H

#include "proc/proc.h"
#include "stacks/frame_reasons.h"
#include "stacks/resolve.h"
#include "store/store.h"
#include "store/writer.h"

#include <linux/types.h>
#include <stdbool.h>
#include "wire.h"

struct pythons;

/* Processes with a CPython whose frames cannot be read. */
struct python_unknown {
	uint64_t processes;
	char version[sizeof("255.255")]; /* of the last of them */
};

int pythons_new(struct pythons **ret, struct store_writer *w);
/* Note in r what frames say of waits (frame_reasons.h). Call it before the first record. */
void pythons_note_reasons(struct pythons *p, struct frame_reasons *r);
/* Does this process run CPython, as far as its files were read? */
bool python_is_in(struct resolver *r, const struct proc_image *im);
/* Drop all ids of the store; between store_renew and its end. */
int pythons_renewed(struct pythons *p);

void pythons_free(struct pythons *p);

/* Is this version (PY_VERSION_HEX) one whose frames are read? */
bool python_is_known(uint32_t version);

/*
 * Store the runtime of a process and its layout in e; zero for none. Return PY_VERSION_HEX of a
 * CPython that is not known, 0: there is none.
 */
uint32_t python_locate(struct resolver *r, const struct proc_image *im, struct proc_entry *e);

/* Take a record of kind WIRE_PYTHON, of a process of this user (proc_image_user). */
void pythons_record(struct pythons *p, const struct wire_record *r, const void *payload,
		    uint32_t user);

/*
 * Return the store's frame for a word of a row's Python stack; a frame without a name for code
 * without a description.
 */
uint32_t pythons_frame(const struct pythons *p, const struct row *row, uint64_t word);

/* Remove the code of processes that have ended. */
void pythons_forget(struct pythons *p, struct procs *procs);

#endif
