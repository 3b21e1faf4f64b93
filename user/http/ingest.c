/* SPDX-License-Identifier: Apache-2.0 */
#include "http/ingest.h"

#include "http/clock.h"
#include "http/server_int.h"
#include "util/gunzip.h"
#include "util/unzstd.h"

#include <errno.h>
#include <strings.h>

#define PLAIN_MAX (8u << 20)

/* The body counts before it is parsed: many may have come while there was room for one. */
static int charge_body(struct request *r, struct err *err)
{
	struct intake *i = &r->server->intake;
	if (!r->server->cfg.hooks.ingest)
		return err_set(err, -EOPNOTSUPP, "nothing is written here: this is no daemon");
	if (intake_delay_s(i, http_now_ns())) {
		count_refused(r->server, REFUSED_ingest);
		return err_set(err, -EDQUOT, "more profiles come than are taken in");
	}
	r->charged = r->body.len;
	intake_charge(i, r->charged, http_now_ns());
	return 0;
}

int ingest_begin(struct request *r, struct err *err)
{
	struct buf plain = BUF_INIT;
	int rc = charge_body(r, err);
	if (rc || !r->encoding[0] || !strcasecmp(r->encoding, "identity"))
		return rc;
	if (!strcasecmp(r->encoding, "gzip"))
		rc = gunzip(r->body.data, r->body.len, PLAIN_MAX, &plain, err);
	else if (!strcasecmp(r->encoding, "zstd"))
		rc = unzstd(r->body.data, r->body.len, PLAIN_MAX, &plain, err);
	else
		return err_set(err, -EINVAL, "Content-Encoding: gzip or zstd");
	if (rc) {
		buf_fini(&plain);
		return rc;
	}
	buf_fini(&r->body);
	r->body = plain;
	r->encoding[0] = 0;
	return 0;
}

int ingest_store(struct request *r, const struct profile *p, struct err *err)
{
	const struct http_hooks *h = &r->server->cfg.hooks;
	size_t size = profile_size(p), paid = size < r->charged ? size : r->charged;
	r->charged -= paid;
	intake_charge(&r->server->intake, size - paid, http_now_ns()); /* it came compressed */
	return p->n_samples ? h->ingest(h->ctx, p, err) : 0;
}
