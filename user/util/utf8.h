/* SPDX-License-Identifier: Apache-2.0 */
/* Telling UTF-8 from other bytes. */
#ifndef ASCRIBE_UTIL_UTF8_H
#define ASCRIBE_UTIL_UTF8_H

#include "util/buf.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * The length of the UTF-8 character at s, 0 when it is none (overlong, surrogate, cut short). len >
 * 0.
 */
size_t utf8_char(const char *s, size_t len);

/*
 * A character, as utf8_char found it, that shows nothing itself but may change how all around it is
 * shown: controls, marks of writing direction, joiners, separators of lines, tags.
 */
bool utf8_is_hidden(const char *s, size_t n);

/* Put '?' in the place of each byte of no character and of hidden ones, but those that are kept. */
void utf8_show(char *text, const char *kept);

/* Its number. */
unsigned utf8_code(const char *s, size_t n);

/* The opposite: write the character of a number up to 0x1fffff. Return its length. */
size_t utf8_put(char out[4], unsigned code);

/* End a text in "..." that snprintf cut: it has `len` bytes, and `cap` had room, 4 at least. */
void utf8_mark_cut(char *text, size_t cap, size_t len);

/* Is all of the text UTF-8? */
bool utf8_is_whole(const char *s, size_t len);

/* Add the text to `to`, each byte that belongs to no character as U+FFFD. 0 or -ENOMEM. */
int utf8_repair(struct buf *to, const char *s, size_t len);

#endif
