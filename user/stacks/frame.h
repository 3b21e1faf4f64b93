/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's frames of symbols, and of addresses without one. Each symbol keeps the id of its frame. Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_FRAME_H
#define ASCRIBE_STACKS_FRAME_H

#include "proc/proc.h"
#include "stacks/module.h"
#include "store/store.h"

/* Where frames are made. */
struct frames {
	struct store_writer *store;
	struct modules *modules;
	uint32_t life;    /* of the ids of the store, see stacks/ids.h */
	uint32_t unknown; /* the frame of an address where nothing is known to be mapped */
};

/* A user address and what is mapped there, found once for each frame of a stack. */
struct user_frame {
	const struct proc_image *im;
	const struct proc_map *map; /* NULL: nothing is known to be mapped; then nothing below is set */
	struct module *module;      /* NULL: as well */
	uint64_t at;     /* a leaf's own address, else the last byte of the call */
	uint64_t offset; /* of it in the file, bytes */
	uint64_t vaddr;  /* of it in the file */
	bool has_vaddr;  /* false: the module has no binary, or no segment is there */
};

/* Find what a user frame lies in. im may be NULL. */
struct user_frame frame_locate(struct frames *f, const struct proc_image *im, uint64_t addr, bool leaf);

/* The frame of a symbol. module and build_id are strings of the store. 0 or -errno of the store. */
int frame_of_symbol(struct frames *f, const struct symbol *sym, uint32_t kind, uint32_t module, uint32_t build_id, uint32_t *ret);

/*
 * The symbol at a place. -ENOENT: there is none; -EAGAIN: not now; -EBADF: the module's files are closed and would have to be opened.
 * frame_symbol opens them.
 */
int frame_find_symbol(const struct user_frame *u, struct symbol *ret);
int frame_symbol(struct frames *f, const struct user_frame *u, struct symbol *ret);

/* The frame without inlined calls: of the symbol (NULL: there is none), else of the offset. 0 or -errno of the store. */
int frame_plain(struct frames *f, const struct user_frame *u, const struct symbol *sym, uint32_t *ret);

#endif
