/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may do what: tokens with their scopes. A file of them has a line for each:
 *
 *   line  = NAME ( TOKEN | "certificate" ) scope { [ "," ] scope }
 *   scope = "read" [ selector ] | "ingest" | "capture" | "admin"
 *
 * `certificate`: instead of by a token, by a TLS certificate with this common name. Lines that are
 * empty or begin with # say nothing. A selector stands in braces (query/scope.h);
 * who reads by one sees nothing else. `admin` is all of them.
 */
#ifndef ASCRIBE_HTTP_ACCESS_H
#define ASCRIBE_HTTP_ACCESS_H

#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>

#define ACCESS_TOKENS_MAX 256
#define ACCESS_NAME_MAX 32
#define ACCESS_FILE_MAX (256u << 10)

enum {
	ACCESS_READ = 1,
	ACCESS_INGEST = 2,
	ACCESS_CAPTURE = 4,
	ACCESS_ADMIN = 8,
};

struct access_grant {
	char name[ACCESS_NAME_MAX + 1]; /* for people: never the token */
	unsigned may;			/* ACCESS_... */
	char *where;			/* what it sees; NULL: everything */
	char *token;			/* NULL: a certificate has the name */
};

struct access {
	struct access_grant *v;
	size_t n;
};

/* token NULL: a certificate. -EINVAL: a name or token that makes no sense, or is there already. */
int access_add(struct access *a, const char *name, const char *token, unsigned may,
	       struct err *err);
/* Add the lines of a file; -EINVAL names the line, and never a token. */
int access_parse(struct access *a, const char *text, struct err *err);
/* Wipes the tokens. */
void access_fini(struct access *a);

/* The token's grant; NULL: there is none. The time tells nothing about any token. */
const struct access_grant *access_find(const struct access *a, const char *token);
/* That of a certificate with this common name; NULL: there is none. */
const struct access_grant *access_certificate(const struct access *a, const char *name);
/* Whether a grant allows this, or any does. */
bool access_may(const struct access_grant *g, unsigned what);
bool access_any_may(const struct access *a, unsigned what);

#endif
