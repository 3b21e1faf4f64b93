/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reader and writer share: finding out what a directory holds.
 */
#ifndef ASCRIBE_STORE_STORE_INT_H
#define ASCRIBE_STORE_STORE_INT_H

#include "store/block.h"
#include "store/dict.h"
#include "store/file.h"
#include "store/header.h"

struct stored_block {
	struct block block;
	uint64_t offset; /* of its frame */
	uint64_t end;
};

struct store {
	char *dir;
	int dir_fd;
	struct header header;
	struct dicts dicts;
	struct file files[KIND_BLOCKS + 1]; /* by kind; 0 is not used */
	struct stored_block *blocks;        /* in order of the file */
	size_t n_blocks, blocks_cap;
	size_t *order; /* the same by t0 */
	bool dict_short; /* committed windows are left out because of a dictionary: more than a crash does */
	bool header_only; /* there is no segment file yet */
	char damage[4352]; /* empty: none */
	struct label **set_cache; /* [n_sets], filled by store_set */
};

/* All zero but for the descriptors. */
void store_init(struct store *s);
void store_fini(struct store *s);

/* Open the directory; -ENOENT, -ENOTDIR and others with their text. */
int store_open_dir(struct store *s, const char *dir, struct err *err);

/*
 * Read everything but the rows: header, blocks, dictionaries up to the marks of the last usable block. write: the
 * files are opened for writing and the dictionaries indexed. The files stay open.
 */
int store_load(struct store *s, bool write, struct err *err);

#endif
