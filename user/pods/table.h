/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods and containers by their ids: what records said of them. Bounded: at PODS_TABLE_BYTES the
 * pods that are gone are forgotten first, the longest gone before others, then no further pod is
 * taken; both are counted. Not thread-safe.
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
	uint64_t forgotten;		 /* pods that are gone, before their time */
	uint64_t refused;		 /* records without room */
	size_t bytes;
};

/* NULL texts: not known. All borrowed until the next pods_table_apply. */
struct pods_names {
	const char *uid, *namespace, *pod, *kind, *workload;
	const char *container; /* NULL where only the pod is known */
	const char *extra[POD_EXTRA_MAX];
};

/* 0 or -ENOMEM. */
int pods_table_new(struct pods_table **ret, size_t bytes);
void pods_table_free(struct pods_table *t);

/* Take a checked record. now_ns: CLOCK_MONOTONIC. */
void pods_table_apply(struct pods_table *t, const struct pod_record *r, uint64_t now_ns);

/*
 * Look a container up by its id (64 digits, or as the path has it), else its pod by uid. An id
 * that two pods claim belongs to nobody. False: neither is known.
 */
bool pods_table_find(const struct pods_table *t, const char *id, size_t id_len, const char *uid,
		     size_t uid_len, struct pods_names *ret);

void pods_table_stats(const struct pods_table *t, struct pods_table_stats *ret);

#endif
