/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dictionaries of segments. While a segment is open they are a file beside it, to which every
 * commit appends. When it is sealed they are copied into it, so that it stands by itself.
 *
 * A dictionary is read up to its end or its first bad frame. What stands behind the marks of the
 * blocks was never acknowledged and harms nobody; a block whose mark goes beyond what was intact is
 * refused when it is read.
 */
#include "store/read/store_int.h"

#include "store/file/columns.h"
#include "store/read/same.h"
#include "store/read/symbols.h"

#include <errno.h>
#include <stdlib.h>

#define LIMIT_DEFAULT (48u << 20) /* where nobody has set one */
#define LIMIT_LEAST (16u << 20)

struct loading {
	struct symbols *y;
	unsigned what; /* that was not read before */
	bool events;
	struct buf raw;
};

static bool is_wanted(const struct loading *l, enum kind kind)
{
	return kind == KIND_EVENTS ? l->events
	       : kind == KIND_SETS ? l->what & SYMBOLS_SETS
				   : l->what & SYMBOLS_NAMES;
}

static int on_frame(void *ctx, const struct frame *h, const uint8_t *payload)
{
	struct loading *l = ctx;
	if (h->kind < KIND_STRINGS || h->kind > N_DICTS)
		return -EBADMSG;
	if (!is_wanted(l, h->kind))
		return 0;
	l->raw.len = 0;
	if (h->raw_len > FRAME_RAW_MAX || h->first != dicts_count(&l->y->d, h->kind))
		return -EBADMSG;
	int rc = codec_unpack(&l->raw, h->codec, payload, h->stored_len, h->raw_len);
	return rc ? rc : dicts_decode(&l->y->d, h->kind, l->raw.data, l->raw.len, h->count);
}

int symbols_open(struct store *s, struct segment *g, struct err *err)
{
	struct place p = { KIND_SYMBOLS, g->m.serial, g->m.level };
	return g->names.fd >= 0
		       ? 0
		       : file_open(&g->names, s->dir_fd, s->dir, p, s->header.store_id, false, err);
}

/* Where they are: in the segment itself, or in the file beside it. */
static int find_symbols(struct store *s, struct segment *g, const struct file **ret, uint64_t *from,
			uint64_t *to, struct err *err)
{
	struct err why = { 0 };
	*from = FILE_HEADER_SIZE;
	*to = UINT64_MAX;
	if (g->m.state == SEGMENT_SEALED) {
		int rc = segment_open(s, g, err);
		if (rc == -ENOENT)
			return store_missing(s, g->file.path, err);
		*from = g->m.symbols_at;
		*to = g->m.index_at;
		*ret = &g->file;
		return rc;
	}
	int rc = symbols_open(s, g, &why);
	*ret = rc ? NULL : &g->names;
	if (rc == -ENOENT)
		return store_missing(s, g->names.path, err);
	/* Shorter than its header: no block can need it but a damaged one. */
	return rc && rc != -ENODATA ? err_set(err, rc, "%s", why.text) : 0;
}

int symbols_load(struct store *s, struct segment *g, unsigned what, bool index, struct symbols *y,
		 struct err *err)
{
	const struct file *f = NULL;
	uint64_t from, to, end;
	struct loading l = { y, what & ~y->have, !y->begun, BUF_INIT };
	int rc = find_symbols(s, g, &f, &from, &to, err);
	if (rc)
		return rc;
	rc = y->begun ? 0 : dicts_init(&y->d, index);
	end = from;
	if (!rc && f)
		rc = file_each_frame(f, from, to, on_frame, &l, &end);
	if (!y->begun || end - from < y->good)
		y->good = end - from;
	y->have |= what;
	y->begun = true;
	buf_fini(&l.raw);
	if (s->write)
		file_close(&g->names);
	if (!rc || rc == -EBADMSG)
		return 0;
	return err_sys(err, rc, "cannot read the symbols of %s",
		       g->file.path[0] ? g->file.path : s->dir);
}

static size_t shaped_bytes(const struct shaped *y)
{
	return translation_bytes(&y->to) + shape_bytes(&y->shape) +
	       (y->placed ? y->shape.n * sizeof(*y->placed) : 0);
}

static size_t bytes_of(const struct symbols *y)
{
	return sizeof(*y) + dicts_bytes(&y->d) + shaped_bytes(&y->all) +
	       shaped_bytes(&y->functions) + y->set_keys.n * sizeof(*y->set_keys.v);
}

static void shaped_fini(struct shaped *y)
{
	translation_fini(&y->to);
	shape_fini(&y->shape);
	free(y->placed);
}

void symbols_free(struct segment *g)
{
	struct symbols *y = g->symbols;
	if (!y)
		return;
	dicts_fini(&y->d);
	shaped_fini(&y->all);
	shaped_fini(&y->functions);
	free(y->set_keys.v);
	free(y);
	g->symbols = NULL;
}

size_t symbols_limit(const struct store *s)
{
	size_t most = s->limits.bytes ? s->limits.bytes / 4 * 3 : LIMIT_DEFAULT;
	return s->limits.symbols ? s->limits.symbols : most > LIMIT_LEAST ? most : LIMIT_LEAST;
}

static size_t own_bytes(const struct store *s)
{
	return dicts_bytes(&s->sym) + setpool_bytes(&s->sets);
}

/*
 * Add what the dictionaries of the segments take; find the one that was used longest ago, but for
 * `keep`.
 */
