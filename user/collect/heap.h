/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations that programs sample themselves (docs/memory.md), into the store:
 *
 *   alloc_space, alloc_objects    bytes and allocations made, by all labels and stack
 *   inuse_space, inuse_objects    of these, what is not freed yet, by the labels and stack of the
 *                                 allocation: the integral over the window, in byte-seconds and
 *                                 object-seconds. So windows add up, and an integral divided by
 *                                 its time is the average
 *
 *   alloc: row, labels, stack --> queue --by time--> live allocations, by process and address
 *   free:  row -----------------> queue --'              |
 *   exit or exec of the process ------------------------>|
 *                                                        v
 *                                      site: labels and stack, what is live, its integral
 *
 * Events of all CPUs are applied in the order of time, up to a time before which all were drained.
 * Labels of a site have no tid and no thread: memory is the process's. Not thread-safe.
 */
#ifndef ASCRIBE_COLLECT_HEAP_H
#define ASCRIBE_COLLECT_HEAP_H

#include "proc/proc.h"
#include "store/dict/setpool.h"
#include "store/store.h"
#include "store/writer.h"

#include <linux/types.h>
#include "wire.h"

#define HEAP_ALLOC_SPACE "alloc_space"
#define HEAP_ALLOC_OBJECTS "alloc_objects"
#define HEAP_INUSE_SPACE "inuse_space"
#define HEAP_INUSE_OBJECTS "inuse_objects"

#define HEAP_LIVE_MAX (1u << 16)  /* allocations; 32 GiB at one sample each 512 KiB */
#define HEAP_MEANS 12		  /* HEAP_MEAN, doubled so often less one: HEAP_MEAN_MAX */
#define HEAP_SITES_MAX (1u << 14) /* label sets with stacks */
#define HEAP_QUEUE_MAX (1u << 17) /* allocations and frees between two applications */

/* What an allocation is, beyond its row. All zero: none. */
struct heap_hit {
	uint64_t ptr;
	uint64_t objects; /* that it stands for, times HEAP_OBJECT */
	unsigned mean;	  /* heap_mean_of() */
};

struct heap_event {
	struct proc_id id;
	uint32_t site; /* HEAP_FREE: a free */
	uint64_t ptr, at_ns, bytes, objects;
};

struct heap_live {
	struct proc_id id;
	uint32_t site, next; /* next: in its bucket, or of those that are not used; plus one */
	uint64_t ptr, bytes, objects;
};

struct heap_site {
	uint32_t set, stack;		      /* of our pool, of the store */
	uint32_t mean;			      /* heap_mean_of() its samples */
	uint32_t live;			      /* samples */
	uint64_t bytes, objects;	      /* that they stand for */
	uint64_t since_ns;		      /* the integrals reach up to here */
	unsigned __int128 byte_ns, object_ns; /* of this window */
};

/* What did not go as it should, since the last heap_end_window. */
struct heap_lost {
	uint64_t frees;	    /* that were not seen */
	uint64_t unknown;   /* frees of what was not recorded */
	uint64_t untracked; /* allocations without room */
};

struct heap {
	struct store_writer *store;
	bool on;
	bool stale; /* stacks of the sites are ids of the file before */
	/* Events of the store; of each mean one, added when it comes: 1 + its id, or 0 */
	uint32_t alloc_space[HEAP_MEANS], inuse_space[HEAP_MEANS];
	uint32_t alloc_objects, inuse_objects;
	uint64_t objects_rest; /* of alloc_objects, below one: HEAP_OBJECT */
	struct heap_event *queue;
	size_t n_queue, cap_queue;
	struct heap_live *live;
	size_t n_live, cap_live; /* n_live: with those in `unused` */
	uint32_t n_used, unused;
	uint64_t begin_ns; /* of the window */
	uint32_t *bucket;  /* of live, by process and address; plus one */
	uint64_t seed;
	struct heap_site *sites;
	size_t n_sites, cap_sites;
	struct idhash site_hash;
	struct setpool sets;
	struct heap_lost lost;
};

/*
 * How often HEAP_MEAN must be doubled until an allocation of `size` bytes may stand for `weighted`:
 * below HEAP_MEANS. The variance of sums of such samples is at most their bytes times that mean.
 */
unsigned heap_mean_of(uint64_t size, uint64_t weighted);
/* The event of alloc_space for samples of such a mean, 1 at least: 0 or -errno of the store. */
int heap_alloc_event(struct heap *h, unsigned mean, uint32_t *ret);
#define HEAP_EVENTS_MAX (2 * HEAP_MEANS + 2)
/* Its events that the store knows, without that of the sampler; return how many. */
size_t heap_events(const struct heap *h, uint32_t *ret);

/* store_renew was true: call heap_renew before store_renew_end, which carries the stacks over. */
void heap_ids_void(struct heap *h);
/* Add the events to the store, after those of the sampler. 0 or -errno; then call it again. */
int heap_renew(struct heap *h, bool on);
void heap_fini(struct heap *h);

/*
 * An allocation was stored in the open window with this label set and stack. 0 or -errno of the
 * store.
 */
int heap_add_alloc(struct heap *h, const struct row *row, const struct heap_hit *hit, uint32_t set,
		   uint32_t stack);
/* A row of kind ROW_FREE. */
void heap_add_free(struct heap *h, const struct row *row);

/* All events before until_ns (BOOTTIME) were added: apply them if the queue is filling. */
void heap_drained(struct heap *h, uint64_t until_ns);

/*
 * The window ends at until_ns: store what is in use. 0 or -errno of the store; *ret_lost is filled
 * either way.
 */
int heap_end_window(struct heap *h, struct procs *p, uint64_t until_ns, struct heap_lost *ret_lost);

#endif
