/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts of a file that label sources need: its variables, its Go runtime, and the addresses that
 * recipes compute. A worker of the sandbox parses the file, and the recorder checks the answer. A
 * worker that a file has taken over can at worst make wrong labels.
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

/*
 * Indices of the sandbox's operations: after those of user/symbols and user/unwind (collector.c).
 */
#define FILE_FACTS_OP (SYMBOLS_OPS + 1)
#define FILE_PATH_OP (SYMBOLS_OPS + 2)

/* All zero for a file without label sources. */
struct file_facts {
	bool executable, musl;
	uint32_t go; /* version, 0: not Go */
	bool go_tls;
	int64_t go_g;		      /* offset of g from the thread pointer, if go_tls */
	uint64_t tls_size, tls_align; /* of the thread-local block, bytes; tls_align at least 1 */
	uint32_t machine;
	uint32_t n;
	struct elf_variable v[ELF_VARIABLES_MAX];
};

#define FILE_FACTS_REPLY_MAX (64u << 10)

/* Parse a file. The request has no bytes; its first descriptor is the file. */
int file_facts_op(const struct sandbox_request *q, struct buf *out);

/* Decode the answer of file_facts_op. 0 or -EBADMSG. */
int file_facts_decode(struct file_facts *ret, const struct buf *in);

/*
 * Compute where a recipe finds its field. The request is a recipe and the path of the file
 * (file_path_request), with the file as first descriptor. On an error the answer is a text for
 * messages. -ENXIO: the recipe is for other files.
 */
int file_path_op(const struct sandbox_request *q, struct buf *out);
int file_path_request(const struct recipe *r, const char *path, struct buf *out);

/* Decode the answer of file_path_op; ret->field borrows from r. 0 or -EBADMSG. */
int file_path_decode(struct path *ret, const struct recipe *r, const struct buf *in);

#endif
