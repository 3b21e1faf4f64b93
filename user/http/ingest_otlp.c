/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles that OpenTelemetry's exporters send: POST /v1development/profiles. */
#include "http/ingest.h"

#include "export/otlp.pb-c.h"
#include "import/otlp.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#define PROTOBUF "application/x-protobuf"

static int store_ranges(struct request *r, struct otlp_reader *reader, struct err *err)
{
	const struct profile_labels none = { .n = 0 };
	int rc = 1;
	while (rc > 0) {
		struct profile p = { .prefix = PROFILE_SENT };
		int more = otlp_next(reader, &none, &p, err);
		rc = more > 0 ? ingest_store(r, &p, err) : more;
		profile_fini(&p);
		rc = rc ? rc : more;
	}
	return rc;
}

/* Some profiles are left out: a success that says so. All of them: a refusal. */
static int answer(struct request *r, const struct otlp_result *result, struct err *err)
{
	Otlp__Response out = OTLP__RESPONSE__INIT;
	Otlp__PartialSuccess partial = OTLP__PARTIAL_SUCCESS__INIT;
	if (result->rejected && !result->taken)
		return err_set(err, -EINVAL, "%s", result->why);
	partial.rejected_profiles = (int64_t)result->rejected;
	partial.error_message = (char *)(uintptr_t)result->why;
	out.partial_success = result->rejected ? &partial : NULL;
	r->type = PROTOBUF;
	if (buf_reserve(&r->out, otlp__response__get_packed_size(&out) + 1))
		return err_set(err, -ENOMEM, "out of memory");
	r->out.len += otlp__response__pack(&out, r->out.data + r->out.len);
	return 0;
}

int ingest_otlp(struct request *r, struct store *store, struct err *err)
{
	struct otlp_reader *reader = NULL;
	(void)store;
	if (strncasecmp(r->content_type, PROTOBUF, strlen(PROTOBUF)))
		return err_set(err, -EPROTONOSUPPORT,
			       "Content-Type: OpenTelemetry profiles are taken as " PROTOBUF
			       " alone");
	int rc = ingest_begin(r, err);
	rc = rc ? rc : otlp_open(&reader, r->body.data, r->body.len, &profile_sent, err);
	rc = rc ? rc : store_ranges(r, reader, err);
	rc = rc ? rc : answer(r, otlp_result(reader), err);
	otlp_close(reader);
	return rc;
}
