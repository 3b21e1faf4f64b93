/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read an ExportProfilesServiceRequest of OpenTelemetry, opentelemetry-proto 1.10 or later.
 *
 *   request --otlp_open--> reader --otlp_next--> profiles of one range of time --> write.h
 *
 * Attributes become labels with the names of ours (export/otel_names.h), a link the labels trace_id
 * and span_id. Samples that are counted and have a period in nanoseconds become time. A Profile
 * that makes no sense is rejected, the others of the request are taken. Not thread-safe.
 */
#ifndef ASCRIBE_IMPORT_OTLP_H
#define ASCRIBE_IMPORT_OTLP_H

#include "import/profile.h"

#define OTLP_RANGES_MAX 64 /* profiles that a request is made to: of so many ranges of time */

struct otlp_reader;

struct otlp_result {
	uint64_t taken, rejected; /* of the request's Profiles, so far */
	char why[300];		  /* the first was rejected */
};

/*
 * data must stay until otlp_close. -EINVAL: it is no such request; -EMSGSIZE, -E2BIG: it is larger
 * than the limits; -ENOMEM.
 */
int otlp_open(struct otlp_reader **ret, const uint8_t *data, size_t len,
	      const struct profile_limits *limits, struct err *err);
/* NULL is fine. */
void otlp_close(struct otlp_reader *r);

/*
 * Add the next Profiles that have one range of time to p, which is empty and has the reader's
 * limits. All get the labels l, whose texts must outlive p. 1; 0: there are no more; -ENOMEM. Call
 * profile_fini in any case.
 */
int otlp_next(struct otlp_reader *r, const struct profile_labels *l, struct profile *p,
	      struct err *err);

const struct otlp_result *otlp_result(const struct otlp_reader *r);

#endif
