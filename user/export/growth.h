/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds more memory than before, as JSON (docs/json.md). */
#ifndef ASCRIBE_EXPORT_GROWTH_H
#define ASCRIBE_EXPORT_GROWTH_H

#include "export/json.h"
#include "query/growth.h"

/* A new reference; NULL: out of memory. limit: rows at most. */
json_t *answer_growth(const struct store *s, const struct growth *g, const char *key, size_t limit);

/* The name of the i-th frame of a stack that grew, from the leaf on; false: there is none. */
bool growth_frame(const struct store *s, const struct growth *g, const struct growth_stack *of,
		  size_t i, char *name, size_t cap);

#endif
