/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods and containers by their ids: what records said of them.
 *
 * 1. A pod is known by its uid, a container without a pod by its own id: each is one entry.
 * 2. A record replaces its entry. With merge it adds containers and texts to the entry.
 * 3. A pod that is gone keeps its names for PODS_GONE_NS. If it is seen again, it is there again.
 * 4. LIST_END makes gone what the list did not name: pods, and containers of pods that merge.
 * 5. Of several entries that claim an id, the only one that is there has it. If none is there, the
 *    only one has it. Otherwise nobody has it.
 * 6. Memory is bounded. Pods that are gone are forgotten early, the longest gone first. If there is
 *    still no room, the record is refused, and its entry stays as it was. Both are counted.
 *
 * Not thread-safe.
 */
#ifndef ASCRIBE_PODS_TABLE_H
#define ASCRIBE_PODS_TABLE_H

#include "pods/record.h"

#include <stddef.h>

#define PODS_TABLE_BYTES (4u << 20)
#define PODS_GONE_NS (3600ull * 1000000000ull) /* a pod that is gone keeps its name for so long */

struct pods_table;

struct pods_table_stats {
	uint64_t pods, containers, gone; /* now; gone: of the pods */
	uint64_t forgotten;		 /* pods that are gone, before PODS_GONE_NS were over */
	uint64_t refused;		 /* records without room */
	size_t bytes;			 /* allocated, with what malloc adds */
};

/* NULL texts: not known. All borrowed until the next pods_table_apply. */
struct pods_names {
	const char *uid, *namespace, *pod, *kind, *workload;
	const char *container; /* NULL where only the pod is known */
	const char *extra[POD_EXTRA_MAX];
};

/* bytes: of all memory, PODS_TABLE_BYTES but in tests. 0 or -ENOMEM. */
int pods_table_new(struct pods_table **ret, size_t bytes);
void pods_table_free(struct pods_table *t);

/* Take a checked record. now_ns: CLOCK_MONOTONIC. */
void pods_table_apply(struct pods_table *t, const struct pod_record *r, uint64_t now_ns);

/*
 * Look a container up by its id (64 digits, or as the path has it), else its pod by the uid of the
 * path. Both come from one cgroup path: a container of another pod than uid's is not taken. Either
 * length may be 0. False: neither is known; ret is untouched.
 */
bool pods_table_find(const struct pods_table *t, const char *id, size_t id_len, const char *uid,
		     size_t uid_len, struct pods_names *ret);

void pods_table_stats(const struct pods_table *t, struct pods_table_stats *ret);

#endif
