/* SPDX-License-Identifier: Apache-2.0 */
/* What the recorder tells the server's threads: copies, under a lock, so that neither waits for the other's work. */
#ifndef ASCRIBE_CLI_METRICS_H
#define ASCRIBE_CLI_METRICS_H

#include "cli/ingest.h"
#include "collect/collector.h"
#include "util/buf.h"

#include <pthread.h>

struct published {
	pthread_mutex_t lock;
	struct collector_progress now, before; /* of the recorder that runs; sums of those that ended */
	struct store_writer_state store;
	uint64_t at_ns, drained_ns;
	unsigned weight;
	bool killed;
	struct ingest ingest;
};

void published_init(struct published *p);
void published_progress(struct published *p, const struct collector_progress *now, const struct store_writer_state *store);
void published_ended(struct published *p, const struct collector_progress *last);
void published_weight(struct published *p, unsigned weight);
void published_killed(struct published *p, bool killed);

/* Hooks of the server; ctx is the struct published. */
int published_metrics(void *ctx, struct buf *out);
int published_ingest(void *ctx, const struct profile *p, struct err *err);
bool published_ready(void *ctx, const char **ret_why);

#endif
