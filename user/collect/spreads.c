/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/spreads.h"

#include "hist_bucket.h"
#include "query/lengths.h"
#include "store/writer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

_Static_assert(WAIT_BUCKETS == HIST_BUCKETS(WAIT_HIST_BITS), "the buckets of wait_others");

int spreads_renew(struct spreads *s, const struct sampler_config *cfg)
{
	int rc = 0;
	memset(s->event, 0, sizeof(s->event));
	memset(s->bucket, 0, sizeof(s->bucket));
	for (unsigned i = 0; !rc && i < cfg->n_events; i++) {
		char name[EVENT_NAME_MAX + sizeof(LENGTHS_SUFFIX)];
		const struct event *e = &cfg->event[i];
		const struct store_event spread = { .name = name, .unit = e->unit };
		if (!e->wait && !event_has_spread(e))
			continue;
		snprintf(name, sizeof(name), "%s" LENGTHS_SUFFIX, e->name);
		rc = store_add_event(s->store, &spread, &s->event[i]);
		s->event[i] += !rc;
		rc = rc ? rc
			: store_add_string(s->store, SPREADS_MODULE, strlen(SPREADS_MODULE),
					   &s->module);
	}
	return rc;
}

static int find_bucket(struct spreads *s, uint32_t bucket, uint32_t *ret_stack)
{
	const struct store_frame f = { .kind = FRAME_USER,
				       .module = s->module,
				       .offset = hist_bucket_low(WAIT_HIST_BITS, bucket) };
	uint32_t frame;
	if (!s->bucket[bucket]) {
		int rc = store_add_frame(s->store, &f, &frame);
		rc = rc ? rc : store_add_stack(s->store, 0, frame, ret_stack);
		if (rc)
			return rc;
		s->bucket[bucket] = *ret_stack + 1;
	}
	*ret_stack = s->bucket[bucket] - 1;
	return 0;
}

int spreads_add(struct spreads *s, uint32_t set, unsigned event, uint32_t bucket, uint64_t n)
{
	uint32_t stack;
	if (bucket >= WAIT_BUCKETS || event >= MAX_EVENTS || !s->event[event])
		return -EINVAL;
	int rc = find_bucket(s, bucket, &stack);
	return rc ? rc : store_add_row(s->store, set, stack, s->event[event] - 1, n, 0);
}
