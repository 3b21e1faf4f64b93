/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions and files in rules about frames. */
#ifndef ASCRIBE_QUERY_FRAME_WORDS_H
#define ASCRIBE_QUERY_FRAME_WORDS_H

#include <stdbool.h>

/*
 * True if the name matches one of the words, which blanks separate. A name matches a word when it
 * is that word, up to an argument list, a version or the mark of a clone. A word that ends in '*'
 * is a prefix; one that begins with '*' may stand anywhere.
 */
bool frame_words_match(const char *words, const char *name);

#endif
