/* SPDX-License-Identifier: Apache-2.0 */
/* The hashes of a window's wide labels, kept until its hour is over; then their postings. */
#include "store/read/block_data.h"
#include "store/read/contents.h"
#include "store/read/postings.h"
#include "store/read/symbols.h"
#include "store/write/writer_int.h"
#include "store/writer.h"
#include "util/array.h"
#include "util/crc32c.h"
#include "util/radix.h"

#include <errno.h>
#include <roaring/roaring.h>

#define PER_BUCKET 1024

struct posting {
	uint32_t hash, seq;
};

struct postings {
	struct posting *v;
	size_t n, cap;
};

static int by_number(const void *pa, const void *pb)
{
	uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
	return (a > b) - (a < b);
}

static int hashes_of(const struct settable *t, const struct dicts *d, struct posted *ret)
{
	struct posted p = { .hashes = malloc(t->n_labels * sizeof(*p.hashes)) };
	if (!p.hashes)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_labels; i++) {
		size_t len;
		const char *key = strings_get(&d->label_text, t->labels[i].key, &len);
		p.hashes[i] = postings_hash(key, len, &t->labels[i]);
	}
	qsort(p.hashes, t->n_labels, sizeof(*p.hashes), by_number);
	for (size_t i = 0; i < t->n_labels; i++)
		if (!p.n || p.hashes[p.n - 1] != p.hashes[i])
			p.hashes[p.n++] = p.hashes[i];
	uint32_t *fit = realloc(p.hashes, (p.n + 1) * sizeof(*fit));
	p.hashes = fit ? fit : p.hashes;
	*ret = p;
	return 0;
}

/* A failure is none: the window is read again when its hour is over. */
void postings_note(struct store_writer *w, const struct settable *t, uint32_t seq)
{
	struct posted p;
	if (ARRAY_RESERVE(w->posted, w->posted_cap, w->n_posted + 1) ||
	    hashes_of(t, &w->out[0].d, &p))
		return;
	p.seq = seq;
	w->posted[w->n_posted++] = p;
}

static void forget(struct store_writer *w, uint32_t seq)
{
	size_t keep = 0;
	for (size_t i = 0; i < w->n_posted; i++) {
		if (w->posted[i].seq < seq)
			free(w->posted[i].hashes);
		else
			w->posted[keep++] = w->posted[i];
	}
	w->n_posted = keep;
}

void postings_fini(struct store_writer *w)
{
	forget(w, UINT32_MAX);
	free(w->posted);
}

static int read_window(struct store_writer *w, const struct block_ref *r, struct posted *ret,
		       struct err *err)
{
	struct store *s = &w->s;
	struct block_data d;
	struct settable t = { 0 };
	const struct dicts *dicts;
	int rc = block_read(s, r, WANT_TABLE, &d, err);
	if (rc)
		return rc;
	rc = contents_table(s, r, &d, true, NULL, &t, err);
	if (!rc)
		rc = store_dicts(s, r, SYMBOLS_SETS, &dicts, err);
	if (!rc && hashes_of(&t, dicts, ret))
		rc = err_sys(err, -ENOMEM, "cannot compact %s", s->dir);
	settable_fini(&t);
	block_data_fini(&d);
	return rc;
}

static int collect(struct store_writer *w, const struct block_ref *r, struct postings *p,
		   struct err *err)
{
	struct posted read = { 0 };
	const struct posted *have = NULL;
	for (size_t i = 0; i < w->n_posted && !have; i++)
		have = w->posted[i].seq == r->b.seq ? &w->posted[i] : NULL;
	int rc = have ? 0 : read_window(w, r, &read, err);
	have = have ? have : &read;
	if (!rc && ARRAY_RESERVE(p->v, p->cap, p->n + have->n + 1))
		rc = err_sys(err, -ENOMEM, "cannot compact %s", w->s.dir);
	for (size_t i = 0; !rc && i < have->n; i++)
		p->v[p->n++] = (struct posting){ have->hashes[i], r->b.seq };
	free(read.hashes);
	return rc;
}

/* Windows were collected in order of seq, which stays the order of what has one hash. */
static int sort_postings(struct postings *p)
{
	struct posting *sorted = malloc(p->n * sizeof(*sorted));
	uint32_t *order = malloc(2 * p->n * sizeof(*order)), *keys = order ? order + p->n : order;
	int rc = sorted && order ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < p->n; i++) {
		order[i] = (uint32_t)i;
		keys[i] = p->v[i].hash;
	}
	if (!rc)
		rc = radix_sort(order, p->n, keys);
	for (size_t i = 0; !rc && i < p->n; i++)
		sorted[i] = p->v[order[i]];
	free(order);
	if (rc) {
		free(sorted);
		return rc;
	}
	free(p->v);
	p->v = sorted;
	p->cap = p->n;
	return 0;
}

static int encode_bitmap(struct buf *out, const struct posting *v, size_t n, uint32_t base)
{
	roaring_bitmap_t *r = roaring_bitmap_create();
	if (!r)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		roaring_bitmap_add(r, v[i].seq - base);
	roaring_bitmap_run_optimize(r);
	size_t len = roaring_bitmap_portable_size_in_bytes(r);
	int rc = buf_add_varint(out, len * 2 + 1);
	if (!rc)
		rc = buf_reserve(out, len);
	if (!rc)
		out->len += roaring_bitmap_portable_serialize(r, (char *)out->data + out->len);
	roaring_bitmap_free(r);
	return rc;
}

