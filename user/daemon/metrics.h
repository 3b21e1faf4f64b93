/* SPDX-License-Identifier: Apache-2.0 */
/* What the recorder tells the process that serves (web_messages.h). One thread. */
#ifndef ASCRIBE_DAEMON_METRICS_H
#define ASCRIBE_DAEMON_METRICS_H

#include "collect/collector.h"
#include "daemon/freeze.h"
#include "daemon/ingest.h"
#include "daemon/pushing.h"
#include "daemon/saving.h"
#include "daemon/web_messages.h"
#include "store/writer.h"
#include "util/buf.h"

struct published {
	bool changed; /* since it was told */
	/* Of the recorder that runs; sums of those that ended */
	struct collector_progress now, before;
	struct store_writer_state store;
	/* committed_ns: when the last window was written, or could be expected from then on */
	uint64_t at_ns, committed_ns, late_ns;
	struct governor governor;
	struct account account;
	struct pods_stats pods; /* without its text */
	bool killed, gone;	/* gone: the store */
	struct freeze_counts freezes;
	bool standing_by; /* another process writes the store */
	uint64_t server_starts, keeper_late;
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
void published_freezes(struct published *p, const struct freeze_counts *n);
void published_killed(struct published *p, bool killed);
void published_standing_by(struct published *p, bool standing_by);

void published_starts(struct published *p, uint64_t n);

/* What the process that serves is told, its metrics behind. -ENOMEM, -E2BIG. */
int published_state(struct published *p, const struct ingest *i, struct web_state *ret,
		    struct buf *metrics);

#endif
