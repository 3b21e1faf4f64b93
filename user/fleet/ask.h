/* SPDX-License-Identifier: Apache-2.0 */
/* Statements to a ClickHouse server, with bound parameters. Not thread-safe. */
#ifndef ASCRIBE_FLEET_ASK_H
#define ASCRIBE_FLEET_ASK_H

#include "fleet/fleet.h"
#include "util/buf.h"

struct ask;

int ask_new(struct ask **ret, const struct fleet_server *server, struct err *err);
void ask_free(struct ask *a);

/*
 * Bind {pN:String} for the next statement, N from 0 on, and give N in *ret_n. The bytes are copied.
 */
int ask_bind(struct ask *a, const char *bytes, size_t len, unsigned *ret_n);

/*
 * Run a statement. hashes: a table `asked` with the column `hash` for it, n hashes of 128 bits, low
 * half first; n 0: none. answer: replaced by what the server says, at most max_bytes. -EPROTO: an
 * error of the server, with its text.
 */
int ask_run(struct ask *a, const char *sql, const void *hashes, size_t n, size_t max_bytes,
	    struct buf *answer, struct err *err);

#endif
