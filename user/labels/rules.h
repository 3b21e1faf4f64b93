/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels without reading a program's memory: the named groups of a regular expression on the
 * process's title or cgroup, and environment variables that a recipe names. The texts are foreign:
 * matching has limits, values are cut.
 */
#ifndef ASCRIBE_LABELS_RULES_H
#define ASCRIBE_LABELS_RULES_H

#include "labels/labels.h"
#include "labels/recipe.h"

#define RULE_LABELS_MAX 16 /* of one process */
#define RULE_VALUE_MAX 255 /* bytes; longer values are cut between characters */
#define RULE_TEXT_MAX 4096 /* bytes of a title or cgroup that are looked at */

struct rules;

/* NULL in *ret when no recipe has rules. The recipes are borrowed until rules_free. */
int rules_new(struct rules **ret, const struct recipes *recipes, struct err *err);
void rules_free(struct rules *r);

/* Is this a pattern with a named group? 0, or -EINVAL with the reason as text. */
int rules_check(const char *pattern, char *ret_text, size_t cap);

/* Labels of a process, their text their own. */
struct rule_labels {
	struct label v[RULE_LABELS_MAX];
	size_t n;
	char text[RULE_LABELS_MAX][RULE_VALUE_MAX];
};

/*
 * Append what the rules make of a title (blanks between the arguments), a cgroup path, an
 * environment (NUL behind each).
 */
void rules_title(struct rules *r, const char *exe, const char *title, size_t len,
		 struct rule_labels *to);
void rules_cgroup(struct rules *r, const char *exe, const char *path, size_t len,
		  struct rule_labels *to);
void rules_environment(struct rules *r, const char *exe, const char *env, size_t len,
		       struct rule_labels *to);

/* Which of these would have anything to say about this executable? */
bool rules_want_title(const struct rules *r, const char *exe);
bool rules_want_environment(const struct rules *r, const char *exe);

#endif
