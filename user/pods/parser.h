/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that parses for the watcher: without privileges, without files, with limited memory
 * (sandbox/confine.h). It is started on the first document, and again when it died or was late.
 */
#ifndef ASCRIBE_PODS_PARSER_H
#define ASCRIBE_PODS_PARSER_H

#include "pods/parse.h"

#define PARSER_MEMORY (96u << 20)
#define PARSER_DEADLINE_MS 5000u

struct parser;

/* want and node are borrowed. Nothing is forked yet. 0 or -ENOMEM. */
int parser_new(struct parser **ret, const struct pods_wanted *want, const char *node);
void parser_free(struct parser *p);

/*
 * As pods_parse, in the other process. emit gets checked records. Also -ETIMEDOUT, and -ECHILD when
 * the process died: of this document nothing more comes.
 */
int parser_parse(struct parser *p, enum pods_format f, const uint8_t *bytes, size_t len,
		 pods_emit emit, void *ctx, struct pods_page *ret);

#endif
