/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which keys and events an asker may know of. A store lists those of everybody; who sees a part of
 * the label sets (store_set_scope) is shown those that have samples of it.
 */
#ifndef ASCRIBE_QUERY_VISIBLE_H
#define ASCRIBE_QUERY_VISIBLE_H

#include "query/found.h"

/*
 * Keys of label sets, of every event: those of the first event with the most samples first, then
 * those that other events have besides. In l until found_fini.
 */
int visible_keys(struct store *s, struct found_list *l, struct err *err);

/* [store_n_events]: those that may be named; to be freed. */
int visible_events(struct store *s, bool **ret, struct err *err);

#endif
