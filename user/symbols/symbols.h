/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From addresses to names: the symbol tables of ELF files, of the kernel and of the vdso.
 *
 * Nothing here knows about processes. A binary is opened once from a descriptor that the caller got
 * (map_files, the right mount namespace), by content, and looked up by its own addresses. Not
 * thread-safe.
 *
 * The bytes of a binary belong to somebody else. Sizes, counts and offsets are checked against
 * caps. Files are read with pread into bounded buffers (never mmap), and a file that lies is
 * refused with -EBADMSG / -E2BIG.
 */
#ifndef ASCRIBE_SYMBOLS_SYMBOLS_H
#define ASCRIBE_SYMBOLS_SYMBOLS_H

#include "hotspot_tables.h"
#include <linux/types.h>
#include "script_wire.h"
#include "v8_wire.h"
#include "sandbox/sandbox.h"
#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A symbol as looked up. The name is demangled and borrowed until the table is freed. "": a
 * function of a stripped file, of which only the start is there.
 */
struct symbol {
	const char *name;
	const char *module; /* kernel only: "[kernel]", "[ext4]", "[bpf]"; NULL for binaries */
	uint64_t start;	    /* address as in the table: vaddr of an ELF symbol, kernel address */
	uint64_t size;	    /* 0 when the table does not say */
	uint64_t *tag;	    /* a cell that belongs to the caller, initially 0, one per symbol */
};

/* ---- where foreign bytes are parsed ---- */

#define SYMBOLS_OPS 8
extern const sandbox_op symbols_ops[SYMBOLS_OPS];

/*
 * Its initializers, for a constant table that has other ops behind them. In the order of enum
 * symbols_op.
 */
#define SYMBOLS_OPS_LIST \
	parser_op_open, parser_op_load, parser_op_crc, jit_op_perf_map, jit_op_dump, lines_op, \
		parser_op_parts, go_lines_op
int parser_op_open(const struct sandbox_request *q, struct buf *out);
int parser_op_load(const struct sandbox_request *q, struct buf *out);
int parser_op_crc(const struct sandbox_request *q, struct buf *out);
int jit_op_perf_map(const struct sandbox_request *q, struct buf *out);
int jit_op_dump(const struct sandbox_request *q, struct buf *out);
int lines_op(const struct sandbox_request *q, struct buf *out);
int parser_op_parts(const struct sandbox_request *q, struct buf *out);
int go_lines_op(const struct sandbox_request *q, struct buf *out);

struct symbolizer;

/*
 * Requests go to the ops of symbols_ops in a sandbox, where they begin at first_op. Without a
 * sandbox (NULL) they run in this process. The tables of all binaries together keep within
 * table_bytes. Those that were not asked for a long time go, and are read again from the file,
 * which stays open, when they are.
 */
struct symbolizer_config {
	struct sandbox *sandbox; /* borrowed */
	unsigned first_op;
	size_t table_bytes;   /* 0: SYMBOLIZER_TABLE_BYTES */
	unsigned deadline_ms; /* 0: SYMBOLIZER_DEADLINE_MS; of one request */
	bool wait;	      /* for every answer: for those who have nothing else to do */
};

/*
 * What could not be read now, through no fault of its own, is tried again after that time, then
 * after four times as long, and so on. It is tried so many times in all: a slow file is not waited
 * for without end. What was not even tried, as nothing is just now, is so soon.
 */
#define SYMBOLS_AGAIN_NS 1000000000ull
#define SYMBOLS_SOON_NS 250000000ull
#define SYMBOLS_AGAIN_MAX 4u

struct symbols_again {
	uint64_t at_ns; /* CLOCK_MONOTONIC; 0: nothing is waited for */
	unsigned n;
};

/* Does this result (-EAGAIN, -EBUSY, -EINPROGRESS) say only that there is no answer yet? */
bool symbols_is_late(int rc);
/*
 * It failed once more with such an rc. False: that was the last time. After -EINPROGRESS it is due
 * at once, without end.
 */
bool symbols_put_off(struct symbols_again *a, int rc);
/* Is it to be tried, if ever? False: it is too early. */
bool symbols_is_due(const struct symbols_again *a);

#define SYMBOLIZER_TABLE_BYTES (24u << 20)
#define SYMBOLIZER_DEADLINE_MS 2000u
#define SYMBOLS_MEMORY (64u << 20) /* that a worker needs at most */

