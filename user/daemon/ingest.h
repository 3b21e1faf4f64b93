/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles from the server's threads into the store: they queue and wait, the thread that writes
 * the store takes them between its other work. One at a time waits; so many bytes are never held
 * twice.
 */
#ifndef ASCRIBE_DAEMON_INGEST_H
#define ASCRIBE_DAEMON_INGEST_H

#include "import/profile.h"
#include "labels/filter.h"
#include "store/store.h"

#include <pthread.h>

struct ingest {
	pthread_mutex_t lock;
	pthread_cond_t done;
	int fd; /* readable: there is something to take */
	const struct profile *waiting;
	bool taken, finished, open;
	int rc;
	uint64_t profiles, samples, refused;
};

int ingest_init(struct ingest *i);
void ingest_fini(struct ingest *i);

/*
 * Any thread, waits for its turn and until it is stored: 5 s until that begins. -EAGAIN: it took
 * longer, or nothing is written now.
 */
int ingest_put(struct ingest *i, const struct profile *p, struct err *err);

/*
 * The writing thread. w NULL: refuse. f: which labels may be kept, as of programs that are sampled;
 * NULL: all. What a profile is of (service_name) stays.
 */
void ingest_take(struct ingest *i, struct store_writer *w, const struct label_filter *f,
		 const struct redactor *r);

#endif
