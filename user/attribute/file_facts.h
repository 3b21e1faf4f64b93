/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a file says of label sources: its variables, its Go runtime, and where the recipes for it lead. A worker of the sandbox parses
 * the file; the recorder checks what it answers. A worker that was taken over makes wrong labels at worst.
 */
#ifndef ASCRIBE_ATTRIBUTE_FILE_FACTS_H
#define ASCRIBE_ATTRIBUTE_FILE_FACTS_H

#include "attribute/paths.h"
#include "elf/tls.h"
#include "sandbox/sandbox.h"
#include "symbols/symbols.h"
#include "util/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* Their numbers in the sandbox's table: behind those of user/symbols and the one of user/unwind (collector.c). */
#define FILE_FACTS_OP (SYMBOLS_OPS + 1)
#define FILE_PATH_OP (SYMBOLS_OPS + 2)

/* All zero: the file has none of it. */
struct file_facts {
	bool executable, musl;
	uint32_t go;  /* version, 0: not Go */
	bool go_tls;
	int64_t go_g; /* where g is from the thread pointer, if go_tls */
	uint64_t tls_size, tls_align; /* of the thread-local block, bytes; tls_align at least 1 */
	uint32_t machine;
	uint32_t n;
	struct elf_variable v[ELF_VARIABLES_MAX];
};

#define FILE_FACTS_REPLY_MAX (64u << 10)

/* The request: no bytes; the first descriptor is the file. */
int file_facts_op(const struct sandbox_request *q, struct buf *out);

/* 0 or -EBADMSG. */
int file_facts_decode(struct file_facts *ret, const struct buf *in);

/*
 * The request: a recipe and the path of the file (file_path_request); the first descriptor is the file. The answer is a text for
 * messages where it fails; -ENXIO: the recipe is not for this file.
 */
int file_path_op(const struct sandbox_request *q, struct buf *out);
int file_path_request(const struct recipe *r, const char *path, struct buf *out);

/* ret->field borrows from r. 0 or -EBADMSG. */
int file_path_decode(struct path *ret, const struct recipe *r, const struct buf *in);

#endif
