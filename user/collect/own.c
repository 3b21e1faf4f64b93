/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/own.h"

#include "query/lengths.h"
#include "store/writer.h"

#include <stdio.h>
#include <string.h>

void own_init(struct own_metrics *o)
{
	for (unsigned m = 0; m < N_METRICS; m++) {
		hist_snapshot_init(&o->told[m], OWN_BITS);
		hist_snapshot_init(&o->next[m], OWN_BITS);
		/* Counted by a collector before this one; on -ENOMEM it is counted again */
		metric_snapshot(m, &o->told[m], NULL);
	}
}

void own_fini(struct own_metrics *o)
{
	for (unsigned m = 0; m < N_METRICS; m++) {
		hist_snapshot_fini(&o->told[m]);
		hist_snapshot_fini(&o->next[m]);
	}
}

static int add_bucket(struct store_writer *w, uint32_t event, uint32_t module, uint32_t set,
		      uint32_t bucket, uint64_t n)
{
	struct store_frame f = { .kind = FRAME_USER,
				 .module = module,
				 .offset = hist_bucket_low(OWN_BITS, bucket) };
	uint32_t frame, stack;
	int rc = store_add_frame(w, &f, &frame);
	rc = rc ? rc : store_add_stack(w, 0, frame, &stack);
	return rc ? rc : store_add_row(w, set, stack, event, n, n);
}

/* Subtract the counts of `before` from `now`. */
static int add_metric(struct store_writer *w, enum metric m, const struct hist_snapshot *before,
		      const struct hist_snapshot *now)
{
	char name[100];
	struct store_event e = { .name = name, .unit = "nanoseconds" };
	uint32_t event, module, set;
	uint64_t n, had;
	snprintf(name, sizeof(name), "%s" LENGTHS_SUFFIX, metric_name(m));
	int rc = store_add_event(w, &e, &event);
	rc = rc ? rc : store_add_string(w, OWN_METRICS, strlen(OWN_METRICS), &module);
	rc = rc ? rc : store_add_set(w, NULL, 0, &set);
	for (uint32_t i = 0; !rc && hist_snapshot_next(now, &i, &n); i++) {
		uint32_t same = i;
		if (hist_snapshot_next(before, &same, &had) && same == i)
			n -= had;
		if (n)
			rc = add_bucket(w, event, module, set, i, n);
	}
	return rc;
}

/* A row of n, with one frame; function NULL: without one. */
static int add_count(struct store_writer *w, const char *name, const char *function, uint64_t n)
{
	struct store_event e = { .name = name, .unit = "requests" };
	struct store_frame f = { .kind = FRAME_USER };
	uint32_t event, set, frame, stack;
	if (!n)
		return 0;
	int rc = store_add_event(w, &e, &event);
	rc = rc ? rc : store_add_string(w, OWN_METRICS, strlen(OWN_METRICS), &f.module);
	if (!rc && function)
		rc = store_add_string(w, function, strlen(function), &f.function);
	rc = rc ? rc : store_add_set(w, NULL, 0, &set);
	rc = rc ? rc : store_add_frame(w, &f, &frame);
	rc = rc ? rc : store_add_stack(w, 0, frame, &stack);
	return rc ? rc : store_add_row(w, set, stack, event, n, 0);
}

static int add_silence(struct store_writer *w, const struct reader_silence *s)
{
	char name[64];
	int rc = add_count(w, OWN_SILENT, NULL, s->others);
	for (size_t i = 0; !rc && i < s->n; i++) {
		snprintf(name, sizeof(name), "%s[%u]", s->v[i].comm, s->v[i].tgid);
		rc = add_count(w, OWN_SILENT, name, s->v[i].requests);
	}
	return rc;
}

static int add_native(struct own_metrics *o, struct store_writer *w, const struct own_counts *n)
{
	static const char *const what[OWN_RUNTIMES] = { "HotSpot without ",
							"V8 without v8dbg_",
							"CPython ",
							"PHP ",
							"Ruby ",
							"Perl ",
							"LuaJIT ",
							"Go " };
	char name[128];
	int rc = 0;
	for (unsigned i = 0; !rc && i < OWN_RUNTIMES; i++) {
		o->next_native[i] = n->native[i];
		snprintf(name, sizeof(name), "%s%s", what[i], n->missing[i]);
		rc = add_count(w, OWN_NATIVE, name, n->native[i] - o->told_native[i]);
	}
	return rc;
}

int own_add(struct own_metrics *o, struct store_writer *w, const struct own_counts *n)
{
	int rc = add_silence(w, n->silence);
	o->next_jobs = n->jobs_refused;
	rc = rc ? rc : add_count(w, OWN_JOBS_REFUSED, NULL, n->jobs_refused - o->told_jobs);
	rc = rc ? rc : add_native(o, w, n);
	for (unsigned m = 0; !rc && m < N_METRICS; m++) {
		hist_snapshot_fini(&o->next[m]);
		rc = metric_snapshot(m, &o->next[m], NULL);
		if (!rc && o->next[m].total != o->told[m].total)
			rc = add_metric(w, m, &o->told[m], &o->next[m]);
	}
	return rc;
}

void own_committed(struct own_metrics *o)
{
	o->told_jobs = o->next_jobs;
	memcpy(o->told_native, o->next_native, sizeof(o->told_native));
	for (unsigned m = 0; m < N_METRICS; m++) {
		struct hist_snapshot old = o->told[m];
		o->told[m] = o->next[m];
		o->next[m] = old;
	}
}
