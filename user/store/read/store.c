/* SPDX-License-Identifier: Apache-2.0 */
#include "store/read/block_data.h"
#include "store/read/contents.h"
#include "store/read/store_int.h"
#include "store/read/symbols.h"
#include "store/read/tracks.h"

#include "util/array.h"

#include <errno.h>
#include <stdlib.h>

int store_open(struct store **ret, const char *dir, struct err *err)
{
	struct store *s = malloc(sizeof(*s));
	if (!s)
		return err_sys(err, -ENOMEM, "cannot open %s", dir);
	store_init(s);
	int rc = store_open_dir(s, dir, err);
	if (!rc)
		rc = store_load(s, false, err);
	if (rc)
		store_close(s);
	else
		*ret = s;
	return rc;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	store_fini(s);
	free(s);
}

const char *store_damage(const struct store *s)
{
	return s->damage[0] ? s->damage : NULL;
}

bool store_lost_windows(const struct store *s)
{
	return s->lost_windows;
}

const struct store_meta *store_meta(const struct store *s)
{
	return &s->header.meta;
}

uint64_t store_id(const struct store *s)
{
	return s->n_parts ? 0 : s->header.store_id;
}

const char *store_level_name(uint8_t level)
{
	return level < N_SEGMENT_LEVELS ? levels[level].name : "?";
}

const struct store_anchor *store_anchor(const struct store *s, uint32_t i)
{
	return i < s->manifest.n_anchors ? &s->manifest.anchors[i] : NULL;
}

const struct store_cut *store_cut(const struct store *s, uint8_t level)
{
	const struct store_cut *cut = level < N_SEGMENT_LEVELS ? &s->manifest.cuts[level] : NULL;
	for (size_t i = 0; cut && i < s->n_parts; i++)
		if (s->parts[i]->manifest.cuts[level].before_ns > cut->before_ns)
			cut = &s->parts[i]->manifest.cuts[level];
	return cut;
}

/* ---- dictionaries ---- */

const char *store_string(const struct store *s, uint32_t id, size_t *ret_len)
{
	return strings_get(&s->sym.strings, id, ret_len);
}

const struct store_frame *store_frame(const struct store *s, uint32_t id)
{
	return id && id < s->sym.n_frames ? &s->sym.frames[id] : NULL;
}

void store_stack(const struct store *s, uint32_t id, uint32_t *ret_parent, uint32_t *ret_frame)
{
	struct stack_node n = id < s->sym.n_stacks ? s->sym.stacks[id] : (struct stack_node){ 0 };
	*ret_parent = n.parent;
	*ret_frame = n.frame;
}

size_t store_set(const struct store *s, uint32_t id, const struct label **ret_labels)
{
	return setpool_get(&s->sets, id, ret_labels);
}

const struct store_event *store_event(const struct store *s, uint32_t id)
{
	return id < s->sym.n_events ? &s->sym.events[id] : NULL;
}

uint32_t store_n_strings(const struct store *s)
{
	return s->sym.strings.n;
}

uint32_t store_n_frames(const struct store *s)
{
	return s->sym.n_frames;
}

uint32_t store_n_stacks(const struct store *s)
{
	return s->sym.n_stacks;
}

uint32_t store_n_sets(const struct store *s)
{
	return s->sets.n;
}

void store_limit(struct store *s, const struct store_limits *limits)
{
	s->limits = *limits;
	for (size_t i = 0; i < s->n_parts; i++)
		s->parts[i]->limits = *limits;
}

void store_set_scope(struct store *s, const char *selector)
{
	s->scope = selector;
}

const char *store_scope(const struct store *s)
{
	return s->scope;
}

int store_check_scope(const struct store *s, struct err *err)
{
	return s->scope ? err_set(err, -EACCES, "this is not answered for a part of the labels")
			: 0;
}

size_t store_budget(const struct store *s)
{
	return s->limits.bytes;
}

bool store_is_full(const struct store *s)
{
	return dicts_bytes(&s->sym) + setpool_bytes(&s->sets) > symbols_limit(s) / 4;
}

