/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/filler.h"

#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES_MAX 4096
#define NAMES_MAX 256 /* counters */
#define TEXT_MAX 65535

/* A stack by its hash; open addressing, id 0 is free. */
struct place {
	uint64_t hash[2];
	uint32_t id;
};

struct names {
	char *v[NAMES_MAX];
	size_t n;
};

struct filler {
	struct store_writer *w;
	const struct fleet_windows *windows;
	uint32_t events[FLEET_EVENTS_MAX];
	struct place *places;
	size_t n_places, cap_places; /* cap: a power of two */
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
	static const char *const lost[] = {
#define LOST(id, help) #id,
#define FLAG(id, help)
#include "counters.def"
#undef LOST
#undef FLAG
	};
	static const char *const flagged[] = {
#define LOST(id, help)
#define FLAG(id, help) #id,
#include "counters.def"
#undef LOST
#undef FLAG
	};
	int rc = 0;
	for (size_t i = 0; !rc && i < sizeof(lost) / sizeof(lost[0]); i++)
		rc = add_name(&f->lost, (const uint8_t *)lost[i], strlen(lost[i]));
	for (size_t i = 0; !rc && i < sizeof(flagged) / sizeof(flagged[0]); i++)
		rc = add_name(&f->flagged, (const uint8_t *)flagged[i], strlen(flagged[i]));
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
	free(f->places);
	free(f);
}

/* ---- stacks ---- */

static struct place *find_place(struct place *v, size_t cap, const uint64_t hash[2])
{
	size_t i = hash[0] & (cap - 1);
	while (v[i].id && (v[i].hash[0] != hash[0] || v[i].hash[1] != hash[1]))
		i = (i + 1) & (cap - 1);
	return &v[i];
}

static int grow_places(struct filler *f)
{
	if (f->n_places < f->cap_places / 2)
		return 0;
	size_t cap = f->cap_places ? 2 * f->cap_places : 1024;
	struct place *v = calloc(cap, sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < f->cap_places; i++)
		if (f->places[i].id)
			*find_place(v, cap, f->places[i].hash) = f->places[i];
	free(f->places);
	f->places = v;
	f->cap_places = cap;
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
	rc = rc ? rc : grow_places(f);
	if (rc || !id)
		return rc;
	struct place *p = find_place(f->places, f->cap_places, hash);
	f->n_places += !p->id;
	*p = (struct place){ { hash[0], hash[1] }, id };
	return 0;
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
		if (f->cap_places)
			*ret = find_place(f->places, f->cap_places, row->stack)->id;
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
