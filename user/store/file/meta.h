/* SPDX-License-Identifier: Apache-2.0 */
/* What several stores say of themselves, as one. */
#ifndef ASCRIBE_STORE_FILE_META_H
#define ASCRIBE_STORE_FILE_META_H

#include "store/store.h"

/* Where the counters of one of the stores are among those of all. */
struct meta_map {
	size_t *lost_at, *flagged_at;
};

/*
 * Join the meta of n stores: counters by their names, other texts each once. ret_maps: [n], zero,
 * to be freed with meta_map_fini whatever the result. -E2BIG: too many counters; -ENOMEM.
 */
int meta_join(struct store_meta *ret, const struct store_meta *const *from, size_t n,
	      struct meta_map *ret_maps);
void meta_map_fini(struct meta_map *m);
/* Free an owned meta. */
void meta_fini(struct store_meta *m);

#endif
