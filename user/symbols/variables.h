/* SPDX-License-Identifier: Apache-2.0 */
/* Names of a file's variables by address, read by a worker of the sandbox. */
#ifndef ASCRIBE_SYMBOLS_VARIABLES_H
#define ASCRIBE_SYMBOLS_VARIABLES_H

#include "sandbox/sandbox.h"
#include "symbols/symbols.h"
#include "util/buf.h"

#include <stdint.h>

/* The index of the operation: behind those of user/sampler (collector.c). */
#define VARIABLES_OP (SYMBOLS_OPS + 4)

#define VARIABLES_MAX 64u      /* addresses of one request */
#define VARIABLE_NAME_MAX 160u /* bytes with the NUL; longer ones are cut */
#define VARIABLES_REPLY_MAX (VARIABLES_MAX * sizeof(struct variable_name))

struct variable_name {
	uint64_t offset;	      /* of the address in the variable, bytes */
	uint64_t size;		      /* of the variable */
	char name[VARIABLE_NAME_MAX]; /* demangled; "": no symbol holds the address */
};

/*
 * The request: addresses of the file (u64), at most VARIABLES_MAX; the file is the first
 * descriptor. The answer: a struct variable_name for each.
 */
int variables_op(const struct sandbox_request *q, struct buf *out);

/* Decode an answer about n addresses. 0 or -EBADMSG. */
int variables_decode(struct variable_name *ret, size_t n, const struct buf *in);

#endif
