/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text for people. Names and label values come from other programs. Nothing of them may move the
 * cursor or colour the screen or turn the order of what follows. So hidden characters
 * (utf8_is_hidden) and bytes that are no UTF-8 are shown as \xNN.
 */
#ifndef ASCRIBE_OPT_TEXT_H
#define ASCRIBE_OPT_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A printable copy to be freed, NULL when out of memory. */
char *text_printable(const char *s, size_t len);

/* How many columns it takes, one per code point. */
size_t text_width(const char *s);

/* A printable copy on f, with spaces behind it up to width columns, or before it up to -width. */
void text_put(FILE *f, const char *s, int width);

/*
 * Print a line, broken at blanks so that it fits into width columns (0: any). It begins in column
 * `at`; further lines begin with `indent` blanks.
 */
void text_fold(FILE *f, const char *text, unsigned at, unsigned indent, unsigned width);

/* Cut s in place to at most width columns, the last one then being an ellipsis. width > 0. */
void text_cut(char *s, size_t width);

/* Put the texts into out, with ", " between them; what does not fit is cut. Returns out. */
const char *text_join(char *out, size_t cap, const char *const *v, size_t n);

/* Realtime as RFC 3339 in local time; out has room for 40 bytes. */
void text_time(int64_t ns, char *out);

/* Nanoseconds to three digits: "1.25 ms"; out has room for 32 bytes. */
void text_duration(uint64_t ns, char *out);

/* Bytes to three digits: "1.25 MiB"; out has room for 32 bytes. */
void text_bytes(uint64_t n, char *out);

/* "1,234,567"; out has room for 32 bytes. */
void text_count(uint64_t n, char *out);

/* "from .. to (10.0 s)"; out has room for 120 bytes. */
void text_range(int64_t from_ns, int64_t to_ns, char *out);

#endif
