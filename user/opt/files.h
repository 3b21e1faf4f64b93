/* SPDX-License-Identifier: Apache-2.0 */
/* Text files that the commands read: configuration, tokens, certificates and keys. */
#ifndef ASCRIBE_OPT_FILES_H
#define ASCRIBE_OPT_FILES_H

#include "util/err.h"

#include <stddef.h>

#define CMD_PEM_MAX (1u << 20) /* of certificates and keys */

/* Open a file that only we and root may change (trust_check). */
int cmd_open_text(const char *path, int *ret_fd, struct err *err);
/* Read it from its beginning; path is for messages. As cmd_read_text and cmd_read_token. */
int cmd_read_open_text(int fd, const char *path, size_t max, char **ret, struct err *err);
int cmd_read_open_token(int fd, const char *path, char **ret, struct err *err);
/* Free a text of which nothing may be left in memory; NULL is fine. */
void cmd_wipe_text(char *text);

/*
 * Read a file of less than max bytes. *ret ends in a NUL, has no other one (-EINVAL), and is to be
 * freed. Refuse a file that another user may change (-EPERM, see trust_check).
 */
int cmd_read_text(const char *path, size_t max, char **ret, struct err *err);
/* Read the first word of a file. */
int cmd_read_token(const char *path, char **ret, struct err *err);
/* Make a random token; to be freed. */
int cmd_make_token(char **ret, struct err *err);
/* Where there is no such file, make a token and write it there with mode 0600. */
int cmd_keep_token(const char *path, struct err *err);

#endif
