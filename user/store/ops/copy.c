/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One store from the blocks of others: a window for each window, in order of time, through the
 * writer that the recorder uses. A parent stands for its windows where those were cut.
 */
#include "store/ops/copy_int.h"

#include "store/ops/staging.h"
#include "store/writer.h"
#include "util/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Bytes that the readers of all sources keep: half names, half dictionaries. */
#define READERS_MEMORY (64u << 20)
#define READER_LEAST (4u << 20) /* of one, however many there are */

/* ---- the blocks ---- */

struct item {
	const struct store_block *b;
	uint32_t source;
};

struct list {
	struct store *s;
	uint32_t source;
	struct item *v;
	size_t n, cap;
	bool parents; /* a source has any */
	struct err *err;
};

/*
 * Whether all of its children are there; of those of level 1, which tell labels without stacks,
 * also all of their windows.
 */
static int has_children(struct list *l, const struct block_ref *p, const struct block_ref **v,
			size_t n, bool *ret)
{
	*ret = n == p->b.n_children;
	for (size_t i = 0; *ret && p->b.level == 2 && i < n; i++) {
		const struct block_ref **below;
		size_t n_below;
		if (store_children(l->s, v[i], &below, &n_below))
			return err_sys(l->err, -ENOMEM, "cannot read %s", l->s->dir);
		*ret = n_below == v[i]->b.n_children;
		free(below);
	}
	return 0;
}

static int add_item(struct list *l, const struct block_ref *r)
{
	if (ARRAY_RESERVE(l->v, l->cap, l->n + 1))
		return err_sys(l->err, -ENOMEM, "cannot read %s", l->s->dir);
	l->v[l->n++] = (struct item){ &r->b, l->source };
	return 0;
}

/* The finest blocks below one that hold all that it does. */
static int walk_down(struct list *l, const struct block_ref *r)
{
	const struct block_ref **v = NULL;
	size_t n = 0;
	bool whole;
	if (!r->b.level)
		return add_item(l, r);
	l->parents = true;
	if (store_children(l->s, r, &v, &n))
		return err_sys(l->err, -ENOMEM, "cannot read %s", l->s->dir);
	int rc = has_children(l, r, v, n, &whole);
	if (!rc && !whole)
		rc = add_item(l, r);
	for (size_t i = 0; !rc && whole && i < n; i++)
		rc = walk_down(l, v[i]);
	free(v);
	return rc;
}

static int on_root(void *ctx, const struct block_ref *r)
{
	return walk_down(ctx, r);
}

static int list_source(struct list *l, struct store *s, uint32_t source)
{
	int rc = 0;
	l->s = s;
	l->source = source;
	for (uint8_t level = 0; !rc && level < N_LEVELS; level++)
		rc = store_roots(s, level, (uint8_t)(level + 1), INT64_MIN, INT64_MAX, on_root, l,
				 l->err);
	return rc;
}

