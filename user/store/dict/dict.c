/* SPDX-License-Identifier: Apache-2.0 */
#include "store/dict/dict.h"

#include "store/file/columns.h"
#include "store/dict/sets.h"
#include "util/array.h"

#define FRAME_FIELDS 8

/* In the order of the columns; without the padding of the struct, so that it can be hashed. */
static void frame_fields(const struct store_frame *f, uint64_t out[FRAME_FIELDS])
{
	const uint64_t v[FRAME_FIELDS] = { f->kind,	f->flags, f->function, f->module,
					   f->build_id, f->file,  f->line,     f->offset };
	memcpy(out, v, sizeof(v));
}

int dicts_init(struct dicts *d, bool index)
{
	memset(d, 0, sizeof(*d));
	d->index = index;
	int rc = strings_init(&d->strings);
	if (!rc)
		rc = strings_init(&d->label_text);
	if (!rc)
		rc = ARRAY_RESERVE(d->frames, d->frames_cap, 1);
	if (!rc)
		rc = ARRAY_RESERVE(d->stacks, d->stacks_cap, 1);
	if (!rc)
		rc = ARRAY_RESERVE(d->set_end, d->set_end_cap, 1);
	if (!rc)
		rc = ARRAY_RESERVE(d->leaves, d->leaves_cap, 1);
	if (rc)
		return rc;
	d->stacks[0] = (struct stack_node){ 0 };
	d->set_end[0] = 0;
	d->leaves[0] = 0;
	d->n_frames = d->n_stacks = d->n_sets = d->n_leaves = d->idle = 1;
	return 0;
}

static void event_fini(struct store_event *e)
{
	free((char *)e->name);
	free((char *)e->unit);
}

size_t dicts_bytes(const struct dicts *d)
{
	size_t hashes = d->frame_hash.cap * sizeof(*d->frame_hash.slots) +
			d->stack_index.cap * sizeof(*d->stack_index.slots);
	size_t ids = (d->leaves_cap + d->leaf_of_cap) * sizeof(*d->leaves);
	size_t sets = d->labels_cap * sizeof(*d->labels) + d->set_end_cap * sizeof(*d->set_end) +
		      d->set_hash.cap * sizeof(*d->set_hash.slots);
	return strings_bytes(&d->strings) + strings_bytes(&d->label_text) +
	       d->frames_cap * sizeof(*d->frames) + d->stacks_cap * sizeof(*d->stacks) + hashes +
	       ids + sets;
}

void dicts_fini(struct dicts *d)
{
	if (!d)
		return;
	for (uint32_t i = 0; i < d->n_events; i++)
		event_fini(&d->events[i]);
	free(d->events);
	idhash_fini(&d->set_hash);
	free(d->set_end);
	free(d->labels);
	strings_fini(&d->label_text);
	free(d->leaf_of);
	free(d->leaves);
	stack_index_fini(&d->stack_index);
	free(d->stacks);
	idhash_fini(&d->frame_hash);
	free(d->frames);
	strings_fini(&d->strings);
	memset(d, 0, sizeof(*d));
}

/* Room for the leaf of every stack that there is. */
static int leaf_of_reserve(struct dicts *d)
{
	return ARRAY_RESERVE_CLEARED(d->leaf_of, d->leaf_of_cap, d->n_stacks);
}

static int index_leaves(struct dicts *d)
{
	int rc = leaf_of_reserve(d);
	for (uint32_t i = 1; !rc && i < d->n_leaves; i++)
		d->leaf_of[d->leaves[i]] = i;
	return rc;
}

uint32_t dicts_count(const struct dicts *d, enum kind kind)
{
	switch (kind) {
	case KIND_STRINGS:
		return d->strings.n;
	case KIND_FRAMES:
		return d->n_frames;
	case KIND_STACKS:
		return d->n_stacks;
	case KIND_SETS:
		return d->n_sets;
	case KIND_EVENTS:
		return d->n_events;
	case KIND_LEAVES:
		return d->n_leaves;
	default:
		return 0;
	}
}

