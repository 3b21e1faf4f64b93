/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each asker may take of the server: CPU time and bytes a minute, memory at a time. An asker
 * is a token by its name, a user of a Unix socket by id, or whoever comes without a token. What one
 * may take in a minute may be taken at once; what is taken beyond it is paid back before the next
 * request. Any thread.
 */
#ifndef ASCRIBE_HTTP_QUOTA_H
#define ASCRIBE_HTTP_QUOTA_H

#include "http/access.h"
#include "util/buf.h"

#include <stdint.h>
#include <sys/types.h>

#define QUOTA_NAME_MAX (ACCESS_NAME_MAX + sizeof("token:"))
#define QUOTA_UIDS_MAX 64 /* that are told apart; those who come later are one */

enum quota_part {
	QUOTA_CPU,    /* nanoseconds of answering, a minute */
	QUOTA_BYTES,  /* of bodies and answers, a minute */
	QUOTA_MEMORY, /* bytes of answers that were not taken yet */
	QUOTA_PARTS,
};

struct quota;
struct asker;

/* limits: UINT64_MAX: none. access: borrowed. */
int quota_new(struct quota **ret, const uint64_t limits[static QUOTA_PARTS],
	      const struct access *access);
void quota_free(struct quota *q);

/* The asker behind a grant of access; else a user id; -1: neither. Stays until quota_free. */
struct asker *quota_asker(struct quota *q, const struct access_grant *g, int64_t uid);
/* "token:NAME", "cert:NAME", "uid:1000", "uid:others", "anybody". */
const char *asker_name(const struct asker *a);

/* 0: go on; else the seconds until the asker may come again, counted; *ret: what is used up. */
unsigned quota_delay_s(struct quota *q, struct asker *a, enum quota_part *ret);
/* Of CPU time and bytes. */
void quota_charge(struct quota *q, struct asker *a, enum quota_part part, uint64_t n);
void quota_hold(struct quota *q, struct asker *a, uint64_t bytes);
void quota_release(struct quota *q, struct asker *a, uint64_t bytes);

/* CPU time that is left: of those who wait, the one with the most is answered next. */
int64_t quota_left(struct quota *q, struct asker *a);

/* Families in Prometheus' text format, a line for each asker that has come. */
int quota_metrics(struct quota *q, struct buf *out);

#endif
