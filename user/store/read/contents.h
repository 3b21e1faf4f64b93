/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of a block, decoded; ids are those of the block's segment. */
#ifndef ASCRIBE_STORE_READ_CONTENTS_H
#define ASCRIBE_STORE_READ_CONTENTS_H

#include "store/block/keys.h"
#include "store/block/rows.h"
#include "store/block/set_sums.h"
#include "store/block/settable.h"
#include "store/block/top.h"
#include "store/block/totals.h"
#include "store/dict/dict.h"
#include "store/read/block_data.h"
#include "store/read/symbols.h"

/*
 * What ids the rows of a block may have: those of its marks. Nothing is allocated by the numbers of
 * a mark before this has held them against the dictionaries, which may be damaged, or made by
 * somebody. what: SYMBOLS_NAMES for leaves, SYMBOLS_SETS for label sets; the others are not looked
 * up. -EBADMSG.
 */
int contents_limits(struct store *s, const struct block_ref *r, const struct block_head *h,
		    unsigned what, struct rows_limits *ret, struct err *err);
/* Begin to read the groups, which were read into d, and with SYMBOLS_SETS their rows. */
int contents_rows(struct store *s, const struct block_ref *r, const struct block_data *d,
		  unsigned what, struct rows_reader *ret, struct err *err);
/*
 * n = 0 where the block has none: rows name narrow sets then. labels: also those of the sets that
 * are in the table alone, of these keys (NULL: all).
 */
int contents_table(struct store *s, const struct block_ref *r, const struct block_data *d,
		   bool labels, const struct settable_keys *keys, struct settable *ret,
		   struct err *err);
int contents_totals(struct store *s, const struct block_ref *r, const struct block_data *d,
		    struct totals *ret, struct err *err);
int contents_keys(struct store *s, const struct block_ref *r, const struct block_data *d,
		  struct block_keys *ret, struct err *err);
int contents_sums(struct store *s, const struct block_ref *r, const struct block_data *d,
		  struct set_sums_reader *ret, struct err *err);
int contents_top(struct store *s, const struct block_ref *r, const struct block_data *d,
		 struct top *ret, struct err *err);
bool contents_wants(const struct store_keys *keys, const char *key);
/*
 * Those of keys (NULL: all) of a narrow set and of an entry of the table (NULL: none), together;
 * returns how many, at most STORE_SET_MAX.
 */
size_t contents_labels(const struct dicts *d, uint32_t narrow, const struct settable *t,
		       const struct settable_set *ts, const struct settable_keys *keys,
		       struct label *out);

#endif
