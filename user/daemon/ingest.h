/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles that the process that serves was sent, into the store. What comes is checked again, and
 * the quota holds here, too: whoever took over that process cannot fill the store.
 */
#ifndef ASCRIBE_DAEMON_INGEST_H
#define ASCRIBE_DAEMON_INGEST_H

#include "http/intake.h"
#include "labels/filter.h"
#include "store/store.h"
#include "store/writer.h"

struct ingest {
	struct intake intake;
	uint64_t profiles, samples, refused, credentials; /* the last: values of labels */
};

void ingest_init(struct ingest *i);
void ingest_fini(struct ingest *i);

/*
 * Store a profile (import/pack.h): the first len bytes of a file of memory, which is cleared when
 * they were read. w NULL, or later than until_ns (CLOCK_MONOTONIC): -EAGAIN. -EDQUOT: more comes
 * than is taken in. f: which labels may be kept, as of programs that are sampled; NULL: all. What a
 * profile is of (service_name) stays.
 */
int ingest_take(struct ingest *i, int fd, size_t len, uint64_t until_ns, struct store_writer *w,
		const struct label_filter *f, const struct redactor *r, struct err *err);

#endif
