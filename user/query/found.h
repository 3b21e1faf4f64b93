/* SPDX-License-Identifier: Apache-2.0 */
/* The label keys of the samples of a query, or the values of one key, with what they have. */
#ifndef ASCRIBE_QUERY_FOUND_H
#define ASCRIBE_QUERY_FOUND_H

#include "query/query.h"
#include "store/dict/setpool.h"

/* A key, or a value of the key that was asked for: its label is borrowed from the query. */
struct found {
	struct label label;
	uint64_t values, samples;
	double seconds;
};

struct found_list {
	struct found *v; /* by samples, descending; ties by key and value */
	size_t n, cap;
	uint64_t samples; /* of which the shares are */
	bool keys;	  /* a list of keys, not of values */
	bool time;	  /* samples stand for time */
	uint64_t other;	  /* of values: samples of sets that had no room */
	/* That of the query; of keys: bounded, coarse and gone as that of the worst of them */
	struct query_info info;
	struct setpool names; /* of keys */
};

/*
 * key NULL: the keys, of a query with QUERY_TOTALS; else the values of key, of one with QUERY_KEYS
 * of it. A key that had to be cut has more values than are counted. The key `event` has every event
 * that spec admits. 0 or an error with its text in err; the list is to be released either way.
 */
int found_collect(struct found_list *l, struct store *s, struct query *q,
		  const struct query_spec *spec, const char *key, struct err *err);
/* Add the keys that l, a list of keys, lacks, behind those that it has. 0 or -ENOMEM. */
int found_add_keys(struct found_list *l, const struct found_list *of);
void found_fini(struct found_list *l);

/* A key that was counted elsewhere (fleet/fleet.h). */
struct found_key {
	char name[256];
	uint64_t values, samples;
};
/* List such keys, and `event`, of a query with QUERY_TOTALS. As found_collect; keys outlives l. */
int found_list_keys(struct found_list *l, const struct query *q, const struct found_key *keys,
		    size_t n, struct err *err);

/* A value's whole text, to be freed; its length goes to ret_len. NULL: out of memory. */
char *found_text(const struct label *l, size_t *ret_len);

#endif
