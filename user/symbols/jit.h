/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of code that a process made while it ran, as it wrote them down itself:
 *
 *   perf-TGID.map   text lines: start and size in hexadecimal, name
 *   jit-TGID.dump   "jitdump", as described in
 *                   linux/tools/perf/Documentation/jitdump-specification.txt
 *
 * Both say more and more; what is said later about an address holds.
 */
#ifndef ASCRIBE_SYMBOLS_JIT_H
#define ASCRIBE_SYMBOLS_JIT_H

#include "sandbox/sandbox.h"
#include "symbols/symbols.h"
#include "util/buf.h"

#define JIT_FILE_MAX (48u << 20)     /* of a perf map; a JVM with 100,000 methods writes 10 MB */
#define JIT_ENTRIES_MAX (384u << 10) /* functions */
#define JIT_RECORDS_MAX (1u << 20)   /* of a jitdump, of all kinds */
#define JIT_NAMES_MAX (24u << 20)
#define JIT_NAME_MAX 2048u	  /* bytes of one name; longer ones are cut */
#define JIT_TABLE_MAX (40u << 20) /* encoded */

enum jit_format { JIT_PERF_MAP, JIT_DUMP };

struct jit_entry {
	uint64_t addr;
	uint32_t size;
	uint32_t name; /* offset in names */
	uint64_t tag;  /* the caller's, initially 0 */
};

/* Sorted, without overlaps. */
struct jit_table {
	struct jit_entry *entries;
	size_t n;
	char *names;
	size_t names_len;
	uint32_t failures; /* lines or records that made no sense */
};

/*
 * Read a file, through the sandbox of s (NULL: here). fd is borrowed and must be of a regular file.
 * -EBADMSG, -E2BIG, -EPROTONOSUPPORT (a dump of another machine or version), -EIO (the parser died
 * or was late), and as symbolizer_run.
 */
int jit_read(struct jit_table *ret, struct symbolizer *s, struct symbols_job *io_job, int fd,
	     enum jit_format format);
void jit_fini(struct jit_table *t);

/* The entry that holds addr, or NULL. */
struct jit_entry *jit_find(struct jit_table *t, uint64_t addr);
size_t jit_memory(const struct jit_table *t);

/* ---- what a name says ---- */

enum jit_language { JIT_UNKNOWN, JIT_PYTHON, JIT_NODE };

struct jit_name {
	enum jit_language language;
	char function[JIT_NAME_MAX + 1];
	char file[JIT_NAME_MAX + 1]; /* empty: not said */
	uint32_t line;		     /* 0: not said */
};

/*
 * "py::total:/srv/shop.py" (CPython's perf trampoline), "JS:*total file:///srv/shop.js:12:3" and
 * "LazyCompile:~total /srv/shop.js:12" (V8, which marks the tier by ~ ^ + or *: one function
 * whatever its tier). Other names stay as they are.
 */
void jit_split_name(struct jit_name *ret, const char *name);

/* ---- ops of the sandbox ---- */

int jit_op_perf_map(const struct sandbox_request *q, struct buf *out);
int jit_op_dump(const struct sandbox_request *q, struct buf *out);

#endif
