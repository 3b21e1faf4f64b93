/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads that another process can block forever: of its memory, its mappings, and files that it
 * chose. A page or a file of a FUSE server that does not answer blocks the reader, which even
 * SIGKILL may not end. So a helper does these reads.
 *
 *   recorder -- request --> one of READERS readers, children of the nursery
 *      +--- answer, descriptor ---------------+
 *
 * 1. The recorder does not wait for another process. A request waits READER_WAIT_NS for its answer,
 *    all requests READER_PATIENCE_NS and then 1/READER_PATIENCE_EARN of the time. After that it
 *    returns -EINPROGRESS, and the reader goes on with it.
 * 2. Making the same request again returns the answer when it has come. It is kept for
 *    READER_KEEP_NS.
 * 3. A process has one request on its way, a user at most READER_USER_MAX. One reader is for roots
 *    that stay open.
 * 4. After READER_MS without an answer, the reader is killed, abandoned and replaced. Its time in
 *    the run queue does not count (sandbox/child_clock.h); of its CPU time, it has READER_CPU_MS.
 * 5. The process of that request is refused for a while, longer each time (READER_REFUSE_NS).
 * 6. A user is refused after READER_SPEND_NS of slow requests, or with READER_STUCK_USER readers
 *    that have not ended. For a process in a user namespace, the user is the one that created it.
 *    At most READER_STUCK_MAX readers may be stuck in all.
 * 7. Descriptors in answers do not block, neither in read nor in close. They are of a local
 *    filesystem, or of a sealed copy in memory (at most READER_COPY_MAX bytes each,
 *    READER_COPIES_MAX in all).
 *
 * Without a reader (before proc_reader_start) the calling process runs the requests itself. Not
 * thread-safe.
 */
#ifndef ASCRIBE_PROC_READER_H
#define ASCRIBE_PROC_READER_H

#include "sandbox/sandbox.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define READERS 8u /* those beyond the first two as long as others are slow */
#define READER_IDLE_NS 10000000000ull
/* Between two looks at idle readers, each a system call a reader */
#define READER_IDLE_LOOK_NS 50000000ull
#define READER_WAIT_NS 2000000ull
#define READER_PATIENCE_NS 20000000ull
#define READER_PATIENCE_EARN 5u
#define READER_KEEP_NS 2000000000ull
#define READER_USER_MAX 2u
#define READER_MS 200u
#define READER_CPU_MS 1000u
/* After the first miss of a process; four times longer after each further one */
#define READER_REFUSE_NS 1000000000ull
#define READER_SLOW_NS 20000000ull /* only longer requests are charged to the user */
#define READER_SPEND_NS 1000000000ull
#define READER_EARN 5u /* a user's spending decreases by a fifth of the time */
#define READER_STUCK_USER 4u
#define READER_STUCK_MAX 32u
#define READER_COPY_MAX (64u << 20)
#define READER_COPY_MS 150u
#define READER_COPIES_MAX (256u << 20)

struct reader_stats {
	uint64_t requests;
	uint64_t late;	    /* requests without an answer at once */
	uint64_t moved;	    /* late requests that were answered or given up: worth asking again */
	uint64_t abandoned; /* readers that did not answer in time */
	uint64_t refused;   /* requests that were not made, by rules 5 and 6 */
	uint64_t copies;    /* files copied from filesystems that may block */
};

/* Processes with requests that were not answered in time or not made: the first ones by name. */
#define READER_NAMES 8u
struct reader_silence {
	struct reader_silent {
		uint32_t tgid;
		char comm[17];
		uint64_t requests;
	} v[READER_NAMES];
	size_t n;
	uint64_t others; /* requests */
};

/* Serve requests in a child; for sandbox_config.reader. */
void proc_reader_run(int fd);

/* Use readers from this sandbox, which is borrowed until proc_reader_stop. */
void proc_reader_start(struct sandbox *s);
/* Ignored if another sandbox was started since. */
void proc_reader_stop(const struct sandbox *s);
void proc_reader_stats(struct reader_stats *ret);

/*
 * Take answers that have come, and give up readers that are late. Return ms until the next call,
 * -1: none is late.
 */
int proc_reader_tick(void);
/* Readable when proc_reader_tick has something to do; -1: there are no readers. */
int proc_reader_fd(void);

/* Return those that were silent since proc_reader_forget_silence. */
void proc_reader_silence(struct reader_silence *ret);
void proc_reader_forget_silence(void);
void reader_silence_add(struct reader_silence *to, const struct reader_silence *from);

/*
 * Return the user that is charged for a process; in a user namespace, its creator. UINT32_MAX: the
 * process has ended.
 */
uint32_t proc_user(uint32_t tgid);

/* True while this process is refused: its samples may lack names and labels. */
bool proc_reader_refuses(uint32_t tgid);

#endif
