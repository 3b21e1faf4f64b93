/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug files from debuginfod servers, without waiting for them.
 *
 *   recorder -- GET build id, DISCARD --> downloader -- fork --> a process for each file
 *      +-------- result, open file ----------+                     (libdebuginfod)
 *                                                                     +--> cache directory, servers
 *
 * The downloader is executed anew, and does nothing until it is asked. Build ids wait in a queue
 * here; one at a time is under way. Those that the cache has come first, servers or not. What
 * comes is foreign bytes: the caller checks it, and says so with downloads_discard when it is of
 * no use. Answers are remembered: an id that no server has, or whose file was of no use, is not
 * asked for again. When servers do not answer, nothing is asked for a while, then each such id
 * once or twice more.
 *
 * Not thread-safe.
 */
#ifndef ASCRIBE_SANDBOX_DOWNLOADS_H
#define ASCRIBE_SANDBOX_DOWNLOADS_H

#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DOWNLOADS_ID_MAX 64u	/* bytes of a build id */
#define DOWNLOADS_IDS_MAX 8192u /* build ids asked for; those beyond have no names from here */

/* 0 stands for the default in brackets. */
struct downloads_config {
	const char *urls;    /* separated by spaces */
	const char *cache;   /* directory; made, with its parents, for us alone */
	uint64_t file_bytes; /* of one file at most [DOWNLOADS_FILE_BYTES] */
	unsigned file_s;     /* for one file at most [DOWNLOADS_FILE_S] */
	/* The files that were not used for longest go [DOWNLOADS_CACHE_BYTES] */
	uint64_t cache_bytes;
	unsigned cache_age_s; /* since a file was used last [DOWNLOADS_CACHE_AGE_S] */
};

#define DOWNLOADS_FILE_BYTES (512ull << 20)
#define DOWNLOADS_FILE_S 90u
#define DOWNLOADS_CACHE_BYTES (4ull << 30)
#define DOWNLOADS_CACHE_AGE_S (7u * 86400)

struct downloads_stats {
	uint64_t asked;	  /* build ids */
	uint64_t came;	  /* files that are in use */
	uint64_t absent;  /* that no server has */
	uint64_t refused; /* over a limit, damaged, of another build */
	uint64_t failed;  /* requests without an answer: no server there, or too slow */
	uint64_t waiting; /* in the queue or under way now */
};

struct downloads;

int downloads_new(struct downloads **ret, const struct downloads_config *cfg, struct err *err);
/* Ask a downloader that another process started, by its socket, which is taken over. -ENOMEM. */
int downloads_adopt(struct downloads **ret, int fd, struct err *err);
/* What is under way is broken off. */
void downloads_free(struct downloads *d);

/*
 * Ask for the debug file of a build id. 0: its answer will come, perhaps not soon; -ENOENT: there
 * is none to be had.
 */
int downloads_ask(struct downloads *d, const uint8_t *id, size_t len);

/* Readable when an answer has come; -1: none will. */
int downloads_fd(const struct downloads *d);

/* Send what is due; milliseconds until something is, -1 when only an answer can change that. */
int downloads_tick(struct downloads *d);

/* Is an answer on its way, or a request that will be sent at once? */
bool downloads_busy(const struct downloads *d);

/* The next answer. -EAGAIN: none yet. */
struct download {
	uint8_t id[DOWNLOADS_ID_MAX];
	size_t len;
	/* A regular file that may be read, to be closed by the caller; -1: there will be none */
	int fd;
};
int downloads_take(struct downloads *d, struct download *ret);

/* The file that came for this build id is of no use: out of the cache with it. */
void downloads_discard(struct downloads *d, const uint8_t *id, size_t len);

void downloads_stats(const struct downloads *d, struct downloads_stats *ret);

#endif
