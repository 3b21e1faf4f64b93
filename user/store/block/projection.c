/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list: varint, how many values. Per value: the value (settable.h); varint, how many events. Per
 * event: varint, event * 4 + 2 where CPUs are idle + 1 where values are not samples times period;
 * varint samples; with 1 varint value. Then where its groups are: varint offset, varint stored
 * length, varint length, codec (1), CRC (4).
 *
 * The groups of a value, per event of the list: varint, how many; three varints, the bytes of what
 * follows. That is zigzag differences of the leaves; samples less 1; values, with 1 alone.
 */
#include "store/block/projection.h"

#include "store/file/columns.h"
#include "util/array.h"
#include "util/crc32c.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int cell_add(struct cell *c, uint32_t leaf, uint64_t samples, uint64_t value)
{
	int rc = buf_add_varint(&c->groups, zigzag((uint64_t)leaf - c->last));
	rc |= buf_add_varint(&c->groups, samples - 1);
	/* 0 but where the value is explicit */
	rc |= buf_add_varint(&c->groups, zigzag(value - samples * c->period));
	c->last = leaf;
	c->n++;
	c->samples += samples;
	c->value += value;
	c->explicit |= value != samples * c->period;
	return rc;
}

void cell_fini(struct cell *c)
{
	buf_fini(&c->groups);
}

int value_compare(const struct settable_label *a, const struct settable_label *b)
{
	if (a->type != b->type)
		return a->type < b->type ? -1 : 1;
	if (a->type == LABEL_INT)
		return (a->num > b->num) - (a->num < b->num);
	int c = memcmp(a->str, b->str, a->len < b->len ? a->len : b->len);
	return c ? c : (a->len > b->len) - (a->len < b->len);
}

/* ---- writing ---- */

struct shared_groups {
	uint32_t at, stored_len, raw_len, crc;
	uint8_t codec;
};

static int encode_cell(struct buf *out, const struct cell *c)
{
	struct buf column[3] = { BUF_INIT, BUF_INIT, BUF_INIT };
	struct cursor in = cursor_of(&c->groups);
	int rc = 0;
	while (!rc && cursor_left(&in)) {
		uint64_t leaf = cursor_varint(&in), count = cursor_varint(&in),
			 value = unzigzag(cursor_varint(&in)) + (count + 1) * c->period;
		rc = buf_add_varint(&column[0], leaf);
		rc |= buf_add_varint(&column[1], count);
		if (c->explicit)
			rc |= buf_add_varint(&column[2], value);
	}
	rc |= buf_add_varint(out, c->n);
	for (size_t i = 0; i < 3; i++)
		rc |= buf_add_varint(out, column[i].len);
	for (size_t i = 0; i < 3; i++) {
		rc |= buf_add(out, column[i].data, column[i].len);
		buf_fini(&column[i]);
	}
	return rc;
}

static int encode_cells(struct buf *out, const struct cell *cells, size_t n)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++)
		rc = encode_cell(out, &cells[i]);
	return rc;
}

struct stored {
	const struct projections *p;
	const uint8_t *data;
	uint32_t len;
	uint8_t codec;
};

static bool same_groups(const void *ctx, uint32_t id, const void *key)
{
	const struct stored *s = key;
	const struct shared_groups *g = &((const struct projections *)ctx)->shared[id];
	return g->stored_len == s->len && g->codec == s->codec &&
	       !memcmp(s->p->groups->data + g->at, s->data, s->len);
}

/* What was packed behind the column's old end is kept, unless the same stands there already. */
static int share(struct projections *p, size_t before, size_t raw_len, uint8_t codec,
		 struct shared_groups *ret)
{
	const struct stored s = { p, p->groups->data + before, (uint32_t)(p->groups->len - before),
				  codec };
	uint32_t hash = idhash_hash(&p->by_content, s.data, s.len);
	uint32_t id = idhash_find(&p->by_content, hash, same_groups, p, &s);
	if (id != IDHASH_NONE) {
		p->groups->len = before;
		*ret = p->shared[id];
		return 0;
	}
	int rc = idhash_reserve(&p->by_content);
	if (!rc)
		rc = ARRAY_RESERVE(p->shared, p->shared_cap, p->n_shared + 1);
	if (rc)
		return rc;
	*ret = (struct shared_groups){ (uint32_t)before, s.len, (uint32_t)raw_len,
				       crc32c(s.data, s.len), codec };
	p->shared[p->n_shared] = *ret;
	idhash_put(&p->by_content, hash, (uint32_t)p->n_shared++);
	return 0;
}

static int put_groups(struct projections *p, const struct cell *cells, size_t n,
		      struct shared_groups *ret)
{
	struct buf raw = BUF_INIT;
	size_t before = p->groups->len;
	uint8_t codec;
	int rc = encode_cells(&raw, cells, n);
	if (!rc)
		rc = codec_pack_piece(p->groups, raw.data, raw.len, &codec);
	if (!rc && p->groups->len > FRAME_STORED_MAX / 2)
		rc = -E2BIG;
	if (!rc)
		rc = share(p, before, raw.len, codec, ret);
	if (rc)
		p->groups->len = before;
	buf_fini(&raw);
	return rc;
}

static int put_sum(struct buf *out, const struct cell *c)
{
	int rc = buf_add_varint(out, (uint64_t)c->event * 4 + c->idle * 2u + c->explicit);
	rc |= buf_add_varint(out, c->samples);
	return c->explicit ? rc | buf_add_varint(out, c->value) : rc;
}

