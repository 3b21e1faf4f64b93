/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: the columns of blocks and the frames of dictionaries, as bytes. The first byte says
 * which kind. What is decoded is encoded again, and says the same then.
 *
 * Covers: store/block/*.c store/dict/*.c store/file/columns.c store/file/bits.c
 */
#include "fuzz/input.h"

#include "store/block/keys.h"
#include "store/block/projection.h"
#include "store/block/rows.h"
#include "store/block/settable.h"
#include "store/block/top.h"
#include "store/block/totals.h"
#include "store/dict/dict.h"
#include "store/file/columns.h"

#define EVENTS 3
#define TABLE (COLUMN_TABLE_BIN - COLUMN_TABLE_NARROW + 1)
#define ROWS (COLUMN_SET_VALUE - COLUMN_LEAF + 1)

static const struct store_event events[EVENTS] = {
	{ "cpu-clock", "nanoseconds", 10101010, 10101010 },
	{ "page-faults", "count", 0, 1 },
	{ "task-clock", "nanoseconds", 1000000, 0 },
};

static void take_buf(struct input *in, struct buf *ret)
{
	size_t n;
	uint8_t *p = take_piece(in, &n);
	well(buf_add(ret, p, n));
	free(p);
}

static void free_bufs(struct buf *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_fini(&v[i]);
}

/* ---- bytes ---- */

static void unpack(struct input *in)
{
	const uint8_t codec = take_byte(in);
	uint16_t raw_len;
	struct buf b = BUF_INIT, out = BUF_INIT;
	take_bytes(in, &raw_len, sizeof(raw_len));
	take_buf(in, &b);
	if (!codec_unpack(&out, codec, cursor_of(&b).p, b.len, raw_len))
		require(out.len == raw_len);
	buf_fini(&b);
	buf_fini(&out);
}

/* The bytes of the input, many times. */
static void pack(struct input *in)
{
	const unsigned how = take_byte(in), times = 1u + take_byte(in);
	struct buf b = BUF_INIT, packed = BUF_INIT, out = BUF_INIT;
	uint8_t codec;
	for (unsigned i = 0; i < times; i++)
		well(buf_add(&b, in->p, in->left));
	const uint8_t *from = cursor_of(&b).p;
	int rc = how & 1 ? codec_pack_varints(&packed, from, b.len, &codec)
			 : codec_pack_piece(&packed, from, b.len, &codec);
	if (well(rc) && well(codec_unpack(&out, codec, cursor_of(&packed).p, packed.len, b.len)))
		require(out.len == b.len && (!b.len || !memcmp(out.data, b.data, b.len)));
	buf_fini(&b);
	buf_fini(&packed);
	buf_fini(&out);
}

/* ---- dictionaries ---- */

/* All frames of one kind, from one into the other, which says the same then. */
static int copy_kind(const struct dicts *from, enum kind kind, struct dicts *to)
{
	struct dict_mark at = { dicts_first(kind), 1 }, next = at;
	int rc = 0;
	while (!rc && (at.next < dicts_count(from, kind) ||
		       (kind == KIND_SETS && at.text < from->label_text.n))) {
		struct buf b = BUF_INIT, again = BUF_INIT;
		rc = dicts_encode(from, kind, &at, &b, &next);
		rc = rc ? rc : dicts_decode(to, kind, b.data, b.len, next.next - at.next);
		rc = rc ? rc : dicts_encode(to, kind, &at, &again, &next);
		require(rc || (again.len == b.len && !memcmp(again.data, b.data, b.len)));
		buf_fini(&b);
		buf_fini(&again);
		at = next;
	}
	require(rc || dicts_count(from, kind) == dicts_count(to, kind));
	return rc;
}

static void copy_dicts(const struct dicts *d)
{
	struct dicts again;
	int rc = dicts_init(&again, !d->index);
	for (int kind = KIND_STRINGS; !rc && kind <= N_DICTS; kind++)
		rc = copy_kind(d, (enum kind)kind, &again);
	well(rc);
	dicts_fini(&again);
}

static void read_dicts(struct input *in)
{
	struct dicts d;
	int rc = dicts_init(&d, take_byte(in) & 1);
	while (!rc && in->left) {
		const enum kind kind = (enum kind)(KIND_STRINGS + take_byte(in) % N_DICTS);
		const uint8_t n = take_byte(in);
		struct buf b = BUF_INIT;
		take_buf(in, &b);
		const struct cursor c = cursor_of(&b);
		rc = dicts_decode(&d, kind, c.p, b.len, n);
		buf_fini(&b);
	}
	if (!rc)
		copy_dicts(&d);
	dicts_fini(&d);
}

