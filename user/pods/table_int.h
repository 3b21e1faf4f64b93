/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the table, and the memory they take: table_entry.c. */
#ifndef ASCRIBE_PODS_TABLE_INT_H
#define ASCRIBE_PODS_TABLE_INT_H

#include "pods/table.h"
#include "util/list.h"

/* A key in a hash table: the id of a container, or a uid. Several entries may have the same. */
struct table_key {
	struct table_key *next; /* in its bucket */
	uint64_t hash;
	const uint8_t *bytes;
	uint8_t len; /* 0: in no hash table */
	bool binary; /* bytes are those that 64 hexadecimal digits stand for */
	struct table_entry *of;
};

struct table_hash {
	struct table_key **bucket;
	size_t cap; /* a power of two, or 0 */
	size_t n;
	uint64_t seed;
};

/* In one allocation: this, the id (32 bytes or text), the name. */
struct table_container {
	struct table_key key;
	struct table_container *next; /* of the entry */
	uint64_t list;		      /* that named it last */
	const char *name;
	uint8_t room[];
};

struct table_texts {
	size_t size;
	const char *namespace, *pod, *kind, *workload;
	const char *extra[POD_EXTRA_MAX]; /* NULL: not there */
	char room[];
};

struct table_entry {
	struct table_key uid, cgroup_uid;
	struct list_node node; /* among those that are there, or those that are gone */
	struct table_container *containers;
	struct table_texts *texts;
	uint64_t list;	  /* that named it last */
	uint64_t gone_ns; /* if gone */
	bool gone;
	char uid_text[POD_UID_MAX], cgroup_uid_text[POD_UID_MAX];
};

struct pods_table {
	struct table_hash by_id, by_uid, by_cgroup_uid;
	struct list there, gone; /* entries; those that are gone in the order in which they went */
	uint64_t list;		 /* number of the last list */
	bool listing;
	size_t max_bytes;
	struct pods_table_stats stats;
};

/* ---- memory ---- */

/* What n bytes take. */
size_t table_cost(size_t n);
/* Cleared and counted; NULL: no memory. The bound is the caller's to keep. */
void *table_alloc(struct pods_table *t, size_t n);
void table_release(struct pods_table *t, void *p, size_t n);

/* ---- keys ---- */

/* An id or uid to look for: digits become bytes in room. */
struct table_key table_key_of(const struct table_hash *h, const char *text, size_t len,
			      uint8_t room[32]);
/* The next key after `after` (NULL: the first) that equals k, or NULL. */
struct table_key *table_key_next(const struct table_hash *h, const struct table_key *k,
				 const struct table_key *after);
/* Make the buckets twice as many; without memory, or room, chains become longer instead. */
void table_hash_grow(struct pods_table *t, struct table_hash *h);
/* k has its hash, and its bytes stay. */
void table_key_add(struct pods_table *t, struct table_hash *h, struct table_key *k);
void table_key_remove(struct table_hash *h, struct table_key *k);

/* ---- parts of entries, not in any hash table yet; NULL: no memory ---- */

struct table_container *table_container_new(struct pods_table *t, const struct pod_container *c);
void table_container_free(struct pods_table *t, struct table_container *c);
size_t table_container_cost(const struct pod_container *c);
size_t table_container_size(const struct table_container *c);

/* Texts of the record; where it merges, those of `old` (may be NULL) that it lacks. */
struct table_texts *table_texts_new(struct pods_table *t, const struct pod_record *r,
				    const struct table_texts *old);
void table_texts_free(struct pods_table *t, struct table_texts *texts);
size_t table_texts_cost(const struct pod_record *r, const struct table_texts *old);

#endif
