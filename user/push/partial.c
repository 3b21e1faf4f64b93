/* SPDX-License-Identifier: Apache-2.0 */
#include "push/partial.h"

#include "export/otlp.pb-c.h"

#include <stdio.h>

uint64_t push_partial_success(const uint8_t *answer, size_t len, char *why, size_t cap)
{
	Otlp__Response *r = otlp__response__unpack(NULL, len, answer);
	const Otlp__PartialSuccess *s = r ? r->partial_success : NULL;
	uint64_t n = s && s->rejected_profiles > 0 ? (uint64_t)s->rejected_profiles : 0;
	snprintf(why, cap, "%s", s ? s->error_message : "");
	if (r)
		otlp__response__free_unpacked(r, NULL);
	return n;
}