struct symbolizer_stats {
	uint64_t heads;		  /* files whose head was parsed, debug files included */
	uint64_t refused;	  /* files that lie, are too large, or cost their worker its life */
	uint64_t tables;	  /* read */
	uint64_t reread;	  /* of these, again */
	uint64_t debug;		  /* separate debug files in use */
	uint64_t debug_unchecked; /* debug links to files that are too large to check their CRC */
	uint64_t lines;		  /* addresses looked up in DWARF */
	uint64_t lines_refused;	  /* files whose DWARF was given up */
	size_t bytes;		  /* of tables now */
	/*
	 * Requests that were not made now: the time for them, or for those of one user, was used up
	 */
	uint64_t put_off;
};

int symbolizer_new(struct symbolizer **ret, const struct symbolizer_config *cfg);
/* From now on tables keep within that; those that are too many go at once. */
void symbolizer_limit_tables(struct symbolizer *s, size_t bytes);
/* After all of its binaries. */
void symbolizer_free(struct symbolizer *s);
void symbolizer_stats(const struct symbolizer *s, struct symbolizer_stats *ret);

/*
 * Requests take at most a share of the time (spending.h), from now on with nothing used: drains are
 * drain_ms apart. Before the first call there is no limit.
 */
void symbolizer_begin(struct symbolizer *s, unsigned drain_ms);

/* The process that files are read for from here on: its user is charged. */
void symbolizer_for(struct symbolizer *s, uint32_t tgid);

/* Is there time left for it? s may be NULL. */
bool symbolizer_may(struct symbolizer *s);

/*
 * Priorities of jobs. Names may come later. Samples without rules come as copies of their stack, of
 * which there are few. Samples before the labels of their process are found have none.
 */
enum symbols_priority { PRIORITY_NAMES, PRIORITY_RULES, PRIORITY_LABELS };

/* A request that may be under way. All zero: none is. */
struct symbols_job {
	struct sandbox_job *job;
	uint32_t user;	 /* who is charged */
	uint64_t cpu_ns; /* of the last answer */
};

/*
 * Run any op of the sandbox for that process, in its time. The first call submits a job;
 * -EINPROGRESS: call again until it is answered, of later calls only io_job counts. Then as
 * sandbox_take, and -EIO for a worker that died or was late. -EBUSY: the time is used up, or the
 * queue is full. deadline_ms 0: that of the symbolizer. reply must be initialized. -ENOSYS without
 * a sandbox.
 */
int symbolizer_run(struct symbolizer *s, struct symbols_job *io_job,
		   const struct sandbox_call *call, struct buf *reply);
void symbolizer_cancel(struct symbols_job *io_job);

/* ---- one ELF file ---- */

struct binary;

/*
 * As binary_open; s is borrowed until binary_free. -EAGAIN, -EBUSY: not now (sandbox.h).
 * -EINPROGRESS: its head is being read; *ret is good for binary_read_head and binary_free alone,
 * until binary_read_head returns 0. After -EAGAIN and -EBUSY that can be asked again.
 */
int binary_open_in(struct binary **ret, struct symbolizer *s, int fd, const char *path,
		   struct err *err);
int binary_read_head(struct binary *b, struct err *err);

/*
 * Read the program headers, build id and the place of the symbol tables of an ELF file of this
 * machine's byte order. They are read by pread on fd, which must be seekable and is borrowed for
 * the call only; a duplicate stays open. The symbols themselves are read at the first look-up. path
 * is for messages. A file without symbols is fine: nothing is found in it. This one parses in the
 * calling process.
 */
int binary_open(struct binary **ret, int fd, const char *path, struct err *err);

/* The same from an image in memory (the vdso); the bytes are copied. */
int binary_open_memory(struct binary **ret, const void *image, size_t size, const char *name,
		       struct err *err);
void binary_free(struct binary *b);

/*
 * Close its files, unless a debug file is expected; what was read of them stays. From then on
 * binary_find and binary_lines give -EBADF for what they would have to read: until binary_reopen,
 * which takes the open files of another binary of the same content.
 */
void binary_close_files(struct binary *b);
bool binary_is_closed(const struct binary *b);
void binary_reopen(struct binary *b, struct binary *from);

