/* SPDX-License-Identifier: Apache-2.0 */
#include "query/own.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct own {
	struct store *store;
	struct hist_snapshot *hist; /* [N_METRICS] */
	uint8_t *metric;	    /* [of all events]: plus one; 0: none of ours */
	uint32_t n_events;
	struct err *err;
};

static int on_row(void *ctx, const struct store_row *row)
{
	struct own *o = ctx;
	unsigned m = row->event < o->n_events ? o->metric[row->event] : 0;
	uint32_t parent, frame;
	if (!m)
		return 0;
	store_stack(o->store, row->stack, &parent, &frame);
	const struct store_frame *f = store_frame(o->store, frame);
	struct hist_snapshot *h = &o->hist[m - 1];
	return f ? hist_snapshot_count(h, hist_bucket_index(OWN_BITS, f->offset), row->samples, o->err) : 0;
}

static bool find_events(struct own *o)
{
	bool any = false;
	for (uint32_t i = 0; i < o->n_events; i++)
		for (unsigned m = 0; m < N_METRICS; m++) {
			char name[100];
			snprintf(name, sizeof(name), "%s.lengths", metric_name(m));
			if (strcmp(store_event(o->store, i)->name, name))
				continue;
			o->metric[i] = (uint8_t)(m + 1);
			any = true;
		}
	return any;
}

int query_own(struct store *s, int64_t from_ns, int64_t to_ns, struct hist_snapshot *ret, struct err *err)
{
	struct store_cover cover = { 0 };
	struct own o = { .store = s, .hist = ret, .n_events = store_n_events(s), .err = err };
	o.metric = calloc(o.n_events + 1, 1);
	if (!o.metric)
		return err_sys(err, -ENOMEM, "cannot sum up what the recorder measured of itself");
	bool any = find_events(&o);
	int rc = any ? store_round(s, &from_ns, &to_ns, err) : 0;
	if (any && !rc)
		rc = store_cover(s, from_ns, to_ns, STORE_FOLDED, NULL, 0, &cover, err);
	for (size_t i = 0; !rc && i < cover.n; i++)
		rc = store_block_folded(s, cover.blocks[i], on_row, &o, err);
	store_cover_free(&cover);
	free(o.metric);
	return rc;
}
