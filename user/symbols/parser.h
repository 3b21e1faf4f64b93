/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done with foreign bytes, and how its results travel. The ops run in a worker of the
 * sandbox (or, for tests and fuzzers, in the caller), the decoders in the recorder. A worker may
 * have been taken over by what it read: decoders check everything, and what comes through is at
 * worst wrong names.
 */
#ifndef ASCRIBE_SYMBOLS_PARSER_H
#define ASCRIBE_SYMBOLS_PARSER_H

#include "elf/image.h"
#include "sandbox/sandbox.h"
#include "symbols/debugdata.h"
#include "symbols/symbols.h"
#include "symbols/table.h"
#include "util/buf.h"

#define PARSER_TABLE_MAX (64u << 20) /* bytes of an encoded table */
#define PARSER_FACTS_MAX (128u << 10)

/* The head of a file. */
struct facts {
	/* Machine, type, loads, build id and label only: no descriptor, no sections */
	struct elf_image img;
	uint32_t has;		       /* FACT_* */
	char link[DEBUGLINK_NAME_MAX]; /* empty: no .gnu_debuglink */
	uint32_t link_crc;
	struct binary_script script; /* version 0: it is none */
	struct binary_hotspot hotspot;
	struct binary_v8 v8;
};

#define FACT_SYMTAB 1u
#define FACT_DWARF 2u
#define FACT_GO 4u	 /* .gopclntab and no .symtab, and .dynsym is small */
#define FACT_GO_LINES 8u /* .gopclntab and no DWARF */

int facts_encode(const struct elf_image *img, struct buf *out);
int facts_decode(struct facts *ret, const struct buf *in);
void facts_fini(struct facts *f);

/* Symbols: what was wrong with them goes along with what could be read. */
int parser_encode_table(const struct elf_image *img, const struct elf_image *debug,
			const char *name, struct buf *out);
int parser_decode_table(struct table *ret, struct buf *in, int *ret_load_rc, struct err *err);

/*
 * Requests. All take the file as the first descriptor and its name (for texts) as the bytes; on
 * failure the answer is a text.
 *   OPEN  -> facts; -ENOEXEC: not ELF at all
 *   LOAD  -> table; a second descriptor is its separate debug file
 *   CRC   -> u32
 *   PARTS -> table; the bytes are addresses (u64): of .gopclntab only their functions are in it
 */
int parser_op_open(const struct sandbox_request *q, struct buf *out);
int parser_op_load(const struct sandbox_request *q, struct buf *out);
int parser_op_crc(const struct sandbox_request *q, struct buf *out);
int parser_op_parts(const struct sandbox_request *q, struct buf *out);

#endif