/* The open file, borrowed; -1: it is closed, or was none. */
int binary_fd(const struct binary *b);

/* Build id as raw bytes, 0 when there is none. Borrowed. */
size_t binary_build_id(const struct binary *b, const uint8_t **ret);

/* How far an executable mapping of the file has moved its vaddrs: elf_image_bias. */
int binary_bias(const struct binary *b, uint64_t start, uint64_t pgoff, uint64_t *ret_bias);

/* Is the vaddr in a segment of the file that is no code? Variables are in such. */
bool binary_has_data(const struct binary *b, uint64_t vaddr);

/* Where in the file a vaddr is from: elf_image_offset. */
int binary_offset(const struct binary *b, uint64_t vaddr, uint64_t *ret_offset);

/*
 * The function that holds vaddr: .symtab if there is one, else .dynsym (both are read and merged: a
 * name in .symtab wins). -ENOENT when none does; -EAGAIN: the symbols could not be read yet;
 * -EBADF: see binary_close_files. A symbol of size 0 reaches to the next symbol or the end of its
 * section. Of several at one address: global before weak before local, then the shorter name
 * without leading underscores, then the first in the table.
 */
int binary_find(struct binary *b, uint64_t vaddr, struct symbol *ret);

/*
 * Read the symbols now, as the first binary_find does, and say what was wrong with them. Returns 0,
 * or the error of a table that could not be used: -EBADMSG, -E2BIG, ... Names of the other one are
 * found all the same. The text is given once. -EAGAIN, -EBUSY: they could not be read now, which is
 * not the file's fault; a later look-up tries again, some times.
 */
int binary_load(struct binary *b, struct err *err);

/*
 * The ascribe label note (include/ascribe/label_abi.h): vaddr of the descriptor; -ENOENT when there
 * is none, -EBADMSG when it points outside the file's segments, -EPROTONOSUPPORT for another
 * version of the ABI.
 */
int binary_label_descriptor(const struct binary *b, uint64_t *ret_vaddr);

/* The same for the table of trampoline labels (include/ascribe/trampoline_abi.h). */
int binary_trampolines(const struct binary *b, uint64_t *ret_vaddr);

/*
 * An interpreter whose frames stand in a chain of its own: vaddrs in the file. -ENOENT: it is none,
 * or a CPython older than 3.11.
 */
struct binary_script {
	uint32_t language; /* enum script_language */
	uint32_t version;  /* PY_VERSION_HEX, or as the wire headers have it; 0: it is none */
	uint64_t at;	   /* _PyRuntime, executor_globals, as enum script_way has it, or eval */
	uint64_t eval, eval_size; /* the function that runs bytecode: binary_script_eval */
};
/* Return the name of this function. */
const char *binary_script_eval(uint32_t language);
int binary_script(const struct binary *b, struct binary_script *ret);

/* HotSpot's libjvm: vaddrs in the file of its tables. -ENOENT: it is not one. */
struct binary_hotspot {
	uint64_t at[HOTSPOT_SYMBOLS]; /* all 0: it is none */
};
int binary_hotspot(const struct binary *b, struct binary_hotspot *ret);

/* A file that holds V8, by what it publishes for debuggers. -ENOENT: it does not. */
#define V8_MISSING_MAX 64
struct binary_v8 {
	uint32_t found;
	struct v8_layout layout;
	char missing[V8_MISSING_MAX]; /* not empty: what is missing or wrong, layout is void */
};
int binary_v8(const struct binary *b, struct binary_v8 *ret);

/* What a file is of these; all 0 where it is not. */
struct binary_runtime {
	struct binary_script script;
	struct binary_hotspot hotspot;
	struct binary_v8 v8;
	uint64_t bias; /* of hotspot's vaddrs */
};
/*
 * Ask of a file, borrowed, in a worker of a sandbox that this process starts. start, pgoff: of its
 * executable mapping; only the bias needs them. 0 or -errno.
 */
int binary_runtime_of(int fd, uint64_t start, uint64_t pgoff, struct binary_runtime *ret);

/*
 * Does the file lack symbols or DWARF that a separate debug file may have? Then: where it may be,
 * from i = 0 until -ENOENT, as paths in the root of the process and in ours; path is the file's own
 * in that root.
 */