uint32_t dicts_first(enum kind kind)
{
	return kind == KIND_EVENTS ? 0 : 1;
}

/* ---- frames ---- */

static bool same_frame(const void *ctx, uint32_t id, const void *key)
{
	const struct dicts *d = ctx;
	uint64_t v[FRAME_FIELDS];
	frame_fields(&d->frames[id], v);
	return !memcmp(v, key, sizeof(v));
}

static bool frame_valid(const struct dicts *d, const struct store_frame *f)
{
	uint32_t n = d->strings.n;
	return f->function < n && f->module < n && f->build_id < n && f->file < n &&
	       f->kind <= UINT8_MAX;
}

static int frame_reserve(struct dicts *d)
{
	if (d->n_frames >= IDS_MAX)
		return -E2BIG;
	int rc = ARRAY_RESERVE(d->frames, d->frames_cap, (size_t)d->n_frames + 1);
	return rc || !d->index ? rc : idhash_reserve(&d->frame_hash);
}

int dicts_add_frame(struct dicts *d, const struct store_frame *f, uint32_t *ret_id)
{
	if (!frame_valid(d, f))
		return -EINVAL;
	uint64_t v[FRAME_FIELDS];
	frame_fields(f, v);
	uint32_t hash = idhash_hash(&d->frame_hash, v, sizeof(v));
	uint32_t id = idhash_find(&d->frame_hash, hash, same_frame, d, v);
	if (id == IDHASH_NONE) {
		int rc = frame_reserve(d);
		if (rc)
			return rc;
		id = d->n_frames++;
		d->frames[id] = *f;
		idhash_put(&d->frame_hash, hash, id);
	}
	*ret_id = id;
	return 0;
}

uint32_t dicts_find_frame(const struct dicts *d, const struct store_frame *f)
{
	struct idhash seeded = d->frame_hash;
	uint64_t v[FRAME_FIELDS];
	frame_fields(f, v);
	uint32_t id = d->frame_hash.cap
			      ? idhash_find(&d->frame_hash, idhash_hash(&seeded, v, sizeof(v)),
					    same_frame, d, v)
			      : IDHASH_NONE;
	return id == IDHASH_NONE ? 0 : id;
}

/* Each column holds the difference to the frame before, in the same batch. */
static int frames_encode(const struct dicts *d, uint32_t from, struct buf *columns,
			 uint32_t *ret_next)
{
	uint64_t last[FRAME_FIELDS] = { 0 }, v[FRAME_FIELDS];
	uint32_t id = from;
	for (; id < d->n_frames && id - from < BATCH_IDS; id++) {
		frame_fields(&d->frames[id], v);
		for (size_t i = 0; i < FRAME_FIELDS; i++) {
			int rc = buf_add_varint(&columns[i], zigzag(v[i] - last[i]));
			if (rc)
				return rc;
		}
		memcpy(last, v, sizeof(v));
	}
	*ret_next = id;
	return 0;
}

static int frames_decode(struct dicts *d, struct cursor *c, uint32_t n)
{
	uint64_t v[FRAME_FIELDS] = { 0 };
	for (uint32_t k = 0; k < n; k++) {
		int bad = 0;
		for (size_t i = 0; i < FRAME_FIELDS; i++) {
			v[i] += unzigzag(cursor_varint(&c[i]));
			bad |= c[i].bad || (i < FRAME_FIELDS - 1 && v[i] > UINT32_MAX);
		}
		struct store_frame f = { (uint32_t)v[0], (uint32_t)v[1],
					 (uint32_t)v[2], (uint32_t)v[3],
					 (uint32_t)v[4], (uint32_t)v[5],
					 (uint32_t)v[6], v[7] };
		if (bad || !frame_valid(d, &f))
			return -EBADMSG;
		int rc = frame_reserve(d);
		if (rc)
			return rc;
		if (d->index)
			idhash_put(&d->frame_hash, idhash_hash(&d->frame_hash, v, sizeof(v)),
				   d->n_frames);
		d->frames[d->n_frames++] = f;
	}
	return 0;
}

