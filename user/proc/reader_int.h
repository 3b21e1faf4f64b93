/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to a reader: sent by reader.c, served by serve.c in the helper, refused by refusal.c. */
#ifndef ASCRIBE_PROC_READER_INT_H
#define ASCRIBE_PROC_READER_INT_H

#include "proc/proc.h"
#include "sandbox/sandbox.h"
#include "util/buf.h"

enum reader_op {
	READ_MEMORY, /* a: address, b: bytes */
	READ_STACK,  /* a: address, b: bytes at most. What can be read from there on */
	/*
	 * b: any number. The lines of executable mappings, and when they were read: BOOTTIME, 8
	 * bytes
	 */
	READ_MAPS,
	READ_LINE, /* a: address. struct proc_line */
	/* text: alternatives for the line, one per line. Answers a start address, 8 bytes */
	FIND_LINE,
	READ_TEXT, /* text: a file of /proc/TGID, b: bytes at most */
	/* a, b: the mapping. Answers a descriptor and struct proc_opened, like all that open */
	OPEN_MAP,
	OPEN_IN_ROOT, /* a: the process of the root, 0: ours. text: the path */
	/* text: a path of ours, in which links may be magic. b: not 0: O_PATH, never a copy */
	OPEN_PATH,
	READ_HOTSPOT,	    /* text: addresses of its tables. See hotspot.h */
	READ_HOTSPOT_NAMES, /* a: the frame. text: struct hotspot_jvm */
	READ_V8_NAME,	    /* a: the frame. text: struct v8_layout */
	ROOT_OPEN,	    /* a: the name of the root for later requests */
	ROOT_FILE,	    /* a: as above, b: the user. text: the path */
	ROOT_TMP_FILE,	    /* the same in its /tmp */
	/* a: as above. Answers an O_PATH descriptor of its /tmp, of a local filesystem only */
	ROOT_TMP,
	ROOT_CLOSE, /* a */
	READER_OPS,
};

#define READER_TEXT_MAX 4096u /* with its NUL */

/*
 * The value of an answer: microseconds of CPU time, and microseconds that the request took in the
 * reader. What a reader waits for a CPU before it begins says nothing about the process.
 */
#define READER_TIMES(cpu, took) ((cpu) << 32 | ((took) < UINT32_MAX ? (took) : UINT32_MAX))
#define READER_CPU_NS(value) (((value) >> 32) * 1000u)
#define READER_TOOK_NS(value) (((value) & UINT32_MAX) * 1000u)

struct reader_request {
	uint32_t op, tgid; /* tgid: the process that is charged */
	uint64_t a, b;
	char text[]; /* NUL-terminated */
};

/*
 * Serve a request. Append the answer to out. *ret_fd: -1, or the descriptor of the answer. 0 or
 * -errno.
 */
int reader_serve(const struct reader_request *q, struct buf *out, int *ret_fd);

/*
 * Ask a reader. text may be NULL. reply is emptied first. ret_fd may be NULL where no descriptor is
 * expected.
 *
 * -EINPROGRESS: there is no answer yet; ask the same again later, at the latest READER_KEEP_NS
 * after the answer has come. -EBUSY: the process is refused. -EINTR: the reader ended, which says
 * nothing about the process.
 */
int reader_ask(const struct reader_request *q, const char *text, struct buf *reply, int *ret_fd);

/* Have a root closed (ROOT_CLOSE), some time. */
void reader_close_root(const struct reader_request *q);

/* The same, for a request that opens a file. */
int proc_ask_file(const struct reader_request *q, const char *path, struct proc_opened *ret);

/* ---- refusal.c ---- */

/* Return the start time of a process, 0 when it has ended. */
uint64_t refusal_start(uint32_t tgid);
/* The user that is charged for a process, at most 100 ms old. */
uint32_t refusal_user(uint32_t tgid);
/* True when requests about this process are not made now; counts one under its name. */
bool refusal_applies(uint32_t tgid);
/* Charge the user of a process with the time of a slow request. */
void refusal_charge(uint32_t tgid, uint64_t ns);
/* Refuse a process that did not answer, and take over the killed reader that asked it. */
void refusal_abandon(uint32_t tgid, struct sandbox_child *child, uint64_t took_ns);
void refusal_forget(void);

/* Return the bytes of all copies of files that are open in this process. */
uint64_t reader_copies_bytes(void);

#endif
