/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which blocks of one store hold a range: store_cover and store_cover_value without their unions.
 */
#ifndef ASCRIBE_STORE_READ_COVER_H
#define ASCRIBE_STORE_READ_COVER_H

#include "store/store.h"

int cover_rows(struct store *s, int64_t from_ns, int64_t to_ns, enum store_want want,
	       const char *const *keys, size_t n_keys, struct store_cover *ret, struct err *err);
int cover_value(struct store *s, int64_t from_ns, int64_t to_ns, const struct label *values,
		size_t n_values, const char *const *keys, size_t n_keys, struct store_cover *ret,
		struct err *err);
/* The order of blocks in a cover, for qsort. */
int cover_by_time(const void *pa, const void *pb);

#endif
