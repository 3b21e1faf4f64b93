/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that attaches to a JVM (jvm.h): this program, executed anew, so that it holds nothing
 * of the recorder. It opens two files of /proc, becomes the process's user and gives up all else
 * (ROLE_JVM). Then it reads in them the proof that the process is HotSpot, and speaks the attach
 * protocol in its /tmp.
 */
#ifndef ASCRIBE_STACKS_JVM_HELPER_H
#define ASCRIBE_STACKS_JVM_HELPER_H

#include "sandbox/keeper.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct jvm_job {
	uint32_t tgid, inner; /* inner: in its own PID namespace */
	uint32_t uid, gid;    /* to become */
	int64_t until_ms;     /* CLOCK_MONOTONIC */
	bool remove;	      /* the map, instead of asking for one */
};

/* Written to `out`, at most twice; the last one counts. */
struct jvm_answer {
	int rc;
	bool makes_map; /* no map existed, and the JVM was asked to write one */
};

/*
 * Start it: out is where its answers go, tmp the directory, target a pidfd of the process, -1 to
 * remove a map. 0 or -errno.
 */
int jvm_helper_start(const struct jvm_job *j, int out, int tmp, int target, pid_t *ret);

/* For the keeper's table: starts it. */
keeper_op jvm_helper_op;

int64_t jvm_now_ms(void);

/* True for a path or a line of maps that ends with HotSpot's library. */
bool jvm_is_library(const char *path);

#endif
