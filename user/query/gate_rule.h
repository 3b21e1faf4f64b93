/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of a gate: what must not grow (diff --fail-on), or what a recording must have (stat
 * --require).
 *
 *   rule    = subject op limit
 *   subject = a word: total, function, a label key, a counter; or matchers, as in a selector
 *   op      = ">" | ">=" | "<" | "<="
 *   limit   = a number >= 0, then "%" (of a share), "x" (times) or nothing (a count)
 *
 * Blanks may stand between the parts: function =~ "parse.*" > 1%.
 */
#ifndef ASCRIBE_QUERY_GATE_RULE_H
#define ASCRIBE_QUERY_GATE_RULE_H

#include "query/selector.h"

#define GATE_RULE_MAX 4096 /* bytes of a rule's text */

enum gate_op { GATE_MORE, GATE_MORE_EQUAL, GATE_LESS, GATE_LESS_EQUAL };
enum gate_unit { GATE_COUNT, GATE_PERCENT, GATE_TIMES };

struct gate_rule {
	char *text;		/* as it was written */
	char *name;		/* the word; NULL: matchers */
	struct selector *where; /* the matchers; NULL: a word */
	enum gate_op op;
	enum gate_unit unit;
	double limit; /* in the unit: 2% is 2 */
};

/*
 * -EINVAL: err says what is wrong and what is allowed, *ret_at is the byte in text where; -ENOMEM.
 * Release what was parsed with gate_rule_fini.
 */
int gate_rule_parse(struct gate_rule *ret, const char *text, size_t *ret_at, struct err *err);
void gate_rule_fini(struct gate_rule *r);

/* Does a number keep what the rule's op and limit say of it? */
bool gate_rule_compare(const struct gate_rule *r, double value);

#endif
