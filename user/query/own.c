/* SPDX-License-Identifier: Apache-2.0 */
#include "query/own.h"

#include "query/lengths.h"
#include "util/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SILENT_MAX 4096 /* names that are told apart */

/* Events of a store that are ours: a metric plus one, or one of these. */
enum { NOT_OURS, SILENT = N_METRICS + 1, JOBS_REFUSED, NATIVE };

struct silent {
	uint32_t frame; /* its name */
	uint64_t requests;
};

struct own {
	struct store *store;
	struct query_own *ret;
	uint8_t *kind; /* [of all events] */
	uint32_t n_events;
	struct silent *silent;
	size_t n_silent, cap_silent;
	struct err *err;
};

static int add_silent(struct own *o, uint32_t frame, uint64_t requests)
{
	for (size_t i = 0; i < o->n_silent; i++)
		if (o->silent[i].frame == frame) {
			o->silent[i].requests += requests;
			return 0;
		}
	if (o->n_silent == SILENT_MAX) {
		o->ret->other_requests += requests;
		return 0;
	}
	if (ARRAY_RESERVE(o->silent, o->cap_silent, o->n_silent + 1))
		return err_sys(o->err, -ENOMEM, "processes that did not answer");
	o->silent[o->n_silent++] = (struct silent){ frame, requests };
	return 0;
}

/* Beyond the first few they are not told apart: there are few versions. */
static void add_native(struct own *o, const struct store_frame *f, uint64_t processes)
{
	struct query_own *r = o->ret;
	size_t i = 0;
	const char *what = store_string(o->store, f->function, NULL);
	while (i < r->n_native && strcmp(r->native[i].what, what))
		i++;
	i = i < QUERY_OWN_NAMES ? i : QUERY_OWN_NAMES - 1;
	if (i == r->n_native) {
		r->n_native++;
		snprintf(r->native[i].what, sizeof(r->native[i].what), "%s", what);
	}
	r->native[i].processes += processes;
}

static int on_row(void *ctx, const struct store_row *row)
{
	struct own *o = ctx;
	unsigned kind = row->event < o->n_events ? o->kind[row->event] : NOT_OURS;
	uint32_t parent, frame;
	if (!kind)
		return 0;
	store_stack(o->store, row->stack, &parent, &frame);
	const struct store_frame *f = store_frame(o->store, frame);
	if (!f)
		return 0;
	if (kind == JOBS_REFUSED)
		o->ret->jobs_refused += row->samples;
	else if (kind == NATIVE)
		add_native(o, f, row->samples);
	else if (kind == SILENT && !f->function)
		o->ret->other_requests += row->samples;
	else if (kind == SILENT)
		return add_silent(o, frame, row->samples);
	else
		return hist_snapshot_count(&o->ret->metric[kind - 1],
					   hist_bucket_index(OWN_BITS, f->offset), row->samples,
					   o->err);
	return 0;
}

static uint8_t kind_of(const char *event)
{
	if (!strcmp(event, OWN_SILENT))
		return SILENT;
	if (!strcmp(event, OWN_JOBS_REFUSED))
		return JOBS_REFUSED;
	if (!strcmp(event, OWN_NATIVE))
		return NATIVE;
	for (unsigned m = 0; m < N_METRICS; m++) {
		char name[100];
		snprintf(name, sizeof(name), "%s" LENGTHS_SUFFIX, metric_name(m));
		if (!strcmp(event, name))
			return (uint8_t)(m + 1);
	}
	return NOT_OURS;
}

static int by_requests(const void *a, const void *b)
{
	const struct silent *x = a, *y = b;
	return x->requests != y->requests ? (x->requests < y->requests ? 1 : -1)
	       : x->frame < y->frame	  ? -1
					  : x->frame > y->frame;
}

/* Hand out the names with the most requests. */
static void name_silent(struct own *o)
{
	if (o->n_silent)
		qsort(o->silent, o->n_silent, sizeof(*o->silent), by_requests);
	for (size_t i = 0; i < o->n_silent; i++) {
		struct query_silent *s = &o->ret->silent[o->ret->n_silent];
		if (i >= QUERY_OWN_NAMES) {
			o->ret->other_requests += o->silent[i].requests;
			continue;
		}
		snprintf(s->name, sizeof(s->name), "%s",
			 store_string(o->store, store_frame(o->store, o->silent[i].frame)->function,
				      NULL));
		s->requests = o->silent[i].requests;
		o->ret->n_silent++;
	}
}

int query_own(struct store *s, int64_t from_ns, int64_t to_ns, struct query_own *ret,
	      struct err *err)
{
	struct store_cover cover = { 0 };
	struct own o = { .store = s, .ret = ret, .n_events = store_n_events(s), .err = err };
	bool any = false;
	*ret = (struct query_own){ 0 };
	for (unsigned m = 0; m < N_METRICS; m++)
		hist_snapshot_init(&ret->metric[m], OWN_BITS);
	o.kind = calloc(o.n_events + 1, 1);
	if (!o.kind)
		return err_sys(err, -ENOMEM, "cannot sum up what the recorder measured of itself");
	for (uint32_t i = 0; i < o.n_events; i++)
		any |= (o.kind[i] = kind_of(store_event(s, i)->name)) != NOT_OURS;
	int rc = any ? store_cover_nearest(s, from_ns, to_ns, STORE_FOLDED, NULL, 0, &cover, err)
		     : 0;
	for (size_t i = 0; !rc && i < cover.n; i++)
		rc = store_block_folded(s, cover.blocks[i], on_row, &o, err);
	if (!rc)
		name_silent(&o);
	store_cover_free(&cover);
	free(o.silent);
	free(o.kind);
	return rc;
}

void query_own_fini(struct query_own *o)
{
	for (unsigned m = 0; m < N_METRICS; m++)
		hist_snapshot_fini(&o->metric[m]);
}
