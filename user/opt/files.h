/* SPDX-License-Identifier: Apache-2.0 */
/* Text files that the commands read: configuration, tokens, certificates and keys. */
#ifndef ASCRIBE_OPT_FILES_H
#define ASCRIBE_OPT_FILES_H

#include "util/err.h"

#include <stddef.h>

/*
 * Read a file of less than max bytes. *ret ends in a NUL, has no other one (-EINVAL), and is to be
 * freed. Refuse a file that another user may change (-EPERM, see trust_check).
 */
int cmd_read_text(const char *path, size_t max, char **ret, struct err *err);
/* Read the first word of a file. */
int cmd_read_token(const char *path, char **ret, struct err *err);
/* Make a random token; to be freed. */
int cmd_make_token(char **ret, struct err *err);
/* Read the token in a file, or make one and write it there with mode 0600; to be freed. */
int cmd_keep_token(const char *path, char **ret, struct err *err);

#endif
