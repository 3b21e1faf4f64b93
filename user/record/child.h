/* SPDX-License-Identifier: Apache-2.0 */
/* The command that `record` runs: made first, let go when everything is ready to watch it. */
#ifndef ASCRIBE_RECORD_CHILD_H
#define ASCRIBE_RECORD_CHILD_H

#include "util/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct child {
	pid_t tgid;  /* 0: there is none */
	int fd;	     /* readable when it has ended, -1: none */
	int go;	     /* pipe: closing it lets the child exec */
	int failure; /* pipe: the errno of a failed exec */
	bool exec_failed;
	const char *name; /* of the command, borrowed */
};

#define CHILD_INIT { 0, -1, -1, -1, false, NULL }

/* Fork a process that waits. argv ends with NULL. */
int child_prepare(struct child *c, char **argv, struct err *err);
/* Let it exec. Fails, with exec_failed set, when the command cannot be run. */
int child_go(struct child *c, struct err *err);
/* Has it been started, and not ended yet? */
bool child_runs(const struct child *c);
/*
 * As a shell says it: the exit status, or 128 + the signal. Waits for the end; SIGINT has reached
 * it as it did us.
 */
int child_status(struct child *c);
/* End a child that was never let go. */
void child_fini(struct child *c);

#endif
