/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging: a value that a child does not list may have had up to that child's bound there. While
 * lists are merged, `known` is the sum of the bounds of all children so far. A value that comes
 * first with a later child gets it as error at once, and one that a child lacks gets that child's
 * bound. Cutting raises the bound to what the first value cut off may have.
 */
#include "store/block/top.h"

#include "util/array.h"

void top_list_fini(struct top_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free((char *)l->v[i].value.str);
	free(l->v);
	idhash_fini(&l->hash);
}

void top_fini(struct top *t)
{
	for (size_t i = 0; i < t->n; i++)
		top_list_fini(&t->lists[i]);
	free(t->lists);
	memset(t, 0, sizeof(*t));
}

static int find_list(struct top *t, uint32_t key, uint32_t event, struct top_list **ret)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->lists[i].key != key || t->lists[i].event != event)
			continue;
		*ret = &t->lists[i];
		return 0;
	}
	int rc = ARRAY_RESERVE(t->lists, t->cap, t->n + 1);
	if (rc)
		return rc;
	t->lists[t->n] = (struct top_list){ .key = key, .event = event };
	*ret = &t->lists[t->n++];
	return 0;
}

static bool same_value(const void *ctx, uint32_t id, const void *key)
{
	const struct settable_label *a = &((const struct top_list *)ctx)->v[id].value, *b = key;
	if (a->type != b->type)
		return false;
	return a->type == LABEL_INT ? a->num == b->num
				    : a->len == b->len && !memcmp(a->str, b->str, a->len);
}

static uint32_t hash_value(struct top_list *l, const struct settable_label *v)
{
	return v->type == LABEL_INT ? idhash_hash(&l->hash, &v->num, sizeof(v->num))
				    : idhash_hash(&l->hash, v->str, v->len);
}

static int find_value(struct top_list *l, const struct settable_label *v, bool *ret_new,
		      struct top_value **ret)
{
	uint32_t hash = hash_value(l, v), id = idhash_find(&l->hash, hash, same_value, l, v);
	*ret_new = id == IDHASH_NONE;
	if (id != IDHASH_NONE) {
		*ret = &l->v[id];
		return 0;
	}
	int rc = ARRAY_RESERVE(l->v, l->cap, l->n + 1);
	if (!rc)
		rc = idhash_reserve(&l->hash);
	char *text = rc ? NULL : malloc((size_t)v->len + 1);
	if (!text)
		return -ENOMEM;
	memcpy(text, v->str ? v->str : "", v->len);
	text[v->len] = 0;
	l->v[l->n] = (struct top_value){ .value = *v };
	l->v[l->n].value.str = text;
	idhash_put(&l->hash, hash, (uint32_t)l->n);
	*ret = &l->v[l->n++];
	return 0;
}

int top_add(struct top *t, uint32_t key, uint32_t event, const struct settable_label *value,
	    uint64_t samples)
{
	struct top_list *l;
	struct top_value *v;
	bool new;
	int rc = find_list(t, key, event, &l);
	if (!rc)
		rc = find_value(l, value, &new, &v);
	if (rc)
		return rc;
	if (new)
		v->error = l->known;
	v->samples += samples;
	l->total += samples;
	return 0;
}

int top_merge(struct top *t, uint32_t key, uint32_t event, const struct top_list *from)
{
	struct top_list *l;
	int rc = find_list(t, key, event, &l);
	if (rc)
		return rc;
	/* Everything may have had the bound there; what is listed is known better. */
	for (size_t i = 0; i < l->n; i++)
		l->v[i].error += from->bound;
	for (size_t i = 0; !rc && i < from->n; i++) {
		struct top_value *v;
		bool new;
		rc = find_value(l, &from->v[i].value, &new, &v);
		if (rc)
			break;
		if (new)
			v->error = l->known;
		else
			v->error -= from->bound;
		v->samples += from->v[i].samples;
		v->error += from->v[i].error;
	}
	l->known += from->bound;
	l->total += from->total;
	return rc;
}