static size_t sum_symbols(const struct store *s, const struct segment *keep,
			  struct segment **oldest)
{
	size_t sum = 0;
	for (size_t i = 0; i < s->n_segments; i++) {
		struct segment *g = &s->segments[i];
		if (!g->symbols)
			continue;
		sum += bytes_of(g->symbols);
		if (g != keep && (!*oldest || g->symbols->used < (*oldest)->symbols->used))
			*oldest = g;
	}
	for (size_t i = 0; i < s->n_parts; i++)
		sum += sum_symbols(s->parts[i], keep, oldest);
	return sum;
}

/*
 * Give up the dictionaries of segments that were used longest ago. Those of segments may take what
 * the reader's own leave of the limit, or half of it where the reader's own are large.
 */
static void make_room(struct store *s, const struct segment *keep)
{
	size_t limit = symbols_limit(s), own = own_bytes(s), half = limit / 2;
	size_t most = limit - (own < half ? own : half);
	for (;;) {
		struct segment *oldest = NULL;
		size_t sum = sum_symbols(s, keep, &oldest);
		if (sum <= most || !oldest)
			return;
		symbols_free(oldest);
	}
}

size_t store_dictionaries(const struct store *s)
{
	struct segment *oldest = NULL;
	return own_bytes(s) + sum_symbols(s, NULL, &oldest);
}

static int need(struct store *s, struct segment *g, unsigned what, struct err *err)
{
	if (!g->symbols && !(g->symbols = calloc(1, sizeof(*g->symbols))))
		return err_sys(err, -ENOMEM, "cannot read %s", s->dir);
	struct symbols *y = g->symbols;
	y->used = ++store_names(s)->n_uses;
	if (y->begun && (y->have & what) == what)
		return 0;
	int rc = symbols_load(s, g, what, false, y, err);
	if (rc)
		symbols_free(g);
	else if (!s->write)
		make_room(store_names(s), g);
	return rc;
}

static int check_mark(struct store *s, const struct segment *g, const struct block_ref *r,
		      struct err *err)
{
	char name[FILE_NAME_SIZE];
	uint64_t good = g->symbols->good;
	if (r->mark <= good)
		return 0;
	bool sealed = g->m.state == SEGMENT_SEALED;
	file_name(name,
		  (struct place){ sealed ? KIND_BLOCKS : KIND_SYMBOLS, g->m.serial, g->m.level });
	return err_set(err, -EBADMSG, "%s/%s is damaged or cut short at offset %llu", s->dir, name,
		       (unsigned long long)(good + (sealed ? g->m.symbols_at : FILE_HEADER_SIZE)));
}

int store_dicts(struct store *s, const struct block_ref *r, unsigned what, const struct dicts **ret,
		struct err *err)
{
	struct segment *g = &s->segments[r->segment];
	if (g->live) {
		*ret = g->live;
		return 0;
	}
	int rc = need(s, g, what, err);
	if (!rc)
		rc = check_mark(s, g, r, err);
	if (!rc)
		*ret = &g->symbols->d;
	return rc;
}

static void translate_to(struct store *s, struct translation *t, const struct dicts *d)
{
	struct store *names = store_names(s);
	bool whole = !names->asked || names->limits.whole_stacks;
	t->from = d;
	t->to = &names->sym;
	t->no_new_events = true;
	t->most_bytes = whole ? 0 : symbols_limit(names) / 2;
	t->cut = &names->cut;
}

void store_begin_question(struct store *s)
{
	s->asked = true;
	s->cut = false;
}

/* Forget which stacks were cut: the next question may give the reader some of them. */
static void forget_cuts(struct store *s)
{
	for (size_t i = 0; i < s->n_segments; i++)
		if (s->segments[i].symbols)
			translation_fini(&s->segments[i].symbols->all.to);
	for (size_t i = 0; i < s->n_parts; i++)
		forget_cuts(s->parts[i]);
}

bool store_end_question(struct store *s)
{
	s->asked = false;
	if (s->cut)
		forget_cuts(s);
	return s->cut;
}

int store_translation(struct store *s, const struct block_ref *r, unsigned what,
		      struct translation **ret, struct err *err)
{
	const struct dicts *d;
	int rc = store_dicts(s, r, what, &d, err);
	if (rc)
		return rc;
	*ret = &s->segments[r->segment].symbols->all.to;
	translate_to(s, *ret, d);
	return 0;
}

/* Ids of nodes that a shape does not have yet: none was placed. */
static int need_shape(struct shaped *y, const struct dicts *d, bool functions)
{
	uint32_t *same = NULL;
	int rc = functions ? same_stacks(d, &same) : 0;
	rc = rc ? rc : shape_init(&y->shape, d, same);
	if (rc)
		return rc;
	y->placed = calloc(y->shape.n, sizeof(*y->placed));
	if (!y->placed)
		shape_fini(&y->shape);
	return y->placed ? 0 : -ENOMEM;
}

int store_shaped(struct store *s, const struct block_ref *r, bool functions, struct shaped **ret,
		 struct err *err)
{
	struct translation *to;
	int rc = store_translation(s, r, SYMBOLS_NAMES, &to, err);
	if (rc)
		return rc;
	struct symbols *y = s->segments[r->segment].symbols;
	*ret = functions ? &y->functions : &y->all;
	translate_to(s, &(*ret)->to, to->from);
	(*ret)->to.no_lines = functions;
	rc = (*ret)->placed ? 0 : need_shape(*ret, to->from, functions);
	return rc ? err_sys(err, rc, "cannot read %s", s->dir) : 0;
}
