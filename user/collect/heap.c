/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/heap.h"

#include "store/writer.h"
#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define BUCKETS (1u << 14)
#define NONE UINT32_MAX /* a site: the event is a free */
#define NS_PER_S 1000000000ull
#define OBJECT_SECOND (NS_PER_S * HEAP_OBJECT)

/* ---- sites ---- */

static bool same_site(const void *ctx, uint32_t id, const void *key)
{
	const struct heap_site *a = &((const struct heap *)ctx)->sites[id], *b = key;
	return a->set == b->set && a->stack == b->stack && a->mean == b->mean;
}

static uint32_t site_hash(struct heap *h, const struct heap_site *s)
{
	const uint32_t key[] = { s->set, s->stack, s->mean };
	return idhash_hash(&h->site_hash, key, sizeof(key));
}

static int add_site(struct heap *h, const struct heap_site *s, uint32_t *ret)
{
	const uint32_t hash = site_hash(h, s);
	*ret = idhash_find(&h->site_hash, hash, same_site, h, s);
	if (*ret != IDHASH_NONE)
		return 0;
	if (h->n_sites >= HEAP_SITES_MAX)
		return -E2BIG;
	if (ARRAY_RESERVE(h->sites, h->cap_sites, h->n_sites + 1) || idhash_reserve(&h->site_hash))
		return -ENOMEM;
	*ret = (uint32_t)h->n_sites++;
	h->sites[*ret] = *s;
	idhash_put(&h->site_hash, hash, *ret);
	return 0;
}

/* Memory is the process's, whichever thread allocates it. */
static bool is_of_thread(const struct label *l)
{
	return (l->key_len == 3 && !memcmp(l->key, "tid", 3)) ||
	       (l->key_len == 6 && !memcmp(l->key, "thread", 6));
}

static int find_site(struct heap *h, uint32_t set, uint32_t stack, unsigned mean, uint32_t *ret)
{
	const struct label *l;
	struct label kept[STORE_SET_MAX];
	struct heap_site s = { .stack = stack, .mean = mean };
	const size_t n = store_added_set(h->store, set, &l);
	size_t n_kept = 0;
	for (size_t i = 0; i < n && n_kept < STORE_SET_MAX; i++)
		if (!is_of_thread(&l[i]))
			kept[n_kept++] = l[i];
	if (h->n_sites >= HEAP_SITES_MAX && !setpool_find(&h->sets, kept, n_kept, &s.set))
		return -E2BIG; /* the pool does not grow either */
	int rc = setpool_add(&h->sets, kept, n_kept, &s.set);
	return rc ? rc : add_site(h, &s, ret);
}

/* Let the integrals reach up to ns, or end there if they are further. */
static void site_advance(struct heap_site *s, uint64_t ns)
{
	if (ns <= s->since_ns)
		return;
	s->byte_ns += (unsigned __int128)s->bytes * (ns - s->since_ns);
	s->object_ns += (unsigned __int128)s->objects * (ns - s->since_ns);
	s->since_ns = ns;
}

/* ---- live allocations ---- */

static uint32_t *bucket_of(struct heap *h, const struct proc_id *id, uint64_t ptr)
{
	const uint64_t key[] = { ptr, id->start_ns, (uint64_t)id->tgid << 32 | id->exec_id };
	return &h->bucket[XXH3_64bits_withSeed(key, sizeof(key), h->seed) % BUCKETS];
}

static bool same_process(const struct proc_id *a, const struct proc_id *b)
{
	return a->tgid == b->tgid && a->start_ns == b->start_ns && a->exec_id == b->exec_id;
}

/* The link that names the allocation; *it is 0 where there is none. */
static uint32_t *find_live(struct heap *h, const struct proc_id *id, uint64_t ptr)
{
	uint32_t *at = bucket_of(h, id, ptr);
	while (*at && (h->live[*at - 1].ptr != ptr || !same_process(&h->live[*at - 1].id, id)))
		at = &h->live[*at - 1].next;
	return at;
}

/* Remove the allocation that *at names, which was freed at ns. */
static void remove_live(struct heap *h, uint32_t *at, uint64_t ns)
{
	const uint32_t i = *at;
	struct heap_live *l = &h->live[i - 1];
	struct heap_site *s = &h->sites[l->site];
	site_advance(s, ns);
	if (ns < s->since_ns) { /* the end of a process is seen after later events */
		const uint64_t over = s->since_ns - ns;
		const unsigned __int128 bytes = (unsigned __int128)l->bytes * over,
					objects = (unsigned __int128)l->objects * over;
		s->byte_ns -= bytes < s->byte_ns ? bytes : s->byte_ns;
		s->object_ns -= objects < s->object_ns ? objects : s->object_ns;
	}
	s->live--;
	s->bytes -= l->bytes;
	s->objects -= l->objects;
	*at = l->next;
	l->next = h->unused;
	h->unused = i;
	h->n_used--;
}

