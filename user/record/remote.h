/* SPDX-License-Identifier: Apache-2.0 */
/* A recording by a daemon, of its host: /debug/pprof/profile with a rate (docs/http.md). */
#ifndef ASCRIBE_RECORD_REMOTE_H
#define ASCRIBE_RECORD_REMOTE_H

#include "util/err.h"

#include <stdbool.h>
#include <stdint.h>

struct remote_recording {
	const char *host; /* URL, or unix:/path */
	const char *token_file, *ca_file;
	const char *where; /* NULL: everything */
	unsigned hz, seconds;
	const char *out; /* the store to write; "-": print pprof instead */
	bool append;
	/* Results */
	bool moved; /* an earlier recording was moved out of the way */
	uint64_t samples;
};

/*
 * Ask for it, wait, and write the store. Nothing is written when the daemon refuses. -EINVAL: the
 * URL, or what the daemon says of the question.
 */
int remote_record(struct remote_recording *r, struct err *err);

#endif
