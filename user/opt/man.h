/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manual, from the option tables: a page for each command, and ascribe(1) for what they have in
 * common.
 */
#ifndef ASCRIBE_OPT_MAN_H
#define ASCRIBE_OPT_MAN_H

#include "opt/options.h"

struct man_source {
	const char *version, *date; /* YYYY-MM-DD */
};

void man_command(const struct man_source *m, const struct opt_command *cmd, const char *summary,
		 FILE *f);

/* ascribe(1): begin, an entry for each command, end. */
void man_begin(const struct man_source *m, FILE *f);
void man_entry(const char *name, const char *summary, FILE *f);
void man_end(FILE *f);

/* A page that was made by these, with its lines as long as pages have them. */
void man_put(const char *page, FILE *f);

#endif
