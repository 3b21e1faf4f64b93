/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that look like credentials: keys of clouds and forges, JWTs, private keys, what stands
 * behind "Bearer", "password=" and the like, passwords in URLs. A guess by form: what has none,
 * as a random token, is not found.
 */
#ifndef ASCRIBE_LABELS_CREDENTIAL_H
#define ASCRIBE_LABELS_CREDENTIAL_H

#include <stdbool.h>
#include <stddef.h>

/* One pass over the text. */
bool credential_in(const char *text, size_t len);

#endif
