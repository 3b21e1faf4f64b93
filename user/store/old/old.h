/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores of format 2, which programs before this one wrote: they are converted, and then read like
 * any other. Nothing in the old store is changed.
 */
#ifndef ASCRIBE_STORE_OLD_OLD_H
#define ASCRIBE_STORE_OLD_OLD_H

#include "util/err.h"

#include <stdbool.h>
#include <stdint.h>

/* What a conversion carried over, and what it could not. */
struct store_conversion {
	uint64_t windows; /* written */
	uint64_t bytes;	  /* written */
	/* Of these: blocks of a higher level, since their windows had been cut by retention */
	uint64_t parents;
	/* windows left out: one of those blocks holds them, and others that were cut */
	uint64_t replaced;
	uint64_t unlabelled;   /* samples in blocks that had lost all their labels */
	uint64_t without_wide; /* blocks that had lost the labels of wide keys */
	char torn[700];	       /* the torn end that was left out; empty: none */
};

/* 1: dir is a store of format 2; else 0, also when it cannot be read. */
bool store_is_old(const char *dir);

/*
 * Write the store of format 2 in `from` into the new directory `to`. parents: also the blocks above
 * the windows. Memory: one generation of symbols and one epoch of label sets, beside a writer's.
 * -EBADMSG names file and offset of the damage; -ENOSPC: `to` has no room. After a failure `to` is
 * incomplete.
 */
int store_convert(const char *from, const char *to, bool parents, struct store_conversion *ret,
		  struct err *err);

/*
 * Replace the store of format 2 in dir by one of the format of today. Convert it into a directory
 * below, verify that, and put its files into the place of the old ones. Interrupted at any point
 * dir is one of the two, whole; the next call goes on. Needs room for both. -EBUSY: another process
 * writes to it.
 */
int store_rewrite(const char *dir, struct store_conversion *ret, struct err *err);
/* Remove what an interrupted store_rewrite of dir left. */
void store_rewrite_clean(const char *dir);

#endif
