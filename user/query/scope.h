/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a store that an asker may see (store_set_scope): the label sets that a selector
 * admits and that have each label it names. Every query looks at it before its own selector, so a
 * question can find out nothing about other sets.
 *
 * Rows about two parties (waits for a CPU) belong to the one that waited. The other one is
 * "(other)" unless the scope admits it, too. Rows of who ended a wait have that one's stacks: they
 * are shown to nobody who has a scope.
 */
#ifndef ASCRIBE_QUERY_SCOPE_H
#define ASCRIBE_QUERY_SCOPE_H

#include "query/selector.h"
#include "store/store.h"

#define SCOPE_KEY_MAX 255 /* bytes */

struct scope {
	struct selector *selector; /* NULL: everything is seen */
	const char *keys[SELECTOR_KEYS_MAX];
	size_t n_keys;
	char (*by)[SCOPE_KEY_MAX + 4]; /* [n_keys], "by." and the key */
};

/*
 * text NULL: everything. -EINVAL: no selector of labels that sets have, or one that admits all. To
 * be freed whatever the result.
 */
int scope_parse(struct scope *s, const char *text, struct err *err);
void scope_fini(struct scope *s);

/*
 * Whether a set is seen, and as what: *labels and *n become those of `room` where the other party
 * is not seen. The set must have the labels of the scope, if they were recorded. As selector_match.
 */
int scope_admit(struct scope *s, const struct label **labels, size_t *n,
		struct label room[static STORE_SET_MAX], bool *ret, struct err *err);

/*
 * Whether who ended waits may be asked of a store: it was recorded, and the asker may see all of
 * it.
 */
bool scope_has_wakers(const struct store *s);

#endif
