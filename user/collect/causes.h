/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting time of one window by who caused it: who was running (event `blame`), or who woke the
 * thread (events `waker` and `waker.idle`). Rows are summed here until the window ends, because two
 * things are known only then:
 *
 *   - Which pairs of a waiting thread and a cause matter. CAUSES_PAIRS of each event keep their
 *     names, those with the most time first; the cause of the others is "(other)".
 *   - How much of a blocked time was idle. The blocked thread's stack says so where it was sampled.
 *     A sampled wait of probability p stands for 1/p - 1 others (collect/estimate.h). The rest of a
 *     pair's time is divided in proportion to what the samples of the same pair stand for; of a
 *     pair with few samples, by those of all pairs of the same blocked work, else of the same
 *     program.
 *
 * The lock of a blocked time is a part of its row, and becomes labels then (collect/locks.h).
 *
 * Sums stay exact, of each event pair and of each label set of the threads that waited.
 */
#ifndef ASCRIBE_COLLECT_CAUSES_H
#define ASCRIBE_COLLECT_CAUSES_H

#include "collect/locks.h"
#include "collect/pairs.h"
#include "store/dict/setpool.h"
#include "store/store.h"
#include "store/writer.h"

#define CAUSES_MAX (1u << 14) /* distinct rows of one window; 184 bytes each */
#define CAUSES_PAIRS 512      /* pairs of one window and event that keep their names */
#define CAUSES_ENOUGH 8	      /* samples that say which part of a pair's time was idle */

enum cause_event { CAUSE_BLAME, CAUSE_WAKER, CAUSE_EVENTS };

/* Which part of the time is known to be idle. */
enum cause_part { CAUSE_BUSY, CAUSE_IDLE, CAUSE_UNKNOWN, CAUSE_PARTS };

struct cause_sum {
	uint64_t n, ns;
};

/* The key comes first, up to `sum`. */
struct causes_row {
	/* enum cause_event; sets of the pool: of who waited, of both */
	uint32_t event, waited, pair;
	uint32_t stack;		 /* of the store */
	uint32_t lock, lock_end; /* LOCK_ID_*, LOCK_END_* */
	struct cause_sum sum[CAUSE_PARTS];
	struct cause_sum stands[2]; /* for waits that were not sampled: CAUSE_BUSY, CAUSE_IDLE */
	uint64_t n_samples;	    /* of `stands` */
	uint64_t program;	    /* of who waited: a hash */
	uint64_t process[2];	    /* hashes */
	uint32_t lock_group;	    /* locks_group, at the end of the window */
	bool lock_idle;		    /* likewise: waits for a lock of this kind are idle */
	bool named;		    /* the cause is a thread */
	bool cut;		    /* of more pairs than are kept */
};

struct causes {
	struct causes_row *v;
	size_t n, cap;
	struct idhash hash;
	struct setpool sets;
	struct pairs pairs[CAUSE_EVENTS];
	uint32_t no_stack; /* of the store: for what finds no row */
};

int causes_init(struct causes *c);
void causes_fini(struct causes *c);
/* A window begins. */
void causes_clear(struct causes *c);

/* Normalized labels. */
struct cause_labels {
	const struct label *v;
	size_t n;
};

/* One row. */
struct cause {
	enum cause_event event;
	enum cause_part part;
	/* The stack that `part` is known by was taken with probability 4^-thinning */
	unsigned thinning;
	uint32_t stack;
	uint32_t lock, lock_end; /* LOCK_ID_*, LOCK_END_* */
	uint64_t n, ns;
	struct cause_labels waited,
		pair;	     /* of who waited; those and the cause's, with "by." before the keys */
	uint64_t program;    /* of who waited: a hash */
	uint64_t process[2]; /* hashes: of who waited, of the cause */
	bool named;	     /* the cause is a thread */
};

/*
 * Add a row. *ret_cut is set when the cause is "(other)" for lack of room, and left alone
 * otherwise. 0; -ENOMEM: nothing was added.
 */
int causes_add(struct causes *c, const struct cause *row, bool *ret_cut);

/* Where rows go: the events' ids, and how many samples of the store a wait counts. */
struct causes_store {
	struct store_writer *store;
	struct locks *locks; /* NULL: no row has any */
	uint32_t blame, waker, waker_idle;
	unsigned weight; /* of `waker` and `waker.idle` */
};

/* What did not go as it should, in waits. */
struct causes_result {
	uint64_t cut[CAUSE_EVENTS]; /* of pairs that did not keep their names */
	uint64_t locks_cut;	    /* of locks likewise */
	uint64_t failed;	    /* not stored */
};

/* The window is over: store all rows. */
void causes_flush(struct causes *c, const struct causes_store *to, struct causes_result *ret);

#endif