/* One hash: its windows, each once. */
static int encode_hash(struct buf *out, struct posting *v, size_t n, uint32_t base, uint32_t last)
{
	size_t unique = 1;
	for (size_t i = 1; i < n; i++)
		if (v[i].seq != v[unique - 1].seq)
			v[unique++] = v[i];
	int rc = buf_add_varint(out, v->hash - last);
	if (rc)
		return rc;
	return unique == 1 ? buf_add_varint(out, (uint64_t)(v->seq - base) * 2)
			   : encode_bitmap(out, v, unique, base);
}

static int encode(struct block *b, struct postings *p, uint32_t base)
{
	struct buf *head = &b->column[COLUMN_POST_HEAD], *data = &b->column[COLUMN_POST_DATA];
	uint32_t bits = 0;
	while (bits < POSTINGS_BITS_MAX && p->n >> bits > PER_BUCKET)
		bits++;
	int rc = buf_add_u32(head, bits);
	if (!rc)
		rc = buf_add_u32(head, base);
	size_t i = 0;
	for (uint32_t bucket = 0; !rc && bucket < 1u << bits; bucket++) {
		size_t start = data->len;
		uint32_t last = bits ? bucket << (POSTINGS_HASH_BITS - bits) : 0;
		while (!rc && i < p->n &&
		       (!bits || p->v[i].hash >> (POSTINGS_HASH_BITS - bits) == bucket)) {
			size_t n = 1;
			while (i + n < p->n && p->v[i + n].hash == p->v[i].hash)
				n++;
			rc = encode_hash(data, &p->v[i], n, base, last);
			last = p->v[i].hash;
			i += n;
			b->info.n_folded++;
		}
		if (!rc)
			rc = buf_add_u32(head, (uint32_t)start);
		if (!rc)
			rc = buf_add_u32(head, (uint32_t)(data->len - start));
		if (!rc)
			rc = buf_add_u32(head, crc32c(data->data + start, data->len - start));
	}
	b->has |= 1u << COLUMN_POST_HEAD | 1u << COLUMN_POST_DATA;
	return rc;
}

static void describe(struct store_block *info, const struct block_ref *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct store_block *b = &v[i].b;
		info->t0_ns = i && info->t0_ns < b->t0_ns ? info->t0_ns : b->t0_ns;
		info->t1_ns = i && info->t1_ns > b->t1_ns ? info->t1_ns : b->t1_ns;
		info->child_hi = i && info->child_hi > b->seq ? info->child_hi : b->seq + 1;
		info->child_lo = i && info->child_lo < b->seq ? info->child_lo : b->seq;
		info->boot_ns = b->boot_ns;
		info->anchor = b->anchor;
	}
	info->n_children = info->n_windows = (uint32_t)n;
	info->window_lo = info->child_lo;
	info->window_hi = info->child_hi;
}

static int make_postings(struct store_writer *w, const struct block_ref *v, size_t n,
			 struct err *err)
{
	struct postings p = { 0 };
	struct block b = { .info.level = LEVEL_POSTINGS };
	struct block_ref ref;
	int rc = 0;
	describe(&b.info, v, n);
	for (size_t i = 0; !rc && i < n; i++)
		rc = collect(w, &v[i], &p, err);
	if (!rc && (sort_postings(&p) || encode(&b, &p, b.info.child_lo)))
		rc = err_sys(err, -ENOMEM, "cannot compact %s", w->s.dir);
	if (!rc)
		rc = writer_put_block(w, &b, &ref, err);
	if (!rc)
		forget(w, b.info.child_hi);
	free(p.v);
	block_fini(&b);
	return rc;
}

static int by_slot(const void *pa, const void *pb)
{
	const struct block_ref *a = pa, *b = pb;
	int64_t x = slot_of(LEVEL_POSTINGS, a->b.t0_ns), y = slot_of(LEVEL_POSTINGS, b->b.t0_ns);
	if (x != y)
		return x < y ? -1 : 1;
	return (a->b.seq > b->b.seq) - (a->b.seq < b->b.seq);
}

int postings_due(struct store_writer *w, int64_t before, struct err *err)
{
	struct pending *p = &w->unposted;
	size_t to, keep = 0;
	int rc = 0;
	if (p->n)
		qsort(p->v, p->n, sizeof(*p->v), by_slot);
	for (size_t from = 0; from < p->n; from = to) {
		int64_t slot = slot_of(LEVEL_POSTINGS, p->v[from].b.t0_ns);
		for (to = from; to < p->n && slot_of(LEVEL_POSTINGS, p->v[to].b.t0_ns) == slot;
		     to++)
			;
		bool due = !rc && (slot + 1) * levels[LEVEL_POSTINGS].span_ns <= before;
		if (due)
			rc = make_postings(w, p->v + from, to - from, err);
		if (due && !rc)
			continue;
		memmove(p->v + keep, p->v + from, (to - from) * sizeof(*p->v));
		keep += to - from;
	}
	p->n = keep;
	return rc;
}
