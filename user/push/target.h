/* SPDX-License-Identifier: Apache-2.0 */
/* A receiver, made sense of: what it takes, and where. */
#ifndef ASCRIBE_PUSH_TARGET_H
#define ASCRIBE_PUSH_TARGET_H

#include "client/web.h"
#include "export/export.h"
#include "push/push.h"

struct push_message;

enum push_compression { PUSH_PLAIN, PUSH_GZIP, PUSH_ZSTD };

/* What receivers of a format take. */
struct push_format {
	const char *name;
	const char *path; /* appended to the URL, unless it ends in that; NULL: the URL is whole */
	const char *type; /* Content-Type */
	bool clickhouse;  /* has users of its own, and a token for each message */
	bool tables;	  /* ascribe's, to be there before anything is sent (tables.h) */
	bool beside;	  /* with who was running or woke, and the lengths of waits: no profiles */
	bool idle;	  /* with the samples of idle CPUs and idle waits in any case */
	enum push_compression compression; /* unless the configuration says otherwise */
	bool series;	 /* labels become series: only those of `keys`, none that has many values */
	bool dictionary; /* a message has each of its stacks once */
	size_t max_bytes;   /* of a message before compression */
	size_t max_rows;    /* of a profile; 0: any */
	int64_t max_age_ns; /* of what is sent; 0: any */
	/* Write the rows from m->part.from on, and set m->part.end. */
	int (*encode)(struct push_message *m, struct err *err);
	/* Write what follows the last row of a window; NULL: nothing does. */
	int (*end_window)(struct push_message *m, struct err *err);
	/* Profiles that a good answer says are not kept; NULL: it says nothing. */
	uint64_t (*rejected)(const uint8_t *answer, size_t len, char *why, size_t cap);
};

struct push_target {
	const struct push_config *c;
	const struct push_format *format;
	char base[512], path[2048], name[PUSH_NAME_MAX];
	char tenant[300], encoding[64], user[300];
	const char *headers[PUSH_HEADERS_MAX + 4];
	const char *keys[PUSH_KEYS_MAX];
	size_t n_keys; /* 0: all labels */
	enum push_compression compression;
	size_t max_bytes;
	int64_t max_age_ns;
};

/* t refers to itself and to c. -EINVAL: the text begins with the member's name. */
int push_target_init(struct push_target *t, const struct push_config *c, struct err *err);
/* Its headers, for what is sent compressed or not. */
void push_target_headers(struct push_target *t);

#endif
