/* SPDX-License-Identifier: Apache-2.0 */
/* The files of tokens that a server is given. */
#ifndef ASCRIBE_OPT_ACCESS_FILES_H
#define ASCRIBE_OPT_ACCESS_FILES_H

#include "http/access.h"

enum access_file {
	ACCESS_FILE_TOKEN,   /* a token that may read and send profiles, */
	ACCESS_FILE_CAPTURE, /* and one that may have captures made, too */
	ACCESS_FILE_TOKENS,  /* lines with names and scopes (access.h) */
	ACCESS_FILES,
};

/* Open for reading; -1: there is none. */
struct access_files {
	int fd[ACCESS_FILES];
};

/* Read all of them. -EINVAL never tells a token. To be freed whatever the result. */
int access_read(struct access *a, const struct access_files *files, struct err *err);

#endif
