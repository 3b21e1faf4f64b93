/* SPDX-License-Identifier: Apache-2.0 */
/* A text with a reference count, for paths that many structs share. Not thread-safe. */
#ifndef ASCRIBE_UTIL_SHARED_TEXT_H
#define ASCRIBE_UTIL_SHARED_TEXT_H

/* Copy s into a new text with one reference. NULL: no memory. */
char *shared_text_new(const char *s);
/* Add a reference, and return t. NULL stays NULL. */
char *shared_text_get(char *t);
/* Drop a reference; the last one frees the text. NULL is allowed. */
void shared_text_put(char *t);

#endif