bool store_same_function(const struct store_frame *a, const struct store_frame *b)
{
	return a->kind == b->kind && a->flags == b->flags && a->function == b->function &&
	       a->module == b->module && a->build_id == b->build_id &&
	       (a->function || a->offset == b->offset);
}

struct store_function_key store_function_key(const struct store_frame *f)
{
	return (struct store_function_key){ { (uint64_t)f->kind << 32 | f->flags,
					      (uint64_t)f->function << 32 | f->module, f->build_id,
					      f->function ? 0 : f->offset } };
}

/* ---- stacks ---- */

static int stack_reserve(struct dicts *d)
{
	if (d->n_stacks >= IDS_MAX)
		return -E2BIG;
	int rc = ARRAY_RESERVE(d->stacks, d->stacks_cap, (size_t)d->n_stacks + 1);
	return rc || !d->index ? rc : stack_index_reserve(&d->stack_index, d->stacks);
}

int dicts_add_stack(struct dicts *d, uint32_t parent, uint32_t frame, uint32_t *ret_id)
{
	if (parent >= d->n_stacks || !frame || frame >= d->n_frames)
		return -EINVAL;
	struct stack_node node = { parent, frame };
	uint32_t id = stack_index_find(&d->stack_index, d->stacks, node);
	if (!id) {
		int rc = stack_reserve(d);
		if (rc)
			return rc;
		id = d->n_stacks++;
		d->stacks[id] = node;
		stack_index_put(&d->stack_index, d->stacks, id);
	}
	*ret_id = id;
	return 0;
}

uint32_t dicts_find_stack(const struct dicts *d, uint32_t parent, uint32_t frame)
{
	return stack_index_find(&d->stack_index, d->stacks, (struct stack_node){ parent, frame });
}

/* Columns: distance to the parent; frame, as the difference to the one before. */
static int stacks_encode(const struct dicts *d, uint32_t from, struct buf *columns,
			 uint32_t *ret_next)
{
	uint32_t id = from;
	uint64_t last = 0;
	for (; id < d->n_stacks && id - from < BATCH_IDS; id++) {
		int rc = buf_add_varint(&columns[0], id - d->stacks[id].parent);
		rc |= buf_add_varint(&columns[1], zigzag(d->stacks[id].frame - last));
		if (rc)
			return rc;
		last = d->stacks[id].frame;
	}
	*ret_next = id;
	return 0;
}

static int stacks_decode(struct dicts *d, struct cursor *c, uint32_t n)
{
	uint64_t frame = 0;
	if (n > cursor_left(&c[0]))
		return -EBADMSG;
	if (n > IDS_MAX - d->n_stacks)
		return -E2BIG;
	if (ARRAY_RESERVE(d->stacks, d->stacks_cap, (size_t)d->n_stacks + n))
		return -ENOMEM;
	for (uint32_t k = 0; k < n; k++) {
		uint64_t back = cursor_varint(&c[0]);
		frame += unzigzag(cursor_varint(&c[1]));
		if (c[0].bad || c[1].bad || !back || back > d->n_stacks || !frame ||
		    frame >= d->n_frames)
			return -EBADMSG;
		struct stack_node node = { d->n_stacks - (uint32_t)back, (uint32_t)frame };
		int rc = d->index ? stack_index_reserve(&d->stack_index, d->stacks) : 0;
		if (rc)
			return rc;
		d->stacks[d->n_stacks] = node;
		if (d->index)
			stack_index_put(&d->stack_index, d->stacks, d->n_stacks);
		d->n_stacks++;
	}
	return 0;
}

/* ---- leaves ---- */

bool dicts_is_idle(const struct dicts *d, uint32_t stack)
{
	const struct stack_node *n = &d->stacks[stack];
	return stack && !n->parent && d->frames[n->frame].kind == FRAME_IDLE;
}

