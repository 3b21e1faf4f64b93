/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that parses for the watcher: without privileges, without files, with limited memory
 * (sandbox/confine.h). It is forked beside the watcher and ends with it.
 */
#ifndef ASCRIBE_PODS_PARSER_H
#define ASCRIBE_PODS_PARSER_H

#include "pods/parse.h"

#define PARSER_MEMORY (96u << 20)
#define PARSER_DEADLINE_MS 5000u

/* Serve parser_parse at the other end of fd. Give up every privilege before. */
_Noreturn void parser_run(int fd, const struct pods_wanted *want, const char *node);

/*
 * As pods_parse, in the process at the other end of fd. emit gets checked records. -ETIMEDOUT and
 * -ECHILD: the process is late or died, and is of no further use.
 */
int parser_parse(int fd, enum pods_format f, const uint8_t *bytes, size_t len, pods_emit emit,
		 void *ctx, struct pods_page *ret);

#endif
