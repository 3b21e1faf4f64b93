/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pyroscope's "trie": folded stacks whose common beginnings are sent once. A node is the length of
 * its text, the text, its count and the number of its children, all numbers LEB128; its children
 * follow. Its stack is the texts from the root to it, one behind the other (grafana/pyroscope,
 * pkg/og/structs/transporttrie).
 */
#ifndef ASCRIBE_IMPORT_TRIE_H
#define ASCRIBE_IMPORT_TRIE_H

#include "util/buf.h"
#include "util/err.h"

/*
 * Append a line of folded stacks for each node that has a count, at most max bytes in all. -EINVAL:
 * it is no whole trie; -E2BIG: it is larger or deeper; -ENOMEM. After an error out has a part.
 */
int trie_unfold(const uint8_t *data, size_t len, size_t max, struct buf *out, struct err *err);

#endif
