/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selectors: which label sets.
 *
 *   selector = [ "{" ] [ matcher { "," matcher } [ "," ] ] [ "}" ]      both braces or none
 *   matcher  = key op value
 *   key      = a word of letters, digits and _ : . - /, or a quoted string
 *   op       = "=" | "!=" | "=~" | "!~"
 *   value    = a string in " or ', with \n \t \r \\ \" \' \xHH; or in backquotes, without escapes
 *
 * All matchers must hold. A label that is not in the set counts as the empty text; integers are
 * compared as decimal text. Regular expressions are PCRE2 over bytes and must match the whole
 * value, as in Prometheus. Compiling and matching are limited in steps, depth and memory. `event`
 * and `wait` are virtual: no set has them.
 */
#ifndef ASCRIBE_QUERY_SELECTOR_H
#define ASCRIBE_QUERY_SELECTOR_H

#include "labels/labels.h"
#include "util/err.h"

#include <stdbool.h>

struct selector;

/*
 * text NULL or "": matches everything. -EINVAL: err names the column, counted from 1 in bytes, and
 * *ret_at (may be NULL) is that place from 0, for a caret; -ENOMEM leaves it alone.
 */
int selector_parse(struct selector **ret, const char *text, size_t *ret_at, struct err *err);
void selector_free(struct selector *s);

/*
 * Whether a normalized set matches, with the matchers of virtual labels left out. -E2BIG: a regular
 * expression went over its limits on some value.
 */
int selector_match(struct selector *s, const struct label *labels, size_t n, bool *ret_match,
		   struct err *err);

/* The matchers of the virtual label `event` alone. */
int selector_match_event(struct selector *s, const char *event, bool *ret_match, struct err *err);
bool selector_names_event(const struct selector *s);

/* Likewise of the virtual label `wait`; "" for what has none. */
int selector_match_wait(struct selector *s, const char *wait, bool *ret_match, struct err *err);
bool selector_names_wait(const struct selector *s);

#define SELECTOR_KEYS_MAX 64 /* matchers: no selector has more */

/*
 * The keys of the matchers but the virtual ones, borrowed; writes at most cap, returns how many
 * there are.
 */
size_t selector_keys(const struct selector *s, const char **keys, size_t cap);

/*
 * Whether matcher i (below SELECTOR_KEYS_MAX) asks for one value, not empty, of a key; both
 * borrowed.
 */
bool selector_equal(const struct selector *s, size_t i, const char **ret_key,
		    const char **ret_value, size_t *ret_len);

/* A matcher as it was written; borrowed. */
struct selector_matcher {
	const char *key, *value; /* key ends in a NUL */
	size_t value_len;
	bool regex, negated;
};
/* Matcher i, also of a virtual label; false: there are fewer. */
bool selector_matcher(const struct selector *s, size_t i, struct selector_matcher *ret);

/*
 * No label set can match both: one wants a value that the other does not. False: it is not known.
 */
bool selector_excludes(const struct selector *a, const struct selector *b);

struct buf;
/*
 * Append the matchers of a text that selector_parse takes, without braces, and a comma behind
 * them. -ENOMEM.
 */
int selector_add_matchers(struct buf *out, const char *where);

#endif
