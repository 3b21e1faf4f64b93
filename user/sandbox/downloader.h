/* SPDX-License-Identifier: Apache-2.0 */
/* The process that asks debuginfod servers, on behalf of downloads.c. Never returns. */
#ifndef ASCRIBE_SANDBOX_DOWNLOADER_H
#define ASCRIBE_SANDBOX_DOWNLOADER_H

#include "sandbox/downloads.h"

enum downloader_order {
	/* Bytes: the build id; answered by 0 and the open file, or -errno in what */
	DOWNLOADER_GET = 1,
	DOWNLOADER_LOOK = 2,	/* the same from the cache alone: -ENODATA when it has none */
	DOWNLOADER_DISCARD = 3, /* bytes: the build id; not answered */
};

/* cache: the open directory of files. cfg has no zeros. */
_Noreturn void downloader_run(int fd, int cache, const struct downloads_config *cfg);

#endif
