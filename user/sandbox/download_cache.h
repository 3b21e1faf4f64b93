/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where downloaded files stay: DIR/files/BUILDID/debuginfo, as libdebuginfod lays them out. DIR is
 * ours and closed to all others. Anybody may write to files, but who downloads alone is given a
 * descriptor of it: so no file has to change its owner, which takes CAP_CHOWN.
 */
#ifndef ASCRIBE_SANDBOX_DOWNLOAD_CACHE_H
#define ASCRIBE_SANDBOX_DOWNLOAD_CACHE_H

#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DOWNLOAD_HEX_MAX (2 * 64 + 1)

/*
 * Make the directories if need be, and open the one of files. It must belong to us, and be no link.
 */
int download_cache_open(const char *dir, int *ret_fd, struct err *err);

/*
 * Remove what was not used for age_s, what is left of downloads that were broken off, then the
 * longest unused beyond max_bytes.
 */
void download_cache_trim(int files, uint64_t max_bytes, unsigned age_s);

/*
 * Open the file of a build id (in hex) for reading, and note that it was used. -ENOENT: none, or
 * only a note that there is none.
 */
int download_cache_file(int files, const char *hex, int *ret_fd);
void download_cache_remove(int files, const char *hex);

/*
 * Around the download of one file, by a process that may write in its directory alone: make this,
 * and the settings of the library as they are at first; is what is there no more than so many
 * bytes, in few files? Remove what is not the file.
 */
int download_cache_begin(int files, const char *hex);
bool download_cache_fits(int files, const char *hex, uint64_t bytes);
void download_cache_end(int files, const char *hex);

/* What the library asks to write besides: it puts its defaults into files that are empty. */
#define DOWNLOAD_SETTINGS 3
extern const char *const download_settings[DOWNLOAD_SETTINGS];

#endif
