/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several stores, read as one.
 *
 *  1. A block is in one store. What reads it asks that store (store_of), which knows nothing of the
 *     others but its number.
 *  2. Ids of names, events and label sets are those of the union: each segment's are translated by
 *     content into those of the reader in any case (store_names).
 *  3. Each store has its own windows: a range is rounded and covered store by store.
 */
#include "store/read/cover.h"
#include "store/read/store_int.h"
#include "store/read/tracks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOST_KEY "host"

static int open_part(struct store *s, const char *dir, struct err *err)
{
	struct store *part = malloc(sizeof(*part));
	if (!part)
		return err_sys(err, -ENOMEM, "cannot open %s", dir);
	store_init(part);
	part->part = (uint16_t)s->n_parts;
	part->in = s;
	s->parts[s->n_parts++] = part;
	int rc = store_open_dir(part, dir, err);
	return rc ? rc : store_load(part, false, err);
}

/* What is wrong with its parts, as far as there is room. */
static void join_damage(struct store *s)
{
	for (size_t i = 0; i < s->n_parts; i++) {
		const struct store *part = s->parts[i];
		size_t n = strlen(s->damage);
		s->lost_windows |= part->lost_windows;
		if (part->damage[0])
			snprintf(s->damage + n, sizeof(s->damage) - n, "%s%s", n ? "; " : "",
				 part->damage);
	}
}

static int join_meta(struct store *s)
{
	const struct store_meta *from[STORE_UNION_MAX];
	struct meta_map maps[STORE_UNION_MAX] = { 0 };
	for (size_t i = 0; i < s->n_parts; i++) {
		struct store *part = s->parts[i];
		const char *host = part->header.meta.host;
		from[i] = &part->header.meta;
		part->host = (struct label){ .key = HOST_KEY,
					     .key_len = strlen(HOST_KEY),
					     .str = host,
					     .str_len = (uint32_t)strlen(host),
					     .type = LABEL_STRING };
	}
	int rc = meta_join(&s->header.meta, from, s->n_parts, maps);
	for (size_t i = 0; i < s->n_parts; i++)
		s->parts[i]->counters = maps[i];
	return rc;
}

static int join_events(struct store *s)
{
	int rc = dicts_init(&s->sym, true);
	for (size_t i = 0; i < s->n_parts; i++)
		for (uint32_t e = 0; !rc && e < s->parts[i]->sym.n_events; e++) {
			uint32_t id;
			rc = dicts_add_event(&s->sym, &s->parts[i]->sym.events[e], &id);
		}
	return rc;
}

static int open_parts(struct store *s, const char *const *dirs, size_t n, struct err *err)
{
	int rc = 0;
	s->dir = strdup(dirs[0]);
	s->parts = calloc(n, sizeof(*s->parts));
	if (!s->dir || !s->parts || setpool_init(&s->sets))
		return err_sys(err, -ENOMEM, "cannot open %s", dirs[0]);
	for (size_t i = 0; !rc && i < n; i++)
		rc = open_part(s, dirs[i], err);
	if (rc)
		return rc;
	rc = join_meta(s);
	rc = rc ? rc : join_events(s);
	join_damage(s);
	return rc ? err_sys(err, rc, "cannot read %s and the other stores as one", dirs[0]) : 0;
}

int store_open_all(struct store **ret, const char *const *dirs, size_t n, struct err *err)
{
	if (n == 1)
		return store_open(ret, dirs[0], err);
	if (!n || n > STORE_UNION_MAX)
		return err_set(err, -E2BIG, "from 1 to %d stores can be read as one",
			       STORE_UNION_MAX);
	struct store *s = malloc(sizeof(*s));
	if (!s)
		return err_sys(err, -ENOMEM, "cannot open %s", dirs[0]);
	store_init(s);
	int rc = open_parts(s, dirs, n, err);
	if (rc)
		store_close(s);
	else
		*ret = s;
	return rc;
}

size_t store_block_source(const struct store_block *b)
{
	return store_ref(b)->part;
}

/* ---- which blocks hold a range, of one store or of each ---- */

struct question {
	int64_t from_ns, to_ns;
	bool nearest;
	enum store_want want;
	const struct label *values; /* [n_values]; NULL: all rows */
	size_t n_values;
	const char *const *keys;
	size_t n_keys;
};

static int cover_part(struct store *s, const struct question *q, struct store_cover *ret,
		      struct err *err)
{
	int64_t from = q->from_ns, to = q->to_ns;
	int rc = q->nearest ? tracks_round(s, &from, &to, err) : 0;
	if (rc)
		return rc;
	rc = q->values ? cover_value(s, from, to, q->values, q->n_values, q->keys, q->n_keys, ret,
				     err)
		       : cover_rows(s, from, to, q->want, q->keys, q->n_keys, ret, err);
	if (rc || !q->nearest)
		return rc;
	rc = tracks_cut(s, from, to, ret, err);
	if (rc)
		store_cover_free(ret);
	return rc;
}

static int append_cover(struct store_cover *to, struct store_cover *from)
{
	const struct store_block **v = realloc(to->blocks, (to->n + from->n + 1) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	to->blocks = v;
	if (from->n) {
		memcpy(v + to->n, from->blocks, from->n * sizeof(*v));
		to->from_ns = !to->n || from->from_ns < to->from_ns ? from->from_ns : to->from_ns;
		to->to_ns = !to->n || from->to_ns > to->to_ns ? from->to_ns : to->to_ns;
	}
	to->n += from->n;
	to->coarse += from->coarse;
	to->gone += from->gone;
	struct store_part **last = &to->parts;
	while (*last)
		last = &(*last)->next;
	*last = from->parts;
	from->parts = NULL;
	return 0;
}

static int cover_all(struct store *s, const struct question *q, struct store_cover *ret,
		     struct err *err)
{
	struct store_cover all = { 0 };
	int rc = 0;
	if (!s->n_parts)
		return cover_part(s, q, ret, err);
	for (size_t i = 0; !rc && i < s->n_parts; i++) {
		struct store_cover one;
		rc = cover_part(s->parts[i], q, &one, err);
		if (rc)
			break;
		if (append_cover(&all, &one))
			rc = err_sys(err, -ENOMEM, "cannot read %s", s->dir);
		store_cover_free(&one);
	}
	if (rc) {
		store_cover_free(&all);
		return rc;
	}
	if (all.n)
		qsort(all.blocks, all.n, sizeof(*all.blocks), cover_by_time);
	*ret = all;
	return 0;
}

int store_cover_value(struct store *s, int64_t from_ns, int64_t to_ns, bool nearest,
		      const struct label *values, size_t n_values, const char *const *keys,
		      size_t n_keys, struct store_cover *ret, struct err *err)
{
	const struct question q = { from_ns, to_ns,    nearest, STORE_NARROW_KEYS,
				    values,  n_values, keys,	n_keys };
	return cover_all(s, &q, ret, err);
}

int store_cover(struct store *s, int64_t from_ns, int64_t to_ns, enum store_want want,
		const char *const *keys, size_t n_keys, struct store_cover *ret, struct err *err)
{
	const struct question q = { from_ns, to_ns, false, want, NULL, 0, keys, n_keys };
	return cover_all(s, &q, ret, err);
}

int store_cover_nearest(struct store *s, int64_t from_ns, int64_t to_ns, enum store_want want,
			const char *const *keys, size_t n_keys, struct store_cover *ret,
			struct err *err)
{
	const struct question q = { from_ns, to_ns, true, want, NULL, 0, keys, n_keys };
	return cover_all(s, &q, ret, err);
}
