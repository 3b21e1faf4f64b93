/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of locks by their addresses.
 *
 *   address of a process
 *     in a data segment of a mapped file --> data symbol (a worker) --> server:cache_lock+0x28
 *                                            none                   --> server+0x4028
 *     in a shared mapping of a file      --> /dev/shm/queue+0x40
 *     else                               --> [heap] 0x55d0c5a2f2a0 of 1234
 *
 * No call waits. Not thread-safe.
 */
#ifndef ASCRIBE_COLLECT_LOCK_NAMES_H
#define ASCRIBE_COLLECT_LOCK_NAMES_H

#include "proc/proc.h"
#include "stacks/resolve.h"

struct lock_names;

enum lock_place_state { LOCK_NEW, LOCK_IN_FILE, LOCK_ASKED, LOCK_IN_MEMORY, LOCK_NAMED };

/* Where a lock is. All zero but for id and at before the first lock_name_find. */
struct lock_place {
	struct proc_id id; /* of the process */
	uint64_t at;	   /* its address there */
	enum lock_place_state state;
	char *base;	 /* what `offset` counts from; NULL: nothing, it is an address */
	uint64_t offset; /* bytes */
	uint64_t size;	 /* of the variable, bytes; 0: base is none */
	uint64_t file;	 /* of the file's content: a hash */
};

/* Borrow both until lock_names_free. 0 or -ENOMEM. */
int lock_names_new(struct lock_names **ret, struct procs *procs, struct resolver *resolver);
void lock_names_free(struct lock_names *n);

/*
 * Find the name of a lock, in which a thread was blocked at ns (BOOTTIME). 0: it is known, or will
 * never be; -EINPROGRESS: ask again later.
 */
int lock_name_find(struct lock_names *n, struct lock_place *io_place, uint64_t ns);

/* Forget all places that were passed: they are about to be freed. */
void lock_names_forget(struct lock_names *n);
void lock_place_fini(struct lock_place *p);

#endif
