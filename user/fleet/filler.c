/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/filler.h"

#include "store/writer.h"
#include "util/array.h"
#include "util/counters.h"
#include "util/idhash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES_MAX 4096
#define NAMES_MAX 256 /* counters */
#define TEXT_MAX 65535

struct stack {
	uint64_t hash[2];
	uint32_t id; /* in the store */
};

struct names {
	char *v[NAMES_MAX];
	size_t n;
};

struct filler {
	struct store_writer *w;
	const struct fleet_windows *windows;
	uint32_t events[FLEET_EVENTS_MAX];
	struct stack *stacks;
	size_t n_stacks, cap_stacks;
	struct idhash hash; /* of these */
	struct names lost, flagged;
	uint32_t other, unknown; /* stacks; 0: not made yet */
};

/* ---- counters ---- */

static int add_name(struct names *n, const uint8_t *name, size_t len)
{
	for (size_t i = 0; i < n->n; i++)
		if (strlen(n->v[i]) == len && !memcmp(n->v[i], name, len))
			return 0;
	if (n->n == NAMES_MAX || len > 100 || memchr(name, 0, len))
		return 0; /* no counter of ours */
	n->v[n->n] = strndup((const char *)name, len);
	return n->v[n->n++] ? 0 : -ENOMEM;
}

static struct cursor map_at(const struct fleet_windows *w, size_t at)
{
	return (struct cursor){ w->text.data + at, w->text.data + w->text.len, 0 };
}

static int add_names(struct names *n, const struct fleet_windows *w, size_t at)
{
	struct cursor c = map_at(w, at);
	int rc = 0;
	for (uint64_t left = cursor_varint(&c); !rc && left && !c.bad; left--) {
		size_t len = cursor_varint(&c);
		const uint8_t *name = cursor_bytes(&c, len);
		cursor_u64(&c);
		rc = c.bad ? 0 : add_name(n, name, len);
	}
	return rc;
}

static void read_counters(const struct names *n, const struct fleet_windows *w, size_t at,
			  uint64_t *to)
{
	struct cursor c = map_at(w, at);
	for (uint64_t left = cursor_varint(&c); left && !c.bad; left--) {
		size_t len = cursor_varint(&c);
		const uint8_t *name = cursor_bytes(&c, len);
		uint64_t v = cursor_u64(&c);
		for (size_t i = 0; !c.bad && i < n->n; i++)
			if (strlen(n->v[i]) == len && !memcmp(n->v[i], name, len))
				to[i] = v;
	}
}

/* Those of the recorder, in its order; servers know only what was counted. */
static int add_own_names(struct filler *f)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < counters_n_lost; i++)
		rc = add_name(&f->lost, (const uint8_t *)counters_lost_names[i],
			      strlen(counters_lost_names[i]));
	for (size_t i = 0; !rc && i < counters_n_flagged; i++)
		rc = add_name(&f->flagged, (const uint8_t *)counters_flagged_names[i],
			      strlen(counters_flagged_names[i]));
	return rc;
}

/* ---- life ---- */

static int open_writer(struct filler *f, const char *dir, const char *host, struct err *err)
{
	struct store_options o;
	const struct store_meta meta = { .host = host,
					 .os = "",
					 .what = "ClickHouse",
					 .lost_names = (const char *const *)f->lost.v,
					 .n_lost = f->lost.n,
					 .flagged_names = (const char *const *)f->flagged.v,
					 .n_flagged = f->flagged.n };
	store_options_default(&o);
	o.windows_only = true;
	return store_writer_open_with(&f->w, dir, &meta, &o, err);
}

int filler_new(struct filler **ret, const char *dir, const char *host,
	       const struct fleet_windows *windows, const struct fleet_events *events,
	       struct err *err)
{
	struct filler *f = calloc(1, sizeof(*f));
	if (!f)
		return err_sys(err, -ENOMEM, "cannot ask ClickHouse");
	f->windows = windows;
	int rc = add_own_names(f);
	for (size_t i = 0; !rc && i < windows->n; i++) {
		rc = add_names(&f->lost, windows, windows->v[i].lost_at);
		rc = rc ? rc : add_names(&f->flagged, windows, windows->v[i].flagged_at);
	}
	if (rc)
		err_sys(err, rc, "cannot ask ClickHouse");
	rc = rc ? rc : open_writer(f, dir, host, err);
	for (size_t i = 0; !rc && i < events->n; i++) {
		const struct fleet_event *e = &events->v[i];
		rc = store_add_event(
			f->w,
			&(struct store_event){ e->name, e->unit, e->ns_per_sample, e->period },
			&f->events[i]);
		if (rc)
			err_sys(err, rc, "cannot ask ClickHouse");
	}
	if (rc)
		filler_free(f);
	else
		*ret = f;
	return rc;
}