static void append_leaf(struct dicts *d, uint32_t stack)
{
	if (d->index && dicts_is_idle(d, stack))
		d->idle = d->idle == 1 ? d->n_leaves + 1 : 0;
	d->leaves[d->n_leaves++] = stack;
}

int dicts_add_leaf(struct dicts *d, uint32_t stack, uint32_t *ret_id)
{
	int rc = leaf_of_reserve(d);
	if (!rc && stack && !d->leaf_of[stack]) {
		rc = ARRAY_RESERVE(d->leaves, d->leaves_cap, (size_t)d->n_leaves + 1);
		if (!rc) {
			d->leaf_of[stack] = d->n_leaves;
			append_leaf(d, stack);
		}
	}
	if (!rc)
		*ret_id = stack ? d->leaf_of[stack] : 0;
	return rc;
}

/* One column: the difference to the stack before. */
static int leaves_encode(const struct dicts *d, uint32_t from, struct buf *column,
			 uint32_t *ret_next)
{
	uint32_t id = from;
	uint64_t last = 0;
	for (; id < d->n_leaves && id - from < BATCH_IDS; id++) {
		int rc = buf_add_varint(column, zigzag(d->leaves[id] - last));
		if (rc)
			return rc;
		last = d->leaves[id];
	}
	*ret_next = id;
	return 0;
}

static int leaves_decode(struct dicts *d, struct cursor *c, uint32_t n)
{
	uint64_t stack = 0;
	int rc = 0;
	for (uint32_t k = 0; !rc && k < n; k++) {
		stack += unzigzag(cursor_varint(c));
		if (c->bad || !stack || stack >= d->n_stacks || d->n_leaves >= IDS_MAX)
			return -EBADMSG;
		rc = ARRAY_RESERVE(d->leaves, d->leaves_cap, (size_t)d->n_leaves + 1);
		if (!rc)
			append_leaf(d, (uint32_t)stack);
	}
	return rc || !d->index ? rc : index_leaves(d);
}

/* ---- events ---- */

static int event_append(struct dicts *d, const char *name, size_t name_len, const char *unit,
			size_t unit_len, uint64_t ns_per_sample, uint64_t period)
{
	if (d->n_events >= EVENTS_MAX)
		return -E2BIG;
	int rc = ARRAY_RESERVE(d->events, d->events_cap, (size_t)d->n_events + 1);
	if (rc)
		return rc;
	struct store_event e = { strndup(name, name_len), strndup(unit, unit_len), ns_per_sample,
				 period };
	if (!e.name || !e.unit) {
		event_fini(&e);
		return -ENOMEM;
	}
	d->events[d->n_events++] = e;
	return 0;
}

bool dicts_find_event(const struct dicts *d, const struct store_event *e, uint32_t *ret_id)
{
	for (uint32_t i = 0; i < d->n_events; i++) {
		const struct store_event *o = &d->events[i];
		if (o->ns_per_sample == e->ns_per_sample && o->period == e->period &&
		    !strcmp(o->name, e->name) && !strcmp(o->unit, e->unit)) {
			*ret_id = i;
			return true;
		}
	}
	return false;
}

int dicts_add_event(struct dicts *d, const struct store_event *e, uint32_t *ret_id)
{
	size_t name_len = strlen(e->name), unit_len = strlen(e->unit);
	if (name_len > STRING_MAX || unit_len > STRING_MAX)
		return -E2BIG;
	if (dicts_find_event(d, e, ret_id))
		return 0;
	int rc = event_append(d, e->name, name_len, e->unit, unit_len, e->ns_per_sample, e->period);
	if (!rc)
		*ret_id = d->n_events - 1;
	return rc;
}

static int add_text(struct buf *b, const char *s)
{
	int rc = buf_add_varint(b, strlen(s));
	return rc | buf_add(b, s, strlen(s));
}

