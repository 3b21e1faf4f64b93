/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batches of label sets: the strings they bring (as in strings.h), then labels per set, key,
 * type and value of each label.
 */
#ifndef ASCRIBE_STORE_DICT_SETS_H
#define ASCRIBE_STORE_DICT_SETS_H

#include "store/file/columns.h"
#include "store/dict/dict.h"

#define SET_COLUMNS (STRINGS_COLUMNS + 5)

int sets_encode(const struct dicts *d, const struct dict_mark *mark, struct buf *columns,
		struct dict_mark *ret_next);
int sets_decode(struct dicts *d, struct cursor *c, uint32_t n);

#endif