bool binary_wants_debug(const struct binary *b);
int binary_debug_path(const struct binary *b, const char *path, unsigned i, char *out, size_t cap);

/* Where a debug file of this build id is installed. -EINVAL: the id has no two bytes, or cap. */
int symbols_build_id_path(const uint8_t *id, size_t len, char *out, size_t cap);

/*
 * A debug file may still come, from far away: until it is offered, or is not expected any more, the
 * file is kept open. Its build id is what it can be asked for by.
 */
void binary_expect_debug(struct binary *b, bool coming);

/* Which file it is, and when it was written: what it says is remembered by that. */
struct symbols_file {
	uint64_t dev, ino, size, mtime_ns;
};

/*
 * Offer an opened candidate, before symbols are read, or while one is expected: then what was read
 * goes, with its tags, and is read anew. fd is borrowed. which may be NULL: then its CRC is made
 * anew each time. 0: it is the file's (its build id, else the CRC that .gnu_debuglink gives) and is
 * used; -ENOENT: it is not; -EAGAIN, -EBUSY: that could not be told now. -EINPROGRESS:
 * binary_offered says one of these later.
 */
int binary_offer_debug(struct binary *b, int fd, const struct symbols_file *which);
int binary_offered(struct binary *b);

/*
 * What DWARF says about an address: the inlined calls around it, innermost first, and last the
 * function itself. Texts have no NUL and belong to the lookup. A function without a name is that of
 * the symbol at the address: only its line is known.
 */
#define LINE_FRAMES_MAX 24

struct line_frame {
	const char *function; /* mangled; empty: not said */
	size_t function_len;
	const char *file; /* where the address, or the inlined call around it, stands */
	size_t file_len;
	uint32_t line; /* 0: not said */
};

/*
 * Does the file, or its separate debug file, have DWARF that was not refused? Or a table of Go
 * instead.
 */
bool binary_has_lines(const struct binary *b);

/*
 * Ask for n addresses (at most 4096, ascending) at once; each is called for each, in order, with
 * n_frames 0 where nothing is known. -EIO, -EBADMSG, ...: this file's DWARF is not asked again;
 * -EAGAIN, -EBUSY: not now. -EINPROGRESS: call again with the same addresses.
 */
int binary_lines(struct binary *b, const uint64_t *vaddrs, size_t n,
		 void (*each)(void *ctx, size_t i, const struct line_frame *frames,
			      size_t n_frames),
		 void *ctx);

/* Were its symbols never read? */
bool binary_is_unread(const struct binary *b);

/* Were the file's symbols refused, in whole or in part? Known after the first look-up. */
bool binary_refused(const struct binary *b);

/* Could they not be read yet, for lack of time? A later look-up tries again. */
bool binary_is_late(const struct binary *b);

/* Bytes of memory held; and those that stay when the symbol table goes. */
size_t binary_memory(const struct binary *b);
size_t binary_kept_memory(const struct binary *b);

/* ---- the kernel ---- */

struct kernel_symbols;

/*
 * Read /proc/kallsyms (path for tests). -EPERM when the addresses are all zero (kptr_restrict,
 * missing CAP_SYSLOG); the text says what to do. Modules and BPF programs are included.
 */
int kernel_symbols_read(struct kernel_symbols **ret, const char *path, struct err *err);
/* The same of an open file, at its beginning; path: for errors. */
int kernel_symbols_read_open(struct kernel_symbols **ret, int fd, const char *path,
			     struct err *err);
void kernel_symbols_free(struct kernel_symbols *k);
int kernel_symbols_find(struct kernel_symbols *k, uint64_t addr, struct symbol *ret);
size_t kernel_symbols_memory(const struct kernel_symbols *k);

/* ---- names ---- */

/*
 * Demangle C++ (Itanium), Rust v0 and Rust legacy; strip Rust's hashes (`::h0123456789abcdef`,
 * `[0123..]`). Writes at most cap bytes with a NUL; a name that is not mangled, or too costly to
 * demangle, is copied as it is. Bounded in time and memory for any input. Too costly: a mangled
 * name over 1 KiB, text that does not fit into cap, Rust punycode, forms on which libiberty does
 * not end. A version behind '@' is cut off.
 */
void symbol_demangle(const char *mangled, char *out, size_t cap);

#endif
