/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the recorder tells the server's threads: copies, under a lock, so that neither waits for the
 * other's work.
 */
#ifndef ASCRIBE_DAEMON_METRICS_H
#define ASCRIBE_DAEMON_METRICS_H

#include "collect/collector.h"
#include "daemon/capture.h"
#include "daemon/ingest.h"
#include "daemon/pushing.h"
#include "daemon/saving.h"
#include "util/buf.h"

#include <pthread.h>

struct published {
	pthread_mutex_t lock;
	/* Of the recorder that runs; sums of those that ended */
	struct collector_progress now, before;
	struct store_writer_state store;
	/* committed_ns: when the last window was written, or could be expected from then on */
	uint64_t at_ns, committed_ns, late_ns;
	struct governor governor;
	struct account account;
	struct pods_stats pods; /* without its text */
	bool killed, gone;	/* gone: the store */
	bool standing_by;	/* another process writes the store */
	struct ingest ingest;
	struct capture capture;
	struct push_published push[DAEMON_PUSH_MAX];
	size_t n_push;
};

/* late_ns: without a window for so long it is not ready. */
void published_init(struct published *p, uint64_t late_ns);
void published_progress(struct published *p, const struct collector_progress *now,
			const struct store_writer_state *store);
/* Whether the store is still where it was. */
void published_store(struct published *p, bool is_there);
void published_ended(struct published *p, const struct collector_progress *last);
/* What is used, and what is given up. */
void published_use(struct published *p, const struct saving *s);
void published_pods(struct published *p, const struct pods_stats *st);
void published_push(struct published *p, struct pushing *of);
void published_killed(struct published *p, bool killed);
void published_standing_by(struct published *p, bool standing_by);

/* Hooks of the server; ctx is the struct published. */
int published_metrics(void *ctx, struct buf *out);
int published_ingest(void *ctx, const struct profile *p, struct err *err);
int published_capture(void *ctx, const struct http_capture *asked, char ret[static 512],
		      struct err *err);
void published_capture_end(void *ctx);
void published_capture_stop(void *ctx, bool stop);
bool published_ready(void *ctx, const char **ret_why);

#endif