/* ---- label sets of a window ---- */

static bool wants_even(void *ctx, uint32_t key)
{
	(void)ctx;
	return key % 2 == 0;
}

static void copy_table(const struct settable *t, uint32_t n_narrow, uint32_t n_keys)
{
	struct settable again = { 0 };
	struct block b = { 0 };
	const struct buf *raw = &b.column[COLUMN_TABLE_NARROW];
	int rc = settable_encode(&b, t);
	rc = rc ? rc : settable_decode(&again, raw, t->n, n_narrow, n_keys, NULL);
	if (well(rc)) {
		require(again.n == t->n && again.n_labels == t->n_labels);
		for (size_t i = 0; i < t->n; i++)
			require(t->sets[i].narrow == again.sets[i].narrow &&
				t->sets[i].n == again.sets[i].n);
		for (size_t i = 0; i < t->n_labels; i++)
			require(!value_compare(&t->labels[i], &again.labels[i]) &&
				settable_may_have(raw, &t->labels[i]));
	}
	settable_fini(&again);
	block_fini(&b);
}

static void read_table(struct input *in)
{
	static const struct settable_keys even = { wants_even, NULL };
	struct buf raw[TABLE] = { BUF_INIT };
	struct settable t;
	const uint8_t filter = take_byte(in), n_narrow = take_byte(in), n_keys = take_byte(in);
	const uint8_t n = take_byte(in);
	size_t len;
	struct settable_label value = { .num = (int64_t)take_u64(in), .type = filter & 1 };
	char *text = (char *)take_piece(in, &len);
	value.str = text;
	value.len = (uint32_t)len;
	for (int i = 0; i < TABLE; i++)
		take_buf(in, &raw[i]);
	settable_columns(&value);
	settable_may_have(raw, &value);
	if (!settable_decode(&t, raw, n, n_narrow, n_keys, filter & 2 ? &even : NULL)) {
		copy_table(&t, n_narrow, n_keys);
		settable_fini(&t);
	}
	if (!settable_decode_narrow(&t, raw, n, n_narrow)) {
		require(t.n == n);
		settable_fini(&t);
	}
	free(text);
	free_bufs(raw, TABLE);
}

/* ---- keys, their values, counters ---- */

static void read_top(struct input *in)
{
	const uint8_t n_keys = take_byte(in), n_events = take_byte(in);
	struct top t, again;
	struct buf raw = BUF_INIT;
	struct block b = { 0 };
	take_buf(in, &raw);
	if (!top_decode(&t, &raw, n_keys, n_events)) {
		int rc = top_encode(&b, &t);
		rc = rc ? rc : top_decode(&again, &b.column[COLUMN_TOP], n_keys, n_events);
		if (well(rc)) {
			require(again.n == t.n);
			for (size_t i = 0; i < t.n; i++)
				require(again.lists[i].n == t.lists[i].n &&
					again.lists[i].total == t.lists[i].total &&
					again.lists[i].bound == t.lists[i].bound);
			top_fini(&again);
		}
		top_fini(&t);
	}
	block_fini(&b);
	buf_fini(&raw);
}

static void read_keys(struct input *in)
{
	struct block_keys k, again;
	struct buf raw = BUF_INIT, out = BUF_INIT;
	take_buf(in, &raw);
	if (!block_keys_decode(&k, &raw)) {
		int rc = block_keys_encode(&out, &k);
		rc = rc ? rc : block_keys_decode(&again, &out);
		if (well(rc)) {
			require(again.n == k.n && again.more == k.more);
			for (size_t i = 0; i < k.n; i++)
				require(block_keys_find(&again, k.v[i].key, k.v[i].len) ==
						&again.v[i] &&
					again.v[i].state == k.v[i].state &&
					again.v[i].at == k.v[i].at);
			block_keys_fini(&again);
		}
		block_keys_fini(&k);
	}
	buf_fini(&raw);
	buf_fini(&out);
}

