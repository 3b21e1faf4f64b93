/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text in the cells of a terminal: names and values come from other programs, so nothing of them
 * may do more than fill cells. What utf8_is_hidden says, bytes that are no UTF-8 and marks piled on
 * one letter are shown as \xNN.
 */
#ifndef ASCRIBE_TOP_CELLS_H
#define ASCRIBE_TOP_CELLS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * s into out (cap bytes with the NUL, at least 8), in at most width columns; what is cut ends in an
 * ellipsis. Returns how many columns it takes: wide characters take two and are never halved. utf8:
 * the terminal shows it, and LC_CTYPE knows it; else a character beyond ASCII is a question mark.
 */
size_t cells_fit(char *out, size_t cap, const char *s, size_t width, bool utf8);

/* s whole. */
size_t cells_width(const char *s, bool utf8);

#endif
