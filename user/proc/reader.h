/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads that another process can block forever: of its memory, its mappings, and files that it chose. A page or a file of a
 * FUSE server that does not answer blocks the reader, which even SIGKILL may not end. So a helper does these reads.
 *
 *   recorder -- request --> reader, a child of the nursery
 *      +--- answer, descriptor ---------------+
 *
 * 1. After READER_MS without an answer, the reader is killed, abandoned and replaced.
 * 2. The process of that request is refused for a while, longer each time (READER_REFUSE_NS).
 * 3. A user is refused after READER_SPEND_NS of slow requests, or with READER_STUCK_USER readers that have not ended. For a
 *    process in a user namespace, the user is the one that created it. At most READER_STUCK_MAX readers may be stuck in all.
 * 4. Descriptors in answers do not block, neither in read nor in close. They are of a local filesystem, or of a sealed copy in
 *    memory (at most READER_COPY_MAX bytes each, READER_COPIES_MAX in all).
 *
 * Without a reader (before proc_reader_start) the calling process runs the requests itself. Not thread-safe.
 */
#ifndef ASCRIBE_PROC_READER_H
#define ASCRIBE_PROC_READER_H

#include "sandbox/sandbox.h"

#include <stdbool.h>
#include <stdint.h>

#define READER_MS 200u
#define READER_REFUSE_NS 10000000000ull /* after the first miss of a process; four times longer after each further one */
#define READER_SLOW_NS 20000000ull	/* only longer requests are charged to the user */
#define READER_SPEND_NS 1000000000ull
#define READER_EARN 5u /* a user's spending decreases by a fifth of the time */
#define READER_STUCK_USER 4u
#define READER_STUCK_MAX 32u
#define READER_COPY_MAX (64u << 20)
#define READER_COPY_MS 150u
#define READER_COPIES_MAX (256u << 20)

struct reader_stats {
	uint64_t requests;
	uint64_t abandoned; /* readers that did not answer in time */
	uint64_t refused;   /* requests that were not made, by rules 2 and 3 */
	uint64_t copies;    /* files copied from filesystems that may block */
};

/* Serve requests in a child; for sandbox_config.reader. */
void proc_reader_run(int fd);

/* Use readers from this sandbox, which is borrowed until proc_reader_stop. */
void proc_reader_start(struct sandbox *s);
/* Ignored if another sandbox was started since. */
void proc_reader_stop(const struct sandbox *s);
void proc_reader_stats(struct reader_stats *ret);

/* Return the user that is charged for a process; in a user namespace, its creator. UINT32_MAX: the process has ended. */
uint32_t proc_user(uint32_t tgid);

/* True while this process is refused: its samples may lack names and labels. */
bool proc_reader_refuses(uint32_t tgid);

#endif