static bool has_room(struct heap *h)
{
	return h->unused ||
	       (h->n_live < HEAP_LIVE_MAX && !ARRAY_RESERVE(h->live, h->cap_live, h->n_live + 1));
}

static void apply_alloc(struct heap *h, const struct heap_event *e)
{
	uint32_t *at = find_live(h, &e->id, e->ptr);
	if (*at) {
		h->lost.frees++;
		remove_live(h, at, e->at_ns);
	}
	if (!has_room(h)) {
		h->lost.untracked++;
		return;
	}
	const uint32_t i = h->unused ? h->unused : (uint32_t)++h->n_live;
	if (i == h->unused)
		h->unused = h->live[i - 1].next;
	at = bucket_of(h, &e->id, e->ptr);
	h->live[i - 1] = (struct heap_live){ e->id, e->site, *at, e->ptr, e->bytes, e->objects };
	*at = i;
	h->n_used++;
	struct heap_site *s = &h->sites[e->site];
	site_advance(s, e->at_ns);
	s->live++;
	s->bytes += e->bytes;
	s->objects += e->objects;
}

/* ---- the queue ---- */

static int by_time(const void *a, const void *b)
{
	const struct heap_event *x = a, *y = b;
	return x->at_ns < y->at_ns ? -1 : x->at_ns > y->at_ns;
}

/* Apply the events before until_ns. */
static void apply(struct heap *h, uint64_t until_ns)
{
	size_t n = 0;
	qsort(h->queue, h->n_queue, sizeof(*h->queue), by_time);
	for (; n < h->n_queue && h->queue[n].at_ns < until_ns; n++) {
		const struct heap_event *e = &h->queue[n];
		if (e->site != NONE) {
			apply_alloc(h, e);
			continue;
		}
		uint32_t *at = find_live(h, &e->id, e->ptr);
		if (*at)
			remove_live(h, at, e->at_ns);
		else
			h->lost.unknown++;
	}
	h->n_queue -= n;
	memmove(h->queue, h->queue + n, h->n_queue * sizeof(*h->queue));
}

static struct heap_event *add_event(struct heap *h, const struct row *row, uint64_t ptr)
{
	if (h->n_queue >= HEAP_QUEUE_MAX || ARRAY_RESERVE(h->queue, h->cap_queue, h->n_queue + 1))
		return NULL;
	struct heap_event *e = &h->queue[h->n_queue++];
	*e = (struct heap_event){ .id = { row->start_ns, row->tgid, row->exec_id },
				  .site = NONE,
				  .ptr = ptr,
				  .at_ns = row->last_ns };
	return e;
}

int heap_add_alloc(struct heap *h, const struct row *row, const struct heap_hit *hit, uint32_t set,
		   uint32_t stack)
{
	const uint64_t objects = hit->objects + h->objects_rest;
	int rc = store_add_row(h->store, set, stack, h->alloc_objects, row->samples,
			       objects / HEAP_OBJECT);
	if (rc)
		return rc;
	h->objects_rest = objects % HEAP_OBJECT;
	uint32_t site;
	rc = find_site(h, set, stack, hit->mean, &site);
	struct heap_event *e = rc ? NULL : add_event(h, row, hit->ptr);
	if (e) {
		e->site = site;
		e->bytes = row->value;
		e->objects = hit->objects;
	} else {
		h->lost.untracked++;
	}
	return 0;
}

void heap_add_free(struct heap *h, const struct row *row)
{
	if (!add_event(h, row, row->first_ns))
		h->lost.frees++;
}

void heap_drained(struct heap *h, uint64_t until_ns)
{
	if (h->n_queue > HEAP_QUEUE_MAX / 2)
		apply(h, until_ns);
}

/* ---- events of the store ---- */

static int add_store_event(struct heap *h, const char *name, const char *unit, uint64_t period,
			   uint32_t *ret)
{
	const struct store_event e = { .name = name, .unit = unit, .period = period };
	return store_add_event(h->store, &e, ret);
}

