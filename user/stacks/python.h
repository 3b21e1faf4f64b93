/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python frames: which processes are CPython, for bpf/python.bpf.h, and what the code objects of their stacks are. What a
 * process says of its own code is text of its own choosing, and names nothing but its own frames. Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_PYTHON_H
#define ASCRIBE_STACKS_PYTHON_H

#include "proc/proc.h"
#include "stacks/resolve.h"
#include "store/store.h"

#include <linux/types.h>
#include <stdbool.h>
#include "wire.h"

struct pythons;

int pythons_new(struct pythons **ret, struct store_writer *w);
/* Every id of the store is void from now on; between store_renew and its end. */
int pythons_renewed(struct pythons *p);

void pythons_free(struct pythons *p);

/* The runtime of a process and its layout, into e; zero when it has none that is known. */
void python_locate(struct resolver *r, const struct proc_image *im, struct proc_entry *e);

/* A record of kind WIRE_PYTHON. */
void pythons_record(struct pythons *p, const struct wire_record *r, const void *payload);

/* The store's frame of a word of a row's Python stack; of code that was not described, one without a name. */
uint32_t pythons_frame(const struct pythons *p, const struct row *row, uint64_t word);

/* Forget the code of processes that have ended. */
void pythons_forget(struct pythons *p, struct procs *procs);

#endif