int projections_add(struct projections *p, const struct settable_label *value,
		    const struct cell *cells, size_t n)
{
	struct shared_groups g;
	int rc = put_groups(p, cells, n, &g);
	if (!rc)
		rc = value_encode(&p->list, value);
	if (!rc)
		rc = buf_add_varint(&p->list, n);
	for (size_t i = 0; !rc && i < n; i++)
		rc = put_sum(&p->list, &cells[i]);
	const uint64_t where[] = { g.at, g.stored_len, g.raw_len };
	for (size_t i = 0; !rc && i < 3; i++)
		rc = buf_add_varint(&p->list, where[i]);
	rc |= buf_add_u8(&p->list, g.codec);
	rc |= buf_add_u32(&p->list, g.crc);
	p->n_values++;
	return rc;
}

int projections_end_key(struct projections *p, struct block_key *k)
{
	struct buf raw = BUF_INIT;
	size_t before = p->lists->len;
	int rc = buf_add_varint(&raw, p->n_values);
	if (!rc)
		rc = buf_add(&raw, p->list.data, p->list.len);
	if (!rc)
		rc = codec_pack(p->lists, raw.data, raw.len, &k->codec);
	if (!rc && p->lists->len > FRAME_STORED_MAX / 2)
		rc = -E2BIG;
	if (!rc) {
		k->at = (uint32_t)before;
		k->stored_len = (uint32_t)(p->lists->len - before);
		k->raw_len = (uint32_t)raw.len;
		k->crc = crc32c(p->lists->data + before, k->stored_len);
		k->state |= KEY_PROJECTED;
	}
	p->list.len = 0;
	p->n_values = 0;
	buf_fini(&raw);
	return rc;
}

void projections_fini(struct projections *p)
{
	buf_fini(&p->list);
	free(p->shared);
	idhash_fini(&p->by_content);
	*p = (struct projections){ 0 };
}

/* ---- reading ---- */

int value_list_begin(struct value_list *l, const struct buf *raw, uint32_t n_events,
		     const struct store_event *events)
{
	*l = (struct value_list){ .c = cursor_of(raw), .n_events = n_events, .events = events };
	l->left = cursor_varint(&l->c);
	return l->c.bad || l->left > PROJECTED_MAX ? -EBADMSG : 0;
}

static int read_sum(struct value_list *l)
{
	uint64_t what = cursor_varint(&l->c);
	if (what >> 2 >= l->n_events || ARRAY_RESERVE(l->sums, l->sums_cap, l->n_sums + 1))
		return what >> 2 >= l->n_events ? -EBADMSG : -ENOMEM;
	struct value_sum *s = &l->sums[l->n_sums++];
	*s = (struct value_sum){ (uint32_t)(what >> 2), what & 2, what & 1, cursor_varint(&l->c),
				 0 };
	s->value = s->explicit ? cursor_varint(&l->c) : s->samples * l->events[s->event].period;
	return l->c.bad ? -EBADMSG : 0;
}

int value_list_next(struct value_list *l)
{
	struct cursor *c = &l->c;
	if (!l->left)
		return c->bad || cursor_left(c) ? -EBADMSG : 0;
	l->left--;
	l->n_sums = 0;
	int rc = value_decode(c, &l->value, l->text);
	uint64_t n = cursor_varint(c);
	for (uint64_t i = 0; !rc && i < n; i++)
		rc = read_sum(l);
	if (rc)
		return rc;
	l->at = cursor_varint32(c);
	l->stored_len = cursor_varint32(c);
	l->raw_len = cursor_varint32(c);
	l->codec = cursor_u8(c);
	l->crc = cursor_u32(c);
	return c->bad ? -EBADMSG : 1;
}

void value_list_fini(struct value_list *l)
{
	free(l->sums);
	*l = (struct value_list){ 0 };
}

void groups_begin(struct groups_reader *r, const struct value_list *of, const struct buf *raw,
		  uint32_t n_leaves)
{
	*r = (struct groups_reader){ .of = of, .c = cursor_of(raw), .n_leaves = n_leaves };
}

static int next_cell(struct groups_reader *r)
{
	r->left = cursor_varint(&r->c);
	uint64_t leaves = cursor_varint(&r->c), counts = cursor_varint(&r->c),
		 values = cursor_varint(&r->c);
	r->leaves = cursor_part(&r->c, leaves);
	r->counts = cursor_part(&r->c, counts);
	r->values = cursor_part(&r->c, values);
	r->leaf = 0;
	r->row.event = r->of->sums[r->cell].event;
	r->idle = r->of->sums[r->cell].idle;
	r->cell++;
	return r->c.bad ? -EBADMSG : 0;
}

int groups_next(struct groups_reader *r)
{
	while (!r->left) {
		if (r->leaves.p != r->leaves.end || r->counts.p != r->counts.end ||
		    r->values.p != r->values.end)
			return -EBADMSG;
		if (r->cell == r->of->n_sums)
			return cursor_left(&r->c) ? -EBADMSG : 0;
		if (next_cell(r))
			return -EBADMSG;
	}
	const struct value_sum *sum = &r->of->sums[r->cell - 1];
	r->left--;
	r->leaf += unzigzag(cursor_varint(&r->leaves));
	r->row.samples = cursor_varint(&r->counts) + 1;
	r->row.value = sum->explicit ? cursor_varint(&r->values)
				     : r->row.samples * r->of->events[sum->event].period;
	r->row.stack = (uint32_t)r->leaf;
	return r->leaves.bad || r->counts.bad || r->values.bad || r->leaf >= r->n_leaves ||
			       !r->row.samples
		       ? -EBADMSG
		       : 1;
}
