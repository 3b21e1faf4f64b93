/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manners on a terminal: colour only there (or where --color=always asks for it, and never with
 * NO_COLOR or TERM=dumb unless it does), and a pager for what may be long.
 */
#ifndef ASCRIBE_OPT_TERM_H
#define ASCRIBE_OPT_TERM_H

#include <stdbool.h>
#include <stdio.h>

enum term_style { TERM_HEAD, TERM_GOOD, TERM_WARN, TERM_BAD, TERM_DIM };

bool term_colors(FILE *f);
/* What is printed in between has the style, where there is colour. */
void term_begin(FILE *f, enum term_style style);
void term_end(FILE *f);

/* A terminal on which a line can be written over: columns; 0: it is none. */
unsigned term_columns(FILE *f);

/*
 * Columns of the terminal that stdout goes to, through a pager or not; 0: it is none, so nothing is
 * cut. term_room: what is left of them behind `used` columns, at least 24.
 */
unsigned term_width(void);
unsigned term_room(unsigned used);

/*
 * From here on what goes to stdout, and to stderr when that is a terminal too, goes through a
 * pager. It is ASCRIBE_PAGER, else PAGER, else less, which ends by itself when all fits on the
 * screen. Nothing happens without a terminal, with --no-pager, or when the pager is "" or "cat".
 */
void term_page(void);
/* When all is printed: wait until the pager's user has read it. */
void term_page_end(void);

#endif
