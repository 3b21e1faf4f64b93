/* SPDX-License-Identifier: Apache-2.0 */
/* Which stacks of a dictionary differ in source lines alone. */
#ifndef ASCRIBE_STORE_READ_SAME_H
#define ASCRIBE_STORE_READ_SAME_H

#include "store/dict/dict.h"

/*
 * *ret: [d->n_stacks], for each stack the first of those that it is equal to but for lines, to be
 * freed; NULL: there are no such stacks. -ENOMEM.
 */
int same_stacks(const struct dicts *d, uint32_t **ret);

#endif