static int compare(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int by_time(const void *pa, const void *pb)
{
	const struct item *a = pa, *b = pb;
	int c = compare(a->b->t0_ns, b->b->t0_ns);
	c = c ? c : compare(a->source, b->source);
	return c ? c : compare(a->b->seq, b->b->seq);
}

/* The order in which one writer wrote, whatever the clock did. */
static int by_writing(const void *pa, const void *pb)
{
	const struct store_block *a = ((const struct item *)pa)->b,
				 *b = ((const struct item *)pb)->b;
	int c = compare(a->anchor, b->anchor);
	c = c ? c : compare(a->boot_ns, b->boot_ns);
	return c ? c : compare(a->seq, b->seq);
}

static int list_blocks(struct copy *c, struct list *l)
{
	int rc = 0;
	l->err = c->err;
	for (uint32_t i = 0; !rc && i < c->n_sources; i++)
		rc = list_source(l, c->sources[i].s, i);
	if (!rc && l->n)
		qsort(l->v, l->n, sizeof(*l->v), c->n_sources > 1 ? by_time : by_writing);
	return rc;
}

/* ---- the meta ---- */

/* Where the loss `deleted` is among names; n: not there. */
static size_t deleted_at(const struct store_meta *m)
{
	size_t i = 0;
	while (i < m->n_lost && strcmp(m->lost_names[i], DELETED_LOSS))
		i++;
	return i;
}

static int create_writer(struct copy *c, const char *dir, const struct store_meta *joined)
{
	struct store_meta m = *joined;
	struct store_options o;
	const char *lost[COUNTERS_MAX];
	char what[1040];
	memcpy(lost, m.lost_names, m.n_lost * sizeof(*lost));
	if (c->del && deleted_at(&m) == m.n_lost) {
		if (m.n_lost == COUNTERS_MAX)
			return err_sys(c->err, -E2BIG, "cannot write %s", dir);
		lost[m.n_lost++] = DELETED_LOSS;
	}
	m.lost_names = lost;
	if (c->del) {
		const struct store_meta *own = store_meta(c->sources[0].s);
		m.host = own->host;
		m.what = own->what;
	} else {
		snprintf(what, sizeof(what), "merged: %s", m.what);
		m.what = what;
	}
	store_options_default(&o);
	o.windows_only = true;
	o.reserve_bytes = 1; /* on a full disk the copy fails: it does not cut itself */
	return store_writer_open_with(&c->w, dir, &m, &o, c->err);
}

static int open_writer(struct copy *c, const char *dir)
{
	const struct store_meta **from = calloc(c->n_sources, sizeof(*from));
	struct meta_map *maps = calloc(c->n_sources, sizeof(*maps));
	struct store_meta joined = { 0 };
	for (size_t i = 0; from && i < c->n_sources; i++)
		from[i] = store_meta(c->sources[i].s);
	int rc = from && maps ? meta_join(&joined, from, c->n_sources, maps) : -ENOMEM;
	for (size_t i = 0; maps && i < c->n_sources; i++)
		c->sources[i].counters = maps[i];
	free(from);
	free(maps);
	rc = rc ? err_sys(c->err, rc, "cannot write %s", dir) : create_writer(c, dir, &joined);
	meta_fini(&joined);
	return rc;
}

/* ---- totals ---- */

/* Rows do not say their CPU: each loses its share. */
static void take_removed(struct store_totals *t, size_t deleted, size_t n_flagged, uint64_t removed)
{
	uint64_t sum = 0, left;
	for (size_t i = 0; i < t->n_cpus; i++)
		sum += t->cpu[i].stored;
	left = removed = removed < sum ? removed : sum;
	for (int pass = 0; left && pass < 2; pass++)
		for (size_t i = 0; i < t->n_cpus; i++) {
			struct store_cpu_totals *cpu = &t->cpu[i];
			uint64_t n =
				pass ? cpu->stored
				     : (uint64_t)((unsigned __int128)removed * cpu->stored / sum);
			n = n < left ? n : left;
			for (size_t k = 0; k < n_flagged;
			     k++) /* a share of what is stored stays one */
				if (cpu->flagged[k] <= cpu->stored &&
				    cpu->flagged[k] > cpu->stored - n)
					cpu->flagged[k] = cpu->stored - n;
			cpu->stored -= n;
			cpu->lost[deleted] += n;
			left -= n;
		}
}

static void map_counters(uint64_t *to, const uint64_t *from, size_t n, const size_t *at)
{
	for (size_t i = 0; i < n; i++)
		to[at[i]] += from[i];
}

/* Counters of a source in the order of the writer: one block of memory, *ret_counters. */
static int map_totals(struct copy *c, const struct copy_source *from, const struct store_totals *t,
		      struct store_totals *ret, uint64_t **ret_counters)
{
	const struct store_meta *m = &c->w->s.header.meta, *old = store_meta(from->s);
	size_t each = m->n_lost + m->n_flagged;
	*ret = *t;
	*ret_counters = calloc(t->n_cpus * each, sizeof(**ret_counters));
	ret->cpu = calloc(t->n_cpus, sizeof(*ret->cpu));
	if (!*ret_counters || !ret->cpu) {
		free(*ret_counters);
		free(ret->cpu);
		return copy_failed(c, -ENOMEM);
	}
	for (size_t i = 0; i < t->n_cpus; i++) {
		struct store_cpu_totals *cpu = &ret->cpu[i];
		*cpu = t->cpu[i];
		cpu->lost = *ret_counters + i * each;
		cpu->flagged = cpu->lost + m->n_lost;
		map_counters(cpu->lost, t->cpu[i].lost, old->n_lost, from->counters.lost_at);
		map_counters(cpu->flagged, t->cpu[i].flagged, old->n_flagged,
			     from->counters.flagged_at);
	}
	return 0;
}

/* ---- windows ---- */

/*
 * The anchors of one store are kept, and with them the age of its windows. Boots of several hosts
 * have no order among each other: there the store's clock is the time of the windows.
 */
static int64_t choose_boot(struct copy *c, const struct copy_source *from,
			   const struct store_block *b, int64_t first_ns)
{
	const struct store_anchor *a = store_anchor(from->s, b->anchor);
	memset(c->w->boot_id, 0, sizeof(c->w->boot_id));
	if (c->n_sources > 1)
		return b->t1_ns - first_ns;
	if (a)
		memcpy(c->w->boot_id, a->boot_id, sizeof(c->w->boot_id));
	return b->boot_ns;
}

static int commit(struct copy *c, struct copy_source *from, const struct store_block *b,
		  int64_t first_ns)
{
	struct store_totals *old, t;
	uint64_t *counters;
	int rc = store_block_totals(from->s, b, &old, c->err);
	if (rc)
		return rc;
	rc = map_totals(c, from, old, &t, &counters);
	store_totals_free(old);
	if (rc)
		return rc;
	const struct store_meta *m = &c->w->s.header.meta;
	if (c->removed)
		take_removed(&t, deleted_at(m), m->n_flagged, c->removed);
	rc = store_commit_window(c->w, b->t0_ns, b->t1_ns, choose_boot(c, from, b, first_ns), &t,
				 c->err);
	free(t.cpu);
	free(counters);
	return rc;
}

/* Between two windows: files of bounded size, names of bounded size. */
static int begin_window(struct copy *c, struct copy_source *from)
{
	int rc = 0;
	if (store_renew(c->w)) {
		store_renew_end(c->w);
		for (size_t i = 0; i < c->n_sources; i++)
			translation_fini(&c->sources[i].to);
	}
	if (dicts_bytes(&from->s->sym) > store_budget(from->s) / 2) {
		translation_fini(&from->to);
		rc = store_forget(from->s, c->err);
	}
	c->removed = 0;
	c->touched = false;
	return rc;
}

static int copy_window(struct copy *c, const struct item *item, int64_t first_ns)
{
	struct copy_source *from = &c->sources[item->source];
	const struct store_block *b = item->b;
	bool in_range = c->del && b->t0_ns < c->del->to_ns && b->t1_ns > c->del->from_ns;
	int rc = begin_window(c, from);
	rc = rc ? rc : copy_rows(c, from, b, in_range);
	rc = rc ? rc : commit(c, from, b, first_ns);
	c->r.windows += !rc;
	c->r.touched += !rc && c->touched;
	return rc;
}

/* In the order of the sources: questions are about the first event where they name none. */
static int name_events(struct copy *c)
{
	int rc = 0;
	for (size_t k = 0; !rc && k < c->n_sources; k++) {
		const struct store *s = c->sources[k].s;
		for (uint32_t i = 0, id; !rc && i < store_n_events(s); i++)
			rc = store_add_event(c->w, store_event(s, i), &id);
	}
	return rc ? err_sys(c->err, rc, "cannot write %s", c->w->s.dir) : 0;
}

static int copy_all(struct copy *c, const char *dir)
{
	struct list l = { 0 };
	int rc = list_blocks(c, &l);
	rc = rc ? rc : open_writer(c, dir);
	rc = rc ? rc : name_events(c);
	for (size_t i = 0; !rc && i < c->n_sources; i++)
		c->sources[i].to = (struct translation){ .from = &c->sources[i].s->sym,
							 .to = &c->w->out[0].d };
	for (size_t i = 0; !rc && i < l.n; i++) {
		rc = c->stop && *c->stop ? err_set(c->err, -EINTR, "interrupted") : 0;
		rc = rc ? rc : copy_window(c, &l.v[i], l.v[0].b->t0_ns);
	}
	if (!rc && l.parents)
		rc = store_compact(c->w, c->err);
	free(l.v);
	return rc;
}

/* ---- sources ---- */

static int open_source(struct copy_source *from, const char *dir, bool add_host, struct err *err)
{
	int rc = store_open(&from->s, dir, err);
	if (rc)
		return rc;
	if (store_lost_windows(from->s))
		return err_set(err, -EBADMSG, "%s; repair the store first", store_damage(from->s));
	const char *host = store_meta(from->s)->host;
	from->add_host = add_host && *host;
	from->host = (struct label){ .key = "host",
				     .key_len = 4,
				     .str = host,
				     .str_len = (uint32_t)strlen(host),
				     .type = LABEL_STRING };
	return 0;
}

static void copy_fini(struct copy *c)
{
	store_writer_close(c->w);
	for (size_t i = 0; i < c->n_sources; i++) {
		translation_fini(&c->sources[i].to);
		free(c->sources[i].key);
		meta_map_fini(&c->sources[i].counters);
		if (c->sources[i].s)
			store_close(c->sources[i].s);
	}
	free(c->sources);
	c->w = NULL;
	c->sources = NULL;
	c->n_sources = 0;
}

static int open_sources(struct copy *c, const char *const *dirs, size_t n)
{
	const size_t share = READERS_MEMORY / n;
	const struct store_limits limits = { .bytes = share > READER_LEAST ? share : READER_LEAST };
	int rc = 0;
	c->sources = calloc(n, sizeof(*c->sources));
	if (!c->sources)
		return err_sys(c->err, -ENOMEM, "cannot open the stores");
	for (size_t i = 0; !rc && i < n; i++) {
		c->n_sources++;
		rc = open_source(&c->sources[i], dirs[i], !c->del, c->err);
		if (!rc)
			store_limit(c->sources[i].s, &limits);
	}
	return rc;
}

int store_merge(const char *const *from, size_t n, const char *to, const volatile bool *stop,
		struct copy_result *ret, struct err *err)
{
	struct copy c = { .stop = stop, .err = err };
	struct staging t;
	if (!n)
		return err_set(err, -EINVAL, "no store to merge");
	int rc = open_sources(&c, from, n);
	if (rc || (rc = staging_begin(&t, to, false, err))) {
		copy_fini(&c);
		return rc;
	}
	rc = copy_all(&c, t.tmp);
	copy_fini(&c);
	rc = rc ? rc : staging_commit(&t, err);
	staging_end(&t);
	if (!rc)
		*ret = c.r;
	return rc;
}

/* ---- whether there is anything to delete ---- */

struct looking {
	const struct store_deletion *del;
	struct store *s;
};

static int look_at_set(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	const struct looking *l = ctx;
	return l->del->matches(l->del->ctx, labels, n, ret);
}

static int look_at_event(void *ctx, const struct store_row *sum)
{
	const struct looking *l = ctx;
	const struct store_event *e = store_event(l->s, sum->event);
	bool match = true;
	int rc = e && l->del->event ? l->del->event(l->del->ctx, e->name, &match) : 0;
	return rc ? rc : match;
}

static int found(void *ctx, const struct store_row *rows, size_t n)
{
	(void)ctx;
	(void)rows;
	return n > 0;
}

/*
 * *ret: no row matches, by the fewest blocks that can tell. Where labels are gone from some, rows
 * are looked at one by one: false.
 */
static int matches_nothing(struct store *s, const struct store_deletion *d, bool *ret,
			   struct err *err)
{
	const struct store_keys keys = { d->keys, d->n_keys };
	struct looking l = { d, s };
	const struct store_reading how = { .keys = d->keys ? &keys : NULL,
					   .filter = look_at_set,
					   .group = look_at_event,
					   .rows = found,
					   .fold_stacks = true,
					   .fold_sets = true,
					   .ctx = &l };
	struct store_cover c;
	enum store_want want = d->keys ? STORE_KEY_SUMS : STORE_ALL_LABELS;
	int rc = store_cover(s, d->from_ns, d->to_ns, want, d->keys, d->n_keys, &c, err);
	if (rc)
		return rc;
	bool blind = c.coarse || c.gone;
	for (size_t i = 0; !rc && !blind && i < c.n; i++)
		rc = store_block_read(s, c.blocks[i], &how, err);
	store_cover_free(&c);
	*ret = !rc && !blind;
	return rc < 0 ? rc : 0;
}

/* Delete with the lock of the store. `d` is what `c` deletes: round its range. */
static int delete_rows(struct copy *c, struct store_deletion *d, const char *dir)
{
	struct staging t;
	bool none = false;
	int rc = open_sources(c, &dir, 1);
	rc = rc ? rc : store_round(c->sources[0].s, &d->from_ns, &d->to_ns, c->err);
	rc = rc ? rc : matches_nothing(c->sources[0].s, d, &none, c->err);
	if (rc || none || (rc = staging_begin(&t, dir, true, c->err)))
		return rc;
	rc = copy_all(c, t.tmp);
	copy_fini(c);
	if (!rc && c->r.touched && d->ready)
		rc = d->ready(d->ctx, dir, t.tmp, c->err);
	if (!rc && c->r.touched)
		rc = staging_swap(&t, c->err);
	staging_end(&t);
	return rc;
}

int store_delete(const char *dir, const struct store_deletion *d, const volatile bool *stop,
		 struct copy_result *ret, struct err *err)
{
	struct store_deletion rounded = *d;
	struct copy c = { .del = &rounded, .stop = stop, .err = err };
	struct store_writer lock = { .lock_fd = -1 };
	store_init(&lock.s);
	int rc = store_open_dir(&lock.s, dir, err);
	/* Where a link leads, not the link, is exchanged and removed. */
	char *real = rc ? NULL : realpath(dir, NULL);
	if (!rc && !real)
		rc = err_sys(err, -errno, "cannot find %s", dir);
	rc = rc ? rc : writer_take_lock(&lock, err);
	rc = rc ? rc : delete_rows(&c, &rounded, real);
	free(real);
	copy_fini(&c);
	store_fini(&lock.s);
	if (lock.lock_fd >= 0)
		close(lock.lock_fd);
	if (!rc)
		*ret = c.r;
	return rc;
}