void filler_free(struct filler *f)
{
	if (!f)
		return;
	store_writer_close(f->w);
	for (size_t i = 0; i < f->lost.n; i++)
		free(f->lost.v[i]);
	for (size_t i = 0; i < f->flagged.n; i++)
		free(f->flagged.v[i]);
	free(f->stacks);
	idhash_fini(&f->hash);
	free(f);
}

/* ---- stacks ---- */

static bool same_hash(const void *ctx, uint32_t i, const void *hash)
{
	return !memcmp(((const struct filler *)ctx)->stacks[i].hash, hash, 2 * sizeof(uint64_t));
}

/* The id of the stack; 0: it did not come. */
static uint32_t find_stack(struct filler *f, const uint64_t hash[2])
{
	uint32_t h = idhash_hash(&f->hash, hash, 2 * sizeof(*hash)),
		 i = idhash_find(&f->hash, h, same_hash, f, hash);
	return i == IDHASH_NONE ? 0 : f->stacks[i].id;
}

static int note_stack(struct filler *f, const uint64_t hash[2], uint32_t id)
{
	if (!id || find_stack(f, hash))
		return 0;
	int rc = ARRAY_RESERVE(f->stacks, f->cap_stacks, f->n_stacks + 1);
	rc = rc ? rc : idhash_reserve(&f->hash);
	if (rc)
		return rc;
	idhash_put(&f->hash, idhash_hash(&f->hash, hash, 2 * sizeof(*hash)), (uint32_t)f->n_stacks);
	f->stacks[f->n_stacks++] = (struct stack){ { hash[0], hash[1] }, id };
	return 0;
}

/* An array: where its elements begin, and how many there are. */
struct list {
	struct cursor at;
	uint64_t n;
};

static struct list take_list(struct cursor *c, size_t element)
{
	struct list l = { .n = cursor_varint(c) };
	l.at = *c;
	if (l.n > FRAMES_MAX)
		c->bad = 1;
	for (uint64_t i = 0; i < l.n && !c->bad; i++)
		cursor_bytes(c, element ? element : cursor_varint(c));
	return l;
}

static int next_text(struct filler *f, struct list *l, uint32_t *ret)
{
	size_t len = cursor_varint(&l->at);
	const uint8_t *s = cursor_bytes(&l->at, len);
	*ret = 0;
	return len && s ? store_add_string(f->w, (const char *)s, len < TEXT_MAX ? len : TEXT_MAX,
					   ret)
			: 0;
}

enum { KINDS, FUNCTIONS, MODULES, BUILD_IDS, FILES, LINES, OFFSETS, LISTS };

static int next_frame(struct filler *f, struct list l[LISTS], uint32_t *ret)
{
	uint8_t kind = cursor_u8(&l[KINDS].at);
	struct store_frame frame = { .kind = kind & 15,
				     .flags = kind & 16 ? FRAME_INLINED : 0,
				     .line = cursor_u32(&l[LINES].at),
				     .offset = cursor_u64(&l[OFFSETS].at) };
	int rc = next_text(f, &l[FUNCTIONS], &frame.function);
	rc = rc ? rc : next_text(f, &l[MODULES], &frame.module);
	rc = rc ? rc : next_text(f, &l[BUILD_IDS], &frame.build_id);
	rc = rc ? rc : next_text(f, &l[FILES], &frame.file);
	frame.kind = frame.kind <= FRAME_IDLE ? frame.kind : FRAME_USER;
	return rc ? rc : store_add_frame(f->w, &frame, ret);
}

static int add_stack(struct filler *f, struct cursor *c)
{
	static const uint8_t sizes[LISTS] = { [KINDS] = 1, [LINES] = 4, [OFFSETS] = 8 };
	uint32_t frames[FRAMES_MAX], id = 0;
	struct list l[LISTS];
	uint64_t hash[2] = { cursor_u64(c), 0 };
	hash[1] = cursor_u64(c);
	for (int i = 0; i < LISTS; i++) {
		l[i] = take_list(c, sizes[i]);
		c->bad |= l[i].n != l[0].n;
	}
	if (c->bad)
		return -EPROTO;
	int rc = 0;
	for (uint64_t i = 0; !rc && i < l[0].n; i++)
		rc = next_frame(f, l, &frames[i]);
	for (uint64_t i = l[0].n; !rc && i > 0; i--)
		rc = store_add_stack(f->w, id, frames[i - 1], &id);
	return rc ? rc : note_stack(f, hash, id);
}

int filler_add_stacks(struct filler *f, const struct buf *answer, struct err *err)
{
	struct cursor c = cursor_of(answer);
	int rc = 0;
	while (!rc && c.p < c.end)
		rc = add_stack(f, &c);
	if (rc == -EPROTO)
		return err_set(err, rc, "clickhouse: stacks of another form came");
	return rc ? err_sys(err, rc, "cannot ask ClickHouse") : 0;
}

