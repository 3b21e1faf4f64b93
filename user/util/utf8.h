/* SPDX-License-Identifier: Apache-2.0 */
/* Telling UTF-8 from other bytes. */
#ifndef ASCRIBE_UTIL_UTF8_H
#define ASCRIBE_UTIL_UTF8_H

#include <stddef.h>

/* The length of the UTF-8 character at s, 0 when it is none (overlong, surrogate, cut short). len > 0. */
size_t utf8_char(const char *s, size_t len);

#endif
