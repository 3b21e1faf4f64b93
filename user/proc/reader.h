/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads that another process can make last forever: its memory, its mappings, files that it chose. A page or a file of a
 * FUSE server that does not answer blocks its reader, which even SIGKILL then may not end. So a helper does these reads.
 *
 *   recorder -- request (who, what) --> reader, a child of the nursery
 *      +--- answer, descriptor ---------------+
 *
 * 1. A request that is not answered within READER_MS costs this time: the reader is killed, abandoned, and replaced.
 * 2. A process that did this is refused for a while, longer each time (READER_REFUSE_NS).
 * 3. A user (of a user namespace: who made it) whose processes used up READER_SPEND_NS of slow requests, or hold
 *    READER_STUCK_USER readers that did not end yet, is refused until this has passed. In all READER_STUCK_MAX may not end.
 * 4. Descriptors that come back do not block, neither in read nor in close: they are of a local filesystem, or of a sealed
 *    copy in memory (READER_COPY_MAX bytes at most, READER_COPIES_MAX of all together).
 *
 * Without a reader (before proc_reader_start) requests are run by the calling process. Not thread-safe: one thread asks.
 */
#ifndef ASCRIBE_PROC_READER_H
#define ASCRIBE_PROC_READER_H

#include "sandbox/sandbox.h"

#include <stdbool.h>
#include <stdint.h>

#define READER_MS 200u
#define READER_REFUSE_NS 10000000000ull /* after the first miss of a process; four times that after the next, and so on */
#define READER_SLOW_NS 20000000ull	/* of one request: only a longer one is charged to its user */
#define READER_SPEND_NS 1000000000ull
#define READER_EARN 5u /* a user's spending goes down by one fifth of the time */
#define READER_STUCK_USER 4u
#define READER_STUCK_MAX 32u
#define READER_COPY_MAX (64u << 20)
#define READER_COPY_MS 150u
#define READER_COPIES_MAX (256u << 20)

struct reader_stats {
	uint64_t requests;
	uint64_t abandoned; /* readers that did not answer in time */
	uint64_t refused;   /* requests that were not made, for the sake of 2. and 3. */
	uint64_t copies;    /* files of filesystems that may block */
};

/* To be sandbox_config.reader: the child that serves requests. */
void proc_reader_run(int fd);

/* Have the requests of this process served by readers from the sandbox, which is borrowed until proc_reader_stop. */
void proc_reader_start(struct sandbox *s);
/* Does nothing when another sandbox has taken its place since. */
void proc_reader_stop(const struct sandbox *s);
void proc_reader_stats(struct reader_stats *ret);

/* Who answers for what a process does: its user; of one in a user namespace, who made that. UINT32_MAX: it has ended. */
uint32_t proc_user(uint32_t tgid);

/* Is this process refused because it did not answer? Samples of it may lack names and labels. */
bool proc_reader_refuses(uint32_t tgid);

#endif
