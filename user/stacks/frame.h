/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's frames of symbols, and of addresses without one. Each symbol keeps the id of its
 * frame. Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_FRAME_H
#define ASCRIBE_STACKS_FRAME_H

#include "proc/proc.h"
#include "stacks/frame_reasons.h"
#include "stacks/module.h"
#include "store/store.h"
#include "store/writer.h"

/* Shared state for creating frames. */
struct frames {
	struct store_writer *store;
	struct modules *modules;
	struct frame_reasons *reasons; /* NULL: not asked for */
	uint32_t life;		       /* number of the store's id space, see stacks/ids.h */
	uint32_t unknown;	       /* the frame of an address without a mapping */
};

/* A user address with its mapping, found once for each frame of a stack. */
struct user_frame {
	const struct proc_image *im;
	const struct proc_map *map; /* NULL: no mapping; nothing below is set */
	struct module *module;	    /* may be NULL */
	uint64_t at;		    /* the leaf's address, else the last byte of the call */
	uint64_t offset;	    /* of `at` in the file, bytes */
	uint64_t vaddr;		    /* of `at` in the file */
	bool has_vaddr;		    /* false: the module has no binary, or no segment there */
	bool creator;		    /* no caller: it made the goroutine (go_wire.h) */
};

/* Find the mapping and the module of a user frame. im may be NULL. */
struct user_frame frame_locate(struct frames *f, const struct proc_image *im, uint64_t addr,
			       bool leaf);

/*
 * Return the frame of a symbol. in: its kind, module and build id, which are strings of the store.
 * module: the module's name. 0 or -errno of the store.
 */
int frame_of_symbol(struct frames *f, const struct symbol *sym, const struct store_frame *in,
		    const char *module, uint32_t *ret);

/*
 * Find the symbol at a place. -ENOENT: none; -EAGAIN: not now; -EBADF: the module's files are
 * closed. frame_symbol opens them.
 */
int frame_find_symbol(const struct user_frame *u, struct symbol *ret);
int frame_symbol(struct frames *f, const struct user_frame *u, struct symbol *ret);

/*
 * Return the frame that says of a frame's function that it made a goroutine, as Go's own traces do.
 * -ENOENT: they leave it out, because it made the main one. 0 or -errno of the store.
 */
int frame_creator(struct frames *f, uint32_t frame, uint32_t *ret);

/*
 * Return the frame without inlined calls: of the symbol (may be NULL), else of the offset. 0 or
 * -errno of the store.
 */
int frame_plain(struct frames *f, const struct user_frame *u, const struct symbol *sym,
		uint32_t *ret);

#endif