static void read_totals(struct input *in)
{
	const uint8_t n_lost = take_byte(in), n_flagged = take_byte(in);
	struct totals t, again;
	struct buf raw = BUF_INIT, out = BUF_INIT;
	take_buf(in, &raw);
	struct cursor c = cursor_of(&raw);
	if (!totals_decode(&t, &c, n_lost, n_flagged)) {
		int rc = totals_encode(&out, &t.t, n_lost, n_flagged, n_lost + 2u, n_flagged + 1u);
		c = cursor_of(&out);
		rc = rc ? rc : totals_decode(&again, &c, n_lost + 2u, n_flagged + 1u);
		if (well(rc)) {
			require(again.t.n_cpus == t.t.n_cpus && again.t.outside == t.t.outside);
			for (size_t i = 0; i < t.t.n_cpus; i++)
				require(again.t.cpu[i].fired == t.t.cpu[i].fired &&
					!again.t.cpu[i].lost[n_lost]);
			totals_fini(&again);
		}
		totals_fini(&t);
	}
	buf_fini(&raw);
	buf_fini(&out);
}

static void read_values(struct input *in)
{
	const uint8_t n_leaves = take_byte(in);
	struct value_list list = { 0 };
	struct groups_reader groups;
	struct buf raw = BUF_INIT, cells = BUF_INIT;
	take_buf(in, &raw);
	take_buf(in, &cells);
	int more = value_list_begin(&list, &raw, EVENTS, events);
	while (!more && (more = value_list_next(&list)) > 0) {
		groups_begin(&groups, &list, &cells, n_leaves);
		while (groups_next(&groups) > 0)
			require(groups.row.stack < n_leaves && groups.row.event < EVENTS &&
				groups.row.samples);
		more = 0;
	}
	value_list_fini(&list);
	buf_fini(&raw);
	buf_fini(&cells);
}

/* ---- rows ---- */

/* The rows of the group at hand, in one of three ways. */
static int read_group(struct rows_reader *r, unsigned how, struct rows_sum *by_set)
{
	struct store_row some[4];
	uint64_t samples = 0;
	int n = 0;
	if (how % 3 == 0)
		return 0;
	if (how % 3 == 1)
		return rows_sum(r, by_set);
	while (r->has_sets && (n = rows_take(r, some, 1 + how % 4)) > 0)
		for (int i = 0; i < n; i++) {
			require(some[i].set < r->limits.n_sets && some[i].samples);
			samples += some[i].samples;
		}
	require(n < 0 || !r->has_sets || samples == r->group.samples);
	return n;
}

static void read_rows(struct input *in)
{
	const uint8_t how = take_byte(in), n_sets = take_byte(in), n_leaves = take_byte(in);
	struct block_head h = { .has = how & 1 ? 1u << COLUMN_VALUE : 0 };
	const struct rows_limits l = { n_sets, n_leaves, EVENTS, events };
	struct rows_sum by_set[UINT8_MAX + 1] = { 0 };
	struct buf raw[ROWS] = { BUF_INIT };
	struct rows_reader r;
	h.info.level = how >> 1 & 1;
	h.info.n_folded = take_byte(in);
	h.info.n_rows = take_byte(in);
	for (int i = 0; i < ROWS; i++)
		take_buf(in, &raw[i]);
	rows_begin(&r, &h, raw, how & 4, &l);
	for (unsigned i = how >> 3; rows_next_group(&r) > 0; i++) {
		require(r.group.stack < n_leaves && r.group.event < EVENTS && r.group.samples);
		if (read_group(&r, i, by_set) < 0)
			break;
	}
	free_bufs(raw, ROWS);
}

static void read_head(struct input *in)
{
	struct block_head h;
	struct buf b = BUF_INIT;
	const uint64_t payload_len = take_u64(in);
	take_buf(in, &b);
	const struct cursor c = cursor_of(&b);
	const size_t len = b.len < BLOCK_HEAD_MAX ? b.len : BLOCK_HEAD_MAX;
	if (!block_decode_head(&h, c.p, len, payload_len))
		for (int i = 0; i < N_COLUMNS; i++)
			require(!block_has(&h, (enum column)i) ||
				h.column[i].at + (uint64_t)h.column[i].stored_len <= payload_len);
	buf_fini(&b);
}

typedef void read_kind(struct input *in);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static read_kind *const kinds[] = { unpack,    pack,	  read_dicts,  read_table,
					    read_top,  read_keys, read_totals, read_values,
					    read_rows, read_head };
	struct input in = { data, size };
	kinds[take_byte(&in) % (sizeof(kinds) / sizeof(kinds[0]))](&in);
	return 0;
}
