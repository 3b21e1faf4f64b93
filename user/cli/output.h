/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an export goes: stdout, or a file that appears under its name only when it is whole.
 */
#ifndef ASCRIBE_CLI_OUTPUT_H
#define ASCRIBE_CLI_OUTPUT_H

#include "util/err.h"

#include <stdio.h>

struct output {
	FILE *f;
	char *path; /* as asked for, NULL: stdout */
	char *temp; /* where the bytes are until output_commit, NULL: written in place */
};

#define OUTPUT_INIT { NULL, NULL, NULL }

/*
 * path NULL or "-" is stdout. A regular or new file is written beside its place and renamed over it
 * by output_commit, with the mode that the umask gives (or the old file's). Anything else (a
 * device, a pipe) is written in place.
 */
int output_open(struct output *o, const char *path, struct err *err);

/* Write out, close, move to its place. On failure the place is as it was before. */
int output_commit(struct output *o, struct err *err);

/* Drop what was not committed; fine after a commit and on OUTPUT_INIT. */
void output_close(struct output *o);

#endif
