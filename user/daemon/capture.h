/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures: recordings at a high rate beside the daemon's own, for somebody who waits for them.
 *
 *   daemon -- capture_start --> ascribe daemon --capture, a process --> STORE/capture
 *          <-- capture_look --- its end
 *
 * The keeper starts the process, with the rights of a daemon. It has the daemon's arguments and
 * file, so it keeps to the same selection and rules for labels. It has a recorder and a store of
 * its own, serves nothing and pushes nothing. Its memory is what the daemon leaves of memory-max.
 * Of CPU time captures may use as much as cpu-max allows for an hour, at once; what they used wears
 * off at that rate. It dies with the daemon. One at a time; nothing here waits. One thread.
 */
#ifndef ASCRIBE_DAEMON_CAPTURE_H
#define ASCRIBE_DAEMON_CAPTURE_H

#include "http/http.h"
#include "sandbox/keeper.h"

#include <sys/types.h>

#define CAPTURE_DIR "capture" /* in the store */
#define CAPTURE_SAID_MAX 400

/*
 * For the keeper's table. The keeper's arguments say what is captured into what: the store of
 * captures, and the arguments of the daemon.
 */
keeper_op capture_op;

/* What captures may take. */
struct capture_budget {
	uint64_t memory;       /* bytes, now; UINT64_MAX: no limit */
	uint64_t memory_least; /* what a process that captures needs */
	double cpu;	       /* CPUs, on average; 0: no limit */
};

struct capture {
	char dir[512]; /* "": its name would be too long */
	bool busy;     /* from capture_start until its store is gone */
	pid_t pid;     /* 0: none runs */
	int out;       /* what it says; -1: none */
	uint64_t id, until_ns;
	uint64_t memory; /* that the one that runs may take; 0: none runs, or no limit */
	double used_s;	 /* CPU time of captures that did not wear off yet, at worn_ns */
	uint64_t worn_ns;
	unsigned seconds;
	bool late, unwanted;
	char said[CAPTURE_SAID_MAX];
	size_t n_said;
};

void capture_init(struct capture *c, const char *store);
/* Ends the one that is running. */
void capture_fini(struct capture *c);

/*
 * Start one. -EBUSY: another one is running, or was not read yet, or the budget has no room;
 * -EINVAL: out of bounds.
 */
int capture_start(struct capture *c, uint64_t id, const struct http_capture *asked,
		  const struct capture_budget *budget, struct err *err);
/*
 * 0: the one with this id has ended, and its store is there until capture_end. -EIO: it failed; the
 * text is what the process said. -EAGAIN: there is no news.
 */
int capture_look(struct capture *c, uint64_t *ret_id, struct err *err);
/* How long until the next look; UINT64_MAX: there is nothing to look at. */
uint64_t capture_wait_ns(const struct capture *c);
/* Nobody wants it any more: end it if it runs, and remove its store. */
void capture_end(struct capture *c);

#endif
