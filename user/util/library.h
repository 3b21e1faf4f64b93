/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries that are loaded when they are first needed, so that a host can do without them. The
 * static program (make static) loads none: a library of the host would bring a second C library.
 */
#ifndef ASCRIBE_UTIL_LIBRARY_H
#define ASCRIBE_UTIL_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* Does this program load libraries at all? */
extern const bool library_any;

/* NULL: it is not installed, or this is the static program. It is never closed. */
void *library_open(const char *soname);
/* NULL: it has no such symbol. */
void *library_symbol(void *library, const char *name);

/*
 * Why library_open returned NULL, and what to do: "cannot load libpq.so.5: install libpq5". The
 * static program names the package of ascribe instead. Borrowed until the next call.
 */
const char *library_missing(const char *soname, const char *package);

#endif