/* A stack of one frame that says what is not known of others. */
static int make_stack(struct filler *f, const char *name, uint32_t *ret)
{
	struct store_frame frame = { .kind = FRAME_USER };
	uint32_t id;
	int rc = store_add_string(f->w, name, strlen(name), &frame.function);
	rc = rc ? rc : store_add_frame(f->w, &frame, &id);
	return rc ? rc : store_add_stack(f->w, 0, id, ret);
}

static int stack_of(struct filler *f, const struct fleet_row *row, uint32_t *ret)
{
	int rc = 0;
	*ret = 0;
	if (row->other) {
		rc = f->other ? 0 : make_stack(f, "(other)", &f->other);
		*ret = f->other;
	} else if (row->stack[0] || row->stack[1]) {
		*ret = find_stack(f, row->stack);
		rc = *ret || f->unknown ? 0 : make_stack(f, "[unknown stack]", &f->unknown);
		*ret = *ret ? *ret : f->unknown;
	}
	return rc;
}

/* ---- rows ---- */

static bool is_integer(struct cursor integers, const struct label *l)
{
	for (uint64_t n = cursor_varint(&integers); n && !integers.bad; n--) {
		size_t len = cursor_varint(&integers);
		const uint8_t *key = cursor_bytes(&integers, len);
		if (key && len == l->key_len && !memcmp(key, l->key, len))
			return true;
	}
	return false;
}

/* What the rows of a group have as labels. They were skipped once: they are of this form. */
static int add_set(struct filler *f, const struct fleet_rows *r, const struct fleet_row *row,
		   uint32_t *ret)
{
	struct label labels[STORE_SET_MAX];
	struct cursor c = { r->text.data + row->labels_at,
			    r->text.data + row->labels_at + row->labels_len, 0 };
	size_t n = 0;
	for (uint64_t left = cursor_varint(&c); left && !c.bad; left--) {
		struct label l = { .type = LABEL_STRING };
		l.key_len = (uint32_t)cursor_varint(&c);
		l.key = (const char *)cursor_bytes(&c, l.key_len);
		l.str_len = (uint32_t)cursor_varint(&c);
		l.str = (const char *)cursor_bytes(&c, l.str_len);
		if (!c.bad && n < STORE_SET_MAX)
			labels[n++] = l;
	}
	for (size_t i = 0; i < n; i++) {
		int64_t number;
		if (is_integer(c, &labels[i]) &&
		    label_int(labels[i].str, labels[i].str_len, &number))
			labels[i] = (struct label){ .key = labels[i].key,
						    .key_len = labels[i].key_len,
						    .num = number,
						    .type = LABEL_INT };
	}
	n = labels_normalize(labels, n);
	return store_add_set(f->w, labels, n, ret);
}

static bool same_labels(const struct fleet_rows *r, const struct fleet_row *a,
			const struct fleet_row *b)
{
	return a->labels_len == b->labels_len &&
	       !memcmp(r->text.data + a->labels_at, r->text.data + b->labels_at, a->labels_len);
}

static int commit(struct filler *f, const struct fleet_window *w, struct err *err)
{
	uint64_t lost[NAMES_MAX] = { 0 }, flagged[NAMES_MAX] = { 0 };
	struct store_cpu_totals cpu = {
		.fired = w->fired, .stored = w->stored, .lost = lost, .flagged = flagged
	};
	const struct store_totals totals = { .cpu = &cpu,
					     .n_cpus = 1,
					     .outside = w->outside,
					     .own_cpu_ns = w->own_cpu_ns,
					     .own_rss = w->own_rss };
	read_counters(&f->lost, f->windows, w->lost_at, lost);
	read_counters(&f->flagged, f->windows, w->flagged_at, flagged);
	return store_commit_window(f->w, w->t0_ns, w->t1_ns, w->t1_ns, &totals, err);
}

/* The rows of one window, from *io on. */
static int add_rows(struct filler *f, const struct fleet_rows *r, uint32_t bucket, size_t *io)
{
	const struct fleet_row *last = NULL;
	uint32_t set = 0, stack;
	int rc = 0;
	while (*io < r->n && r->v[*io].bucket < bucket)
		(*io)++; /* of a window that ended meanwhile */
	for (; !rc && *io < r->n && r->v[*io].bucket == bucket; (*io)++) {
		const struct fleet_row *row = &r->v[*io];
		if (!last || !same_labels(r, last, row))
			rc = add_set(f, r, row, &set);
		last = row;
		rc = rc ? rc : stack_of(f, row, &stack);
		rc = rc ? rc
			: store_add_row(f->w, set, stack, f->events[row->event], row->samples,
					row->value);
	}
	return rc;
}

int filler_write(struct filler *f, const struct fleet_rows *r, struct err *err)
{
	size_t at = 0;
	int rc = 0;
	for (size_t i = 0; !rc && i < f->windows->n; i++) {
		rc = add_rows(f, r, f->windows->v[i].bucket, &at);
		if (rc)
			return err_sys(err, rc, "cannot ask ClickHouse");
		rc = commit(f, &f->windows->v[i], err);
	}
	return rc;
}