static int by_samples(const void *pa, const void *pb)
{
	const struct top_value *a = pa, *b = pb;
	if (a->samples != b->samples)
		return a->samples > b->samples ? -1 : 1;
	if (a->value.type != b->value.type)
		return a->value.type < b->value.type ? -1 : 1;
	if (a->value.type == LABEL_INT)
		return a->value.num < b->value.num ? -1 : a->value.num > b->value.num;
	int c = memcmp(a->value.str, b->value.str,
		       a->value.len < b->value.len ? a->value.len : b->value.len);
	return c ? c : (a->value.len > b->value.len) - (a->value.len < b->value.len);
}

void top_cut(struct top *t)
{
	for (size_t k = 0; k < t->n; k++) {
		struct top_list *l = &t->lists[k];
		if (l->n)
			qsort(l->v, l->n, sizeof(*l->v), by_samples);
		l->bound = l->known;
		for (size_t i = TOP_K; i < l->n; i++) {
			uint64_t most = l->v[i].samples + l->v[i].error;
			if (most > l->bound)
				l->bound = most;
			free((char *)l->v[i].value.str);
		}
		if (l->n > TOP_K)
			l->n = TOP_K;
		idhash_clear(&l->hash); /* the order is another one now */
	}
}

int top_encode(struct block *b, const struct top *t)
{
	struct buf *out = &b->column[COLUMN_TOP];
	int rc = buf_add_varint(out, t->n);
	for (size_t k = 0; !rc && k < t->n; k++) {
		const struct top_list *l = &t->lists[k];
		const uint64_t head[] = { l->key, l->event, l->total, l->bound, l->n };
		for (size_t i = 0; i < sizeof(head) / sizeof(head[0]); i++)
			rc |= buf_add_varint(out, head[i]);
		for (size_t i = 0; !rc && i < l->n; i++) {
			rc = value_encode(out, &l->v[i].value);
			rc |= buf_add_varint(out, l->v[i].samples);
			rc |= buf_add_varint(out, l->v[i].error);
		}
	}
	b->has |= 1u << COLUMN_TOP;
	return rc;
}

static int decode_list(struct top *t, struct cursor *c, uint32_t n_keys, uint32_t n_events)
{
	struct top_list *l;
	uint64_t key = cursor_varint(c), event = cursor_varint(c), total = cursor_varint(c);
	uint64_t bound = cursor_varint(c), n = cursor_varint(c);
	if (c->bad || key >= n_keys || event >= n_events || n > TOP_K)
		return -EBADMSG;
	int rc = find_list(t, (uint32_t)key, (uint32_t)event, &l);
	if (rc || l->n)
		return rc ? rc : -EBADMSG;
	l->total = total;
	l->bound = bound;
	for (uint64_t i = 0; !rc && i < n; i++) {
		struct settable_label value;
		struct top_value *v;
		char text[40];
		bool new;
		rc = value_decode(c, &value, text);
		if (!rc)
			rc = find_value(l, &value, &new, &v);
		if (rc)
			return rc;
		v->samples = cursor_varint(c);
		v->error = cursor_varint(c);
		if (!new)
			return -EBADMSG;
	}
	return c->bad ? -EBADMSG : 0;
}

int top_decode(struct top *ret, const struct buf *raw, uint32_t n_keys, uint32_t n_events)
{
	struct cursor c = cursor_of(raw);
	struct top t = { 0 };
	uint64_t n = cursor_varint(&c);
	int rc = c.bad ? -EBADMSG : 0;
	for (uint64_t i = 0; !rc && i < n; i++)
		rc = decode_list(&t, &c, n_keys, n_events);
	if (!rc && cursor_left(&c))
		rc = -EBADMSG;
	if (rc)
		top_fini(&t);
	else
		*ret = t;
	return rc;
}