int store_goes_on(const struct store *s, struct err *err)
{
	if (s->limits.stop && __atomic_load_n(s->limits.stop, __ATOMIC_RELAXED))
		return err_set(err, -EAGAIN, "the server is about to end");
	return 0;
}

uint32_t store_n_events(const struct store *s)
{
	return s->sym.n_events;
}

/* ---- totals ---- */

static int read_totals(struct store *s, const struct block_ref *ref, struct totals *ret,
		       struct err *err)
{
	struct block_data d;
	int rc = block_read(s, ref, WANT_TOTALS, &d, err);
	if (rc)
		return rc;
	rc = contents_totals(s, ref, &d, ret, err);
	if (!rc && ref->whole)
		part_scale(ref, ret);
	block_data_fini(&d);
	return rc;
}

int store_block_totals(struct store *s, const struct store_block *b, struct store_totals **ret,
		       struct err *err)
{
	struct totals *t = calloc(1, sizeof(*t));
	s = store_of(s, store_ref(b));
	int rc = t ? read_totals(s, store_ref(b), t, err)
		   : err_sys(err, -ENOMEM, "cannot read %s", s->dir);
	if (!rc && s->in &&
	    totals_map(t, s->in->header.meta.n_lost, s->in->header.meta.n_flagged, &s->counters)) {
		totals_fini(t);
		rc = err_sys(err, -ENOMEM, "cannot read %s", s->dir);
	}
	if (rc)
		free(t);
	else
		*ret = &t->t; /* its first member */
	return rc;
}

void store_totals_free(struct store_totals *t)
{
	if (!t)
		return;
	totals_fini((struct totals *)t);
	free(t);
}

/* ---- windows ---- */

static int by_time(const void *pa, const void *pb)
{
	const struct store_block *a = *(const struct store_block *const *)pa;
	const struct store_block *b = *(const struct store_block *const *)pb;
	if (a->t0_ns != b->t0_ns)
		return a->t0_ns < b->t0_ns ? -1 : 1;
	return (a->seq > b->seq) - (a->seq < b->seq);
}

static int list_windows(struct store *s)
{
	size_t n = 0, cap = 0;
	for (size_t i = 0; i < s->n_segments; i++) {
		struct segment *g = &s->segments[i];
		int rc = g->m.level ? 0 : segment_load(s, g, NULL);
		if (g->m.level || (rc && rc != -ENOMEM))
			continue;
		if (rc || ARRAY_RESERVE(s->windows, cap, n + g->n_refs + 1)) {
			free(s->windows);
			s->windows = NULL;
			return -ENOMEM;
		}
		for (size_t k = 0; k < g->n_refs; k++)
			s->windows[n++] = &g->refs[k];
	}
	if (n)
		qsort(s->windows, n, sizeof(*s->windows), by_time);
	s->n_windows = n;
	return 0;
}

size_t store_n_windows(struct store *s)
{
	if (!s->windows && list_windows(s))
		return 0;
	return s->n_windows;
}

const struct store_window *store_window(struct store *s, size_t i, struct err *err)
{
	if (i >= store_n_windows(s)) {
		err_set(err, -EINVAL, "there is no window %zu", i);
		return NULL;
	}
	const struct block_ref *r = s->windows[i];
	if (!s->window_totals)
		s->window_totals = calloc(s->n_windows, sizeof(*s->window_totals));
	if (!s->window_totals) {
		err_sys(err, -ENOMEM, "cannot read %s", s->dir);
		return NULL;
	}
	if (!s->window_totals[i].t.cpu && read_totals(s, r, &s->window_totals[i], err))
		return NULL;
	s->window = (struct store_window){ r->b.t0_ns, r->b.t1_ns, r->b.boot_ns, r->b.n_rows,
					   s->window_totals[i].t };
	return &s->window;
}

int store_rows(struct store *s, size_t i, int (*cb)(void *ctx, const struct store_row *row),
	       void *ctx, struct err *err)
{
	if (i >= store_n_windows(s))
		return err_set(err, -EINVAL, "there is no window %zu", i);
	return store_block_rows(s, &s->windows[i]->b, NULL, NULL, cb, ctx, err);
}
