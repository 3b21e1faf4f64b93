/* SPDX-License-Identifier: Apache-2.0 */
/* Directories by descriptor. */
#ifndef ASCRIBE_UTIL_DIR_H
#define ASCRIBE_UTIL_DIR_H

#include <dirent.h>

/*
 * Open the directory `name` in the directory `at` (AT_FDCWD: the current one), to be closed by
 * closedir. NULL: errno says why; a symbolic link is none (ELOOP or ENOTDIR).
 */
DIR *dir_open(int at, const char *name);

/*
 * Return what a dir_open that failed just now means where the directory may be missing: 0: there is
 * none; else -errno, and what is in it is not known.
 */
int dir_failed(void);

#endif