static int events_encode(const struct dicts *d, uint32_t from, struct buf *out, uint32_t *ret_next)
{
	for (uint32_t id = from; id < d->n_events; id++) {
		const struct store_event *e = &d->events[id];
		int rc = add_text(out, e->name);
		rc |= add_text(out, e->unit);
		rc |= buf_add_varint(out, e->ns_per_sample);
		rc |= buf_add_varint(out, e->period);
		if (rc)
			return rc;
	}
	*ret_next = d->n_events;
	return 0;
}

static int events_decode(struct dicts *d, struct cursor *c, uint32_t n)
{
	for (uint32_t k = 0; k < n; k++) {
		size_t name_len = cursor_varint(c);
		const char *name = (const char *)cursor_bytes(c, name_len);
		size_t unit_len = cursor_varint(c);
		const char *unit = (const char *)cursor_bytes(c, unit_len);
		uint64_t ns = cursor_varint(c), period = cursor_varint(c);
		if (c->bad || name_len > STRING_MAX || unit_len > STRING_MAX)
			return -EBADMSG;
		int rc = event_append(d, name, name_len, unit, unit_len, ns, period);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- batches ---- */

#define COLUMNS_MAX 9
_Static_assert(SET_COLUMNS <= COLUMNS_MAX && FRAME_FIELDS <= COLUMNS_MAX &&
		       STRINGS_COLUMNS <= COLUMNS_MAX,
	       "columns");

static const uint8_t n_columns[N_DICTS + 1] = {
	[KIND_STRINGS] = STRINGS_COLUMNS,
	[KIND_FRAMES] = FRAME_FIELDS,
	[KIND_STACKS] = 2,
	[KIND_SETS] = SET_COLUMNS,
	[KIND_EVENTS] = 1,
	[KIND_LEAVES] = 1,
};

int dicts_encode(const struct dicts *d, enum kind kind, const struct dict_mark *mark,
		 struct buf *out, struct dict_mark *ret_next)
{
	struct buf columns[COLUMNS_MAX] = { BUF_INIT };
	struct dict_mark next = { 0 };
	int rc = -EINVAL;
	switch (kind) {
	case KIND_STRINGS:
		rc = strings_encode(&d->strings, mark->next, d->strings.n, columns, &next.next);
		break;
	case KIND_FRAMES:
		rc = frames_encode(d, mark->next, columns, &next.next);
		break;
	case KIND_STACKS:
		rc = stacks_encode(d, mark->next, columns, &next.next);
		break;
	case KIND_SETS:
		rc = sets_encode(d, mark, columns, &next);
		break;
	case KIND_EVENTS:
		rc = events_encode(d, mark->next, columns, &next.next);
		break;
	case KIND_LEAVES:
		rc = leaves_encode(d, mark->next, columns, &next.next);
		break;
	default:
		break;
	}
	if (!rc)
		rc = columns_join(out, columns, n_columns[kind]);
	for (size_t i = 0; i < COLUMNS_MAX; i++)
		buf_fini(&columns[i]);
	if (!rc)
		*ret_next = next;
	return rc;
}

int dicts_decode(struct dicts *d, enum kind kind, const uint8_t *data, size_t len, uint32_t n)
{
	struct cursor c[COLUMNS_MAX];
	int rc = columns_split(data, len, c, n_columns[kind]);
	if (rc)
		return rc;
	switch (kind) {
	case KIND_STRINGS:
		rc = strings_decode(&d->strings, c, n, d->index);
		break;
	case KIND_FRAMES:
		rc = frames_decode(d, c, n);
		break;
	case KIND_STACKS:
		rc = stacks_decode(d, c, n);
		break;
	case KIND_SETS:
		rc = sets_decode(d, c, n);
		break;
	case KIND_EVENTS:
		rc = events_decode(d, c, n);
		break;
	case KIND_LEAVES:
		rc = leaves_decode(d, c, n);
		break;
	default:
		return -EINVAL;
	}
	for (size_t i = 0; !rc && i < n_columns[kind]; i++)
		rc = cursor_left(&c[i]) ? -EBADMSG : 0;
	return rc;
}
