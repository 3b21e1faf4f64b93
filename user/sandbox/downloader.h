/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that asks debuginfod servers, on behalf of downloads.c. It is this program, executed
 * anew (anew.h).
 */
#ifndef ASCRIBE_SANDBOX_DOWNLOADER_H
#define ASCRIBE_SANDBOX_DOWNLOADER_H

#include "sandbox/downloads.h"

#include <sys/types.h>

enum downloader_order {
	/* Bytes: the build id; answered by 0 and the open file, or -errno in what */
	DOWNLOADER_GET = 1,
	DOWNLOADER_LOOK = 2,	/* the same from the cache alone: -ENODATA when it has none */
	DOWNLOADER_DISCARD = 3, /* bytes: the build id; not answered */
};

/*
 * Start it with its end of a socket, and the open directory of files. cfg has no zeros. 0 or
 * -errno.
 */
int downloader_start(const struct downloads_config *cfg, int fd, int cache, pid_t *ret_pid);

/*
 * Of the process that downloads the file of this build id, in the directory of files: give up all
 * else (confine.h). 0 or -errno.
 */
int downloader_confine(const char *hex, uint64_t file_bytes);

#endif