/*
 * Find or add the event of samples with this mean; that of the usual mean has no period. known: of
 * each mean 1 + its id, or 0.
 */
static int add_mean(struct heap *h, uint32_t *known, const char *name, const char *unit,
		    unsigned mean, uint32_t *ret)
{
	const uint64_t period = mean ? HEAP_MEAN << mean : 0;
	int rc = known[mean] ? 0 : add_store_event(h, name, unit, period, ret);
	if (rc)
		return rc;
	if (known[mean])
		*ret = known[mean] - 1;
	known[mean] = *ret + 1;
	return 0;
}

unsigned heap_mean_of(uint64_t size, uint64_t weighted)
{
	unsigned mean = 0;
	while (mean + 1 < HEAP_MEANS && weighted > size && weighted - size > HEAP_MEAN << mean)
		mean++;
	return mean;
}

int heap_alloc_event(struct heap *h, unsigned mean, uint32_t *ret)
{
	return add_mean(h, h->alloc_space, HEAP_ALLOC_SPACE, "bytes", mean, ret);
}

size_t heap_events(const struct heap *h, uint32_t *ret)
{
	size_t n = 0;
	for (unsigned i = 0; i < HEAP_MEANS; i++) { /* alloc_space[0] is the sampler's */
		if (h->alloc_space[i])
			ret[n++] = h->alloc_space[i] - 1;
		if (h->inuse_space[i])
			ret[n++] = h->inuse_space[i] - 1;
	}
	ret[n++] = h->alloc_objects;
	ret[n++] = h->inuse_objects;
	return n;
}

/* ---- windows ---- */

/*
 * When an image ended: of several threads that is seen late, and mostly all end with the first one.
 * UINT64_MAX: it lives.
 */
static uint64_t image_end(const struct proc_image *im, uint64_t until_ns)
{
	if (!im)
		return until_ns;
	if (im->leader_exit_ns)
		return proc_image_alive(im) ? UINT64_MAX : im->leader_exit_ns;
	return im->to_ns;
}

/* Free what belonged to images of processes that have ended, in this window at the earliest. */
static void end_processes(struct heap *h, struct procs *p, uint64_t until_ns)
{
	struct proc_id last = { 0 };
	uint64_t end = UINT64_MAX;
	for (unsigned b = 0; b < BUCKETS; b++)
		for (uint32_t *at = &h->bucket[b]; *at;) {
			const struct heap_live *l = &h->live[*at - 1];
			if (!same_process(&l->id, &last)) {
				last = l->id;
				end = image_end(procs_lookup(p, &last), until_ns);
			}
			if (end > until_ns)
				at = &h->live[*at - 1].next;
			else
				remove_live(h, at, end > h->begin_ns ? end : h->begin_ns);
		}
}

static int store_site(struct heap *h, struct heap_site *s)
{
	const struct label *l;
	const size_t n = setpool_get(&h->sets, s->set, &l);
	const uint64_t samples = s->live ? s->live : 1;
	uint32_t set, event;
	int rc = store_add_set(h->store, l, n, &set);
	rc = rc ? rc
		: add_mean(h, h->inuse_space, HEAP_INUSE_SPACE, "byte-seconds", s->mean, &event);
	rc = rc ? rc
		: store_add_row(h->store, set, s->stack, event, samples,
				(uint64_t)(s->byte_ns / NS_PER_S));
	rc = rc ? rc
		: store_add_row(h->store, set, s->stack, h->inuse_objects, samples,
				(uint64_t)(s->object_ns / OBJECT_SECOND));
	s->byte_ns %= NS_PER_S; /* of the next window */
	s->object_ns %= OBJECT_SECOND;
	return rc;
}

