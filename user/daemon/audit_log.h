/* SPDX-License-Identifier: Apache-2.0 */
/*
 * STORE/audit.log, which the process that serves appends to: a line of JSON for each request
 * (http/audit.h). The recorder opens it, and begins another one when it is a quarter of what all
 * may have; the one before is audit.log.1. One thread.
 */
#ifndef ASCRIBE_DAEMON_AUDIT_LOG_H
#define ASCRIBE_DAEMON_AUDIT_LOG_H

#include "util/err.h"

#include <stdbool.h>
#include <stdint.h>

struct audit_log {
	int fd; /* -1: none */
	uint64_t max, bytes, looked_ns;
	bool grows; /* it did between the last two looks */
};

/* max: of both files; 0: none is kept. What is open stays open. */
int audit_log_open(struct audit_log *a, const char *store, uint64_t max, struct err *err);
/* What one file may have. */
static inline uint64_t audit_log_bytes(const struct audit_log *a)
{
	return a->max / 2;
}
/* True: a->fd is another file now. Cheap to call often. */
bool audit_log_look(struct audit_log *a, const char *store);
/* Until the next look; UINT64_MAX: whenever the caller has other things to do. */
uint64_t audit_log_wait_ns(const struct audit_log *a);
void audit_log_close(struct audit_log *a);

#endif
