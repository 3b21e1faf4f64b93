/* SPDX-License-Identifier: Apache-2.0 */
/* What all requests share that bring profiles of others. */
#ifndef ASCRIBE_HTTP_INGEST_H
#define ASCRIBE_HTTP_INGEST_H

#include "http/request.h"
#include "import/profile.h"

/*
 * Charge the intake with the body and unpack it in place. -EOPNOTSUPP: this is no daemon; -EDQUOT:
 * more comes than is taken in; -EINVAL, -EMSGSIZE: the body cannot be unpacked.
 */
int ingest_begin(struct request *r, struct err *err);

/* Store a profile of the request, charged by what it adds to the store. Its size comes first. */
int ingest_store(struct request *r, const struct profile *p, struct err *err);

request_handler ingest_push, ingest_pyroscope, ingest_otlp;

#endif