/* Make the sites anew from those that are in use, by live allocations or in the queue. */
static int rebuild_sites(struct heap *h)
{
	struct heap next = { .store = h->store };
	uint32_t *to = calloc(h->n_sites + 1, sizeof(*to));
	int rc = to ? setpool_init(&next.sets) : -ENOMEM;
	for (size_t i = 0; !rc && i < h->n_queue; i++)
		if (h->queue[i].site != NONE)
			to[h->queue[i].site] = 1;
	for (size_t i = 0; !rc && i < h->n_sites; i++) {
		struct heap_site s = h->sites[i];
		const struct label *l;
		if (!s.live && !to[i])
			continue;
		const size_t n = setpool_get(&h->sets, s.set, &l);
		rc = setpool_add(&next.sets, l, n, &s.set);
		rc = rc ? rc : add_site(&next, &s, &to[i]);
	}
	if (!rc) {
		for (size_t i = 0; i < h->n_queue; i++)
			if (h->queue[i].site != NONE)
				h->queue[i].site = to[h->queue[i].site];
		for (unsigned b = 0; b < BUCKETS; b++)
			for (uint32_t at = h->bucket[b]; at; at = h->live[at - 1].next)
				h->live[at - 1].site = to[h->live[at - 1].site];
		struct heap old = *h;
		h->sites = next.sites;
		h->n_sites = next.n_sites;
		h->cap_sites = next.cap_sites;
		h->site_hash = next.site_hash;
		h->sets = next.sets;
		next.sites = old.sites;
		next.site_hash = old.site_hash;
		next.sets = old.sets;
	}
	free(next.sites);
	idhash_fini(&next.site_hash);
	setpool_fini(&next.sets);
	free(to);
	return rc;
}

int heap_end_window(struct heap *h, struct procs *p, uint64_t until_ns, struct heap_lost *ret_lost)
{
	size_t used = 0;
	int rc = 0;
	*ret_lost = (struct heap_lost){ 0 };
	if (!h->on)
		return 0;
	apply(h, until_ns);
	end_processes(h, p, until_ns);
	h->begin_ns = until_ns;
	for (size_t i = 0; i < h->n_sites; i++) {
		struct heap_site *s = &h->sites[i];
		site_advance(s, until_ns);
		const int failed = s->live || s->byte_ns >= NS_PER_S ? store_site(h, s) : 0;
		rc = rc ? rc : failed;
		used += s->live != 0;
	}
	if (h->n_sites > 2 * used + 64)
		rebuild_sites(h); /* without memory they stay */
	*ret_lost = h->lost;
	h->lost = (struct heap_lost){ 0 };
	return rc;
}

/* ---- life ---- */

/* Forget everything. */
static void clear(struct heap *h)
{
	if (h->bucket)
		memset(h->bucket, 0, BUCKETS * sizeof(*h->bucket));
	h->n_queue = h->n_live = h->n_sites = 0;
	h->n_used = h->unused = 0;
	idhash_clear(&h->site_hash);
	if (h->sets.n)
		setpool_clear(&h->sets);
}

void heap_ids_void(struct heap *h)
{
	if (h->stale)
		clear(h); /* the stacks are in no file any more that is at hand */
	h->stale = h->n_sites;
}

/* Stacks have other ids now. */
static int carry_sites(struct heap *h)
{
	uint32_t *stack = malloc((h->n_sites + 1) * sizeof(*stack));
	int rc = stack ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < h->n_sites; i++)
		rc = store_carry_stack(h->store, h->sites[i].stack, &stack[i]);
	if (!rc)
		idhash_clear(&h->site_hash); /* there is room for as many again */
	for (size_t i = 0; !rc && i < h->n_sites; i++) {
		h->sites[i].stack = stack[i];
		idhash_put(&h->site_hash, site_hash(h, &h->sites[i]), (uint32_t)i);
	}
	free(stack);
	h->stale &= rc != 0;
	return rc;
}

static int heap_init(struct heap *h)
{
	h->bucket = calloc(BUCKETS, sizeof(*h->bucket));
	if (!h->bucket)
		return -ENOMEM;
	int rc = setpool_init(&h->sets);
	h->seed = h->sets.seed;
	return rc;
}

int heap_renew(struct heap *h, bool on)
{
	h->on = on;
	if (!on)
		return 0;
	uint32_t event;
	int rc = h->bucket ? 0 : heap_init(h);
	rc = rc || !h->stale ? rc : carry_sites(h);
	memset(h->alloc_space, 0, sizeof(h->alloc_space));
	memset(h->inuse_space, 0, sizeof(h->inuse_space));
	rc = rc ? rc : add_store_event(h, HEAP_ALLOC_OBJECTS, "count", 0, &h->alloc_objects);
	rc = rc ? rc : add_mean(h, h->inuse_space, HEAP_INUSE_SPACE, "byte-seconds", 0, &event);
	return rc ? rc
		  : add_store_event(h, HEAP_INUSE_OBJECTS, "object-seconds", 0, &h->inuse_objects);
}

void heap_fini(struct heap *h)
{
	free(h->queue);
	free(h->live);
	free(h->bucket);
	free(h->sites);
	idhash_fini(&h->site_hash);
	setpool_fini(&h->sets);
}
