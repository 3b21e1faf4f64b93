/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a store knows the label keys and values of a question. A question by a key that no label
 * set has would be answered with "(none)" for everything, one for a value that nothing has with
 * nothing. Most of these are typing errors.
 */
#ifndef ASCRIBE_CLI_KNOWN_H
#define ASCRIBE_CLI_KNOWN_H

#include "query/query.h"

/*
 * The keys of a selector (NULL: none) and of a list. A key is known if any label set of the store
 * has it, whatever the range, or if the recorder gives it to samples. -EINVAL: err names the first
 * that is not, the nearest that is, and what there is. A store without label sets knows every key.
 * Errors of the store are left to the question.
 */
int known_keys(struct store *s, const char *where, const char *const *keys, size_t n,
	       struct err *err);

/*
 * To be asked when no sample matched: the values that matchers of the selector ask for by "=". As
 * known_keys; the nearest is among the values in [from_ns, to_ns). Cost: reads what the store has
 * of that key.
 */
int known_values(struct store *s, const struct query_spec *asked, struct err *err);

#endif
