/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns of blocks as docs/format.md has them, and with one number that is one too many: the last
 * that is taken, and the first that is not.
 */
#include "store/block/keys.h"
#include "store/block/projection.h"
#include "store/block/rows.h"
#include "store/block/set_sums.h"
#include "store/block/top.h"
#include "store/block/totals.h"
#include "store/block/track.h"
#include "store/file/columns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#define COUNT(v) (sizeof(v) / sizeof((v)[0]))
#define LARGE (1ull << 32)

/* A number of a column: V a varint, else of so many bytes; T the text. */
enum { V = 0, T = 9 };
struct item {
	int size;
	uint64_t v;
	const char *text;
};

/* What becomes of a column when one of its numbers is another one. */
struct change {
	size_t at;
	uint64_t v;
	int rc;
};

static void put(struct buf *b, const struct item *i)
{
	if (i->size == V)
		assert_int_equal(buf_add_varint(b, i->v), 0);
	else if (i->size == T)
		assert_int_equal(buf_add(b, i->text, strlen(i->text)), 0);
	else
		for (int k = 0; k < i->size; k++)
			assert_int_equal(buf_add_u8(b, (uint8_t)(i->v >> 8 * k)), 0);
}

/* As it is; with each change; cut behind each number but the last; with a byte behind it. */
static void check(int (*decode)(const struct buf *raw), const struct item *items, size_t n,
		  const struct change *changes, size_t n_changes)
{
	struct buf b = BUF_INIT;
	for (size_t k = 0; k <= n_changes; k++) {
		b.len = 0;
		for (size_t i = 0; i < n; i++) {
			struct item item = items[i];
			item.v = k && changes[k - 1].at == i ? changes[k - 1].v : item.v;
			put(&b, &item);
			if (!k && i + 1 < n)
				assert_int_equal(decode(&b), -EBADMSG);
		}
		int rc = decode(&b), want = k ? changes[k - 1].rc : 0;
		if (rc != want)
			fail_msg("change %zu: %d instead of %d", k, rc, want);
		if (k)
			continue;
		assert_int_equal(buf_add_u8(&b, 0), 0);
		assert_int_equal(decode(&b), -EBADMSG);
	}
	buf_fini(&b);
}

static const struct store_event events[2] = { { "a", "u", 0, 10 }, { "b", "u", 0, 3 } };

/* ---- keys ---- */

static int decode_keys(const struct buf *raw)
{
	struct block_keys k;
	int rc = block_keys_decode(&k, raw);
	if (!rc)
		block_keys_fini(&k);
	return rc;
}

static void keys(void **state)
{
	static const struct item items[] = {
		{ V, 4, 0 }, { V, 3, 0 },    { T, 0, "abc" }, { 1, 1, 0 },	   { V, 5, 0 },
		{ V, 2, 0 }, { T, 0, "de" }, { 1, 2, 0 },     { V, 6, 0 },	   { V, 7, 0 },
		{ V, 8, 0 }, { V, 9, 0 },    { 1, 1, 0 },     { 4, 0x1020304, 0 },
	};
	static const struct change changes[] = {
		{ 0, 5, 0 },
		{ 0, 2, -EBADMSG },
		{ 0, 6, -EBADMSG },
		{ 0, 2 * 4097, -EBADMSG },
		{ 4, LARGE, -EBADMSG },
		{ 4, LARGE - 1, 0 },
		{ 9, LARGE, -EBADMSG },
		{ 10, LARGE, -EBADMSG },
		{ 11, LARGE, -EBADMSG },
		{ 7, 5, -EBADMSG },
		{ 7, 6, 0 },
		{ 1, LARGE, -EBADMSG },
	};
	static const struct item twice[] = {
		{ V, 4, 0 }, { V, 2, 0 },    { T, 0, "de" }, { 1, 1, 0 }, { V, 5, 0 },
		{ V, 2, 0 }, { T, 0, "de" }, { 1, 1, 0 },    { V, 5, 0 },
	};
	struct buf b = BUF_INIT, again = BUF_INIT;
	struct block_keys k;
	(void)state;
	check(decode_keys, items, COUNT(items), changes, COUNT(changes));
	for (size_t i = 0; i < COUNT(twice); i++)
		put(&b, &twice[i]);
	assert_int_equal(decode_keys(&b), -EBADMSG);
	b.len = 0;
	for (size_t i = 0; i < COUNT(items); i++)
		put(&b, &items[i]);
	assert_int_equal(block_keys_decode(&k, &b), 0);
	assert_true(k.n == 2 && !k.more && k.v[0].windows == 5 && k.v[0].state == 1);
	const struct block_key *p = block_keys_find(&k, "de", 2);
	assert_true(p && p->state == 2 && p->windows == 6 && p->at == 7 && p->stored_len == 8);
	assert_true(p->raw_len == 9 && p->codec == 1 && p->crc == 0x1020304);
	assert_null(block_keys_find(&k, "d", 1));
	assert_null(block_keys_find(&k, "df", 2));
	assert_int_equal(block_keys_encode(&again, &k), 0);
	assert_int_equal(again.len, b.len);
	assert_memory_equal(again.data, b.data, b.len);
	block_keys_fini(&k);
	buf_fini(&b);
	buf_fini(&again);
}

/* 4096 keys, and no more; the text of one has 65535 bytes. */
static void many_keys(void **state)
{
	static char text[65536], names[4097][4];
	struct block_keys k = { 0 };
	struct block_key *key;
	struct buf b = BUF_INIT;
	(void)state;
	for (unsigned i = 0; i < 4096; i++) {
		memcpy(names[i], (char[]){ 'k', (char)(i >> 8), (char)i, 0 }, 4);
		assert_int_equal(block_keys_need(&k, names[i], 4, &key), 0);
		assert_non_null(key);
	}
	assert_false(k.more);
	assert_int_equal(block_keys_need(&k, names[7], 4, &key), 0);
	assert_ptr_equal(key, &k.v[7]);
	assert_false(k.more);
	assert_int_equal(block_keys_encode(&b, &k), 0);
	assert_int_equal(decode_keys(&b), 0);
	assert_int_equal(block_keys_need(&k, "another", 7, &key), 0);
	assert_null(key);
	assert_true(k.more);
	block_keys_fini(&k);
	for (size_t len = 65535; len <= 65536; len++) {
		memset(text, 'x', len);
		b.len = 0;
		assert_int_equal(buf_add_varint(&b, 2), 0);
		assert_int_equal(buf_add_varint(&b, len), 0);
		assert_int_equal(buf_add(&b, text, len), 0);
		assert_int_equal(buf_add(&b, "\0\1", 2), 0);
		assert_int_equal(decode_keys(&b), len == 65535 ? 0 : -EBADMSG);
	}
	buf_fini(&b);
}

/* ---- totals ---- */

static int decode_totals(const struct buf *raw)
{
	struct totals t;
	struct cursor c = cursor_of(raw);
	int rc = totals_decode(&t, &c, 2, 1);
	if (!rc)
		totals_fini(&t);
	return rc;
}

static void totals(void **state)
{
	static const struct item items[] = {
		{ V, 1, 0 }, { V, 2, 0 },  { V, 3, 0 },	 { V, 2, 0 },  { V, 2, 0 },  { V, 1, 0 },
		{ V, 0, 0 }, { V, 9, 0 },  { V, 4, 0 },	 { V, 5, 0 },  { V, 6, 0 },  { V, 7, 0 },
		{ V, 3, 0 }, { V, 19, 0 }, { V, 14, 0 }, { V, 15, 0 }, { V, 16, 0 }, { V, 17, 0 },
	};
	static const struct change changes[] = {
		{ 3, 1, -EBADMSG },	{ 3, 3, -EBADMSG },  { 3, 65537, -EBADMSG },
		{ 4, 1, -EBADMSG },	{ 4, 3, -EBADMSG },  { 5, 2, -EBADMSG },
		{ 6, LARGE, -EBADMSG }, { 6, LARGE - 1, 0 }, { 12, 0, 0 },
	};
	struct buf b = BUF_INIT;
	struct totals t;
	(void)state;
	check(decode_totals, items, COUNT(items), changes, COUNT(changes));
	for (size_t i = 0; i < COUNT(items); i++)
		put(&b, &items[i]);
	struct cursor c = cursor_of(&b);
	assert_int_equal(totals_decode(&t, &c, 3, 2), 0); /* the store has more names by now */
	const struct store_cpu_totals *cpu = &t.t.cpu[1];
	assert_true(t.t.outside == 1 && t.t.own_cpu_ns == 2 && t.t.own_rss == 3);
	assert_true(t.t.n_cpus == 2 && cpu->cpu == 3 && cpu->fired == 19 && cpu->stored == 14);
	assert_true(cpu->lost[0] == 15 && cpu->lost[1] == 16 && cpu->lost[2] == 0);
	assert_true(cpu->flagged[0] == 17 && cpu->flagged[1] == 0);
	totals_fini(&t);
	/* 65536 of them, all about one CPU. */
	b.len = 0;
	static const uint64_t head[] = { 0, 0, 0, 65536, 0, 0 };
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(buf_add_varint(&b, head[i]), 0);
	for (size_t i = 0; i < 65536; i++)
		assert_int_equal(buf_add(&b, "\7\2\1", 3), 0);
	c = cursor_of(&b);
	assert_int_equal(totals_decode(&t, &c, 0, 0), 0);
	assert_true(t.t.n_cpus == 1 && t.t.cpu[0].fired == 131072 && t.t.cpu[0].stored == 65536);
	totals_fini(&t);
	buf_fini(&b);
}

/* ---- tracks ---- */

static int decode_track(const struct buf *raw)
{
	struct track t;
	int rc = track_decode(&t, raw->data, raw->len);
	track_fini(&t);
	return rc;
}

static void tracks(void **state)
{
	/* One instant: its time in five bytes, its row in four, its CPU in three, its length. */
	static const struct item items[] = {
		{ V, 20, 0 },	    { V, 86400000000000, 0 },
		{ V, 1u << 22, 0 }, { V, 1, 0 },
		{ V, 5, 0 },	    { V, 4, 0 },
		{ V, 3, 0 },	    { V, 5, 0 },
		{ V, 1u << 31, 0 }, { V, (1u << 22) - 1, 0 },
		{ V, 65535, 0 },    { V, 1u << 31, 0 },
	};
	static const struct change changes[] = {
		{ 1, 86400000000001, -EBADMSG },
		{ 2, (1u << 22) + 1, -EBADMSG },
		{ 2, (1u << 22) - 1, -EBADMSG },
		{ 3, 2, -EBADMSG },
		{ 3, 0, -EBADMSG },
		{ 3, 6, -EBADMSG },
		{ 4, 4, -EBADMSG },
		{ 5, 5, -EBADMSG },
		{ 7, 4, -EBADMSG },
		{ 9, 1u << 22, -EBADMSG },
		{ 10, 65536, -EBADMSG },
		{ 0, 2 * (uint64_t)(INT64_MAX - 86400000000000), 0 },
		{ 0, 2 * (uint64_t)(INT64_MAX - 86400000000000 + 1), -EBADMSG },
	};
	static const struct item short_span[] = {
		{ V, 20, 0 }, { V, 5999, 0 }, { V, 1, 0 }, { V, 1, 0 }, { V, 1, 0 }, { V, 1, 0 },
		{ V, 1, 0 },  { V, 1, 0 },    { V, 5, 0 }, { V, 0, 0 }, { V, 0, 0 }, { V, 0, 0 },
	};
	static const struct change of_short[] = {
		{ 8, 6, -EBADMSG },    { 1, 6000, 0 }, { 1, 0, -EBADMSG },
		{ 1, 4999, -EBADMSG }, { 1, 5000, 0 }, { 9, 1, -EBADMSG },
	};
	static uint8_t zeros[4 << 19];
	struct buf b = BUF_INIT;
	(void)state;
	check(decode_track, items, COUNT(items), changes, COUNT(changes));
	check(decode_track, short_span, COUNT(short_span), of_short, COUNT(of_short));
	for (uint64_t n = 1u << 19; n <= (1u << 19) + 1; n++) {
		const uint64_t head[] = { 0, 1000, 1, n, n, n, n, n };
		b.len = 0;
		for (size_t i = 0; i < 8; i++)
			assert_int_equal(buf_add_varint(&b, head[i]), 0);
		for (size_t i = 0; i < 4; i++)
			assert_int_equal(buf_add(&b, zeros, n), 0);
		assert_int_equal(decode_track(&b), n == 1u << 19 ? 0 : -EBADMSG);
	}
	buf_fini(&b);
}

/* ---- top lists ---- */

static int decode_top(const struct buf *raw)
{
	struct top t;
	int rc = top_decode(&t, raw, 5, 2);
	if (!rc)
		top_fini(&t);
	return rc;
}

static void top_lists(void **state)
{
	static const struct item items[] = {
		{ V, 2, 0 }, { V, 4, 0 }, { V, 1, 0 },	  { V, 30, 0 }, { V, 3, 0 },
		{ V, 2, 0 }, { 1, 1, 0 }, { V, 8, 0 },	  { V, 9, 0 },	{ V, 1, 0 },
		{ 1, 0, 0 }, { V, 2, 0 }, { T, 0, "xy" }, { V, 7, 0 },	{ V, 2, 0 },
		{ V, 4, 0 }, { V, 0, 0 }, { V, 30, 0 },	  { V, 3, 0 },	{ V, 0, 0 },
	};
	static const struct change changes[] = {
		{ 1, 5, -EBADMSG },	 { 2, 2, -EBADMSG },  { 5, 257, -EBADMSG },
		{ 5, 1, -EBADMSG },	 { 16, 1, -EBADMSG }, { 15, 3, 0 },
		{ 0, 1, -EBADMSG },	 { 0, 3, -EBADMSG },  { 10, 4, -EBADMSG },
		{ 11, 70000, -EBADMSG },
	};
	struct buf b = BUF_INIT;
	(void)state;
	check(decode_top, items, COUNT(items), changes, COUNT(changes));
	for (unsigned n = 255; n <= 257; n++)
		for (int twice = 0; twice < 2; twice++) {
			const uint64_t head[] = { 1, 0, 0, 0, 0, n };
			b.len = 0;
			for (size_t i = 0; i < 6; i++)
				assert_int_equal(buf_add_varint(&b, head[i]), 0);
			for (unsigned i = 0; i < n; i++) {
				assert_int_equal(buf_add_u8(&b, 1), 0);
				assert_int_equal(buf_add_varint(&b, twice && i == 9 ? 8 : i), 0);
				assert_int_equal(buf_add(&b, "\1\0", 2), 0);
			}
			assert_int_equal(decode_top(&b), n > 256 || twice ? -EBADMSG : 0);
		}
	buf_fini(&b);
}

/* ---- projections ---- */

static int decode_values(const struct buf *raw)
{
	struct value_list l;
	int more = value_list_begin(&l, raw, 2, events) ? -EBADMSG : 1;
	while (more > 0)
		more = value_list_next(&l);
	value_list_fini(&l);
	return more;
}

static const struct value_sum sums[2] = { { 0, true, true, 7, 8 }, { 1, false, false, 9, 27 } };

static int decode_groups(const struct buf *raw)
{
	struct value_list l = { .n_events = 2, .events = events, .n_sums = 2 };
	struct groups_reader r;
	int more;
	l.sums = (struct value_sum *)sums;
	groups_begin(&r, &l, raw, 6);
	while ((more = groups_next(&r)) > 0)
		;
	return more;
}

static void projections(void **state)
{
	static const struct item values[] = {
		{ V, 1, 0 },  { 1, 1, 0 },  { V, 8, 0 }, { V, 2, 0 },  { V, 3, 0 },
		{ V, 7, 0 },  { V, 8, 0 },  { V, 4, 0 }, { V, 9, 0 },  { V, 20, 0 },
		{ V, 21, 0 }, { V, 22, 0 }, { 1, 1, 0 }, { 4, 99, 0 },
	};
	static const struct change of_values[] = {
		{ 0, 2, -EBADMSG },	{ 0, 20001, -EBADMSG },	 { 3, 1, -EBADMSG },
		{ 4, 8, -EBADMSG },	{ 7, 8, -EBADMSG },	 { 7, 6, 0 },
		{ 9, LARGE, -EBADMSG }, { 10, LARGE, -EBADMSG }, { 11, LARGE, -EBADMSG },
		{ 9, LARGE - 1, 0 },	{ 1, 4, -EBADMSG },
	};
	/* Of an event with values two groups; of the other one. Leaves are below 6. */
	static const struct item groups[] = {
		{ V, 2, 0 }, { V, 2, 0 }, { V, 2, 0 }, { V, 2, 0 }, { V, 10, 0 }, { V, 9, 0 },
		{ V, 4, 0 }, { V, 0, 0 }, { V, 5, 0 }, { V, 3, 0 }, { V, 1, 0 },  { V, 1, 0 },
		{ V, 1, 0 }, { V, 0, 0 }, { V, 2, 0 }, { V, 8, 0 },
	};
	static const struct change of_groups[] = {
		{ 0, 1, -EBADMSG },  { 0, 3, -EBADMSG },  { 1, 1, -EBADMSG },
		{ 4, 12, -EBADMSG }, { 5, 11, -EBADMSG }, { 10, 0, -EBADMSG },
		{ 13, 1, -EBADMSG }, { 14, 10, 0 },	  { 14, 12, -EBADMSG },
	};
	struct buf b = BUF_INIT;
	struct value_list l;
	struct groups_reader r;
	(void)state;
	check(decode_values, values, COUNT(values), of_values, COUNT(of_values));
	check(decode_groups, groups, COUNT(groups), of_groups, COUNT(of_groups));
	for (size_t i = 0; i < COUNT(values); i++)
		put(&b, &values[i]);
	assert_int_equal(value_list_begin(&l, &b, 2, events), 0);
	assert_int_equal(value_list_next(&l), 1);
	assert_true(l.value.type == LABEL_INT && l.value.num == 4 && l.n_sums == 2);
	assert_true(l.sums[0].event == 0 && l.sums[0].idle && l.sums[0].explicit);
	assert_true(l.sums[0].samples == 7 && l.sums[0].value == 8);
	assert_true(l.sums[1].event == 1 && !l.sums[1].idle && l.sums[1].value == 27);
	assert_true(l.at == 20 && l.stored_len == 21 && l.raw_len == 22 && l.crc == 99);
	value_list_fini(&l);
	b.len = 0;
	assert_int_equal(buf_add_varint(&b, 20000), 0);
	assert_int_equal(value_list_begin(&l, &b, 2, events), 0);
	b.len = 0;
	for (size_t i = 0; i < COUNT(groups); i++)
		put(&b, &groups[i]);
	l = (struct value_list){ .n_events = 2, .events = events, .n_sums = 2 };
	l.sums = (struct value_sum *)sums;
	groups_begin(&r, &l, &b, 6);
	static const uint64_t want[3][4] = { { 5, 0, 5, 5 }, { 0, 0, 1, 3 }, { 1, 1, 9, 27 } };
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(groups_next(&r), 1);
		assert_int_equal(r.row.stack, want[i][0]);
		assert_int_equal(r.row.event, want[i][1]);
		assert_int_equal(r.row.samples, want[i][2]);
		assert_int_equal(r.row.value, want[i][3]);
		assert_int_equal(r.idle, i < 2);
	}
	assert_int_equal(groups_next(&r), 0);
	buf_fini(&b);
}

/* ---- sums by label set ---- */

static int decode_sums(const struct buf *raw)
{
	struct set_sums_reader r;
	int more;
	set_sums_begin(&r, raw, 6, 2, events);
	while ((more = set_sums_next(&r)) > 0)
		;
	return more;
}

static void sums_by_set(void **state)
{
	static const struct item items[] = {
		{ V, 2, 0 }, { V, 3, 0 },  { V, 2, 0 }, { V, 2, 0 }, { V, 2, 0 },
		{ V, 2, 0 }, { V, 10, 0 }, { V, 9, 0 }, { V, 4, 0 }, { V, 1, 0 },
		{ V, 5, 0 }, { V, 3, 0 },  { V, 4, 0 }, { V, 1, 0 }, { V, 1, 0 },
		{ V, 1, 0 }, { V, 0, 0 },  { V, 2, 0 }, { V, 8, 0 },
	};
	static const struct change changes[] = {
		{ 0, 1, -EBADMSG },   { 0, 3, -EBADMSG },  { 1, 8, -EBADMSG },	{ 1, 7, 0 },
		{ 2, 1, -EBADMSG },   { 2, 3, -EBADMSG },  { 6, 12, -EBADMSG }, { 7, 11, -EBADMSG },
		{ 8, 0, -EBADMSG },   { 12, 8, -EBADMSG }, { 12, 7, -EBADMSG }, { 16, 1, -EBADMSG },
		{ 17, 12, -EBADMSG }, { 17, 10, 0 },	   { 18, 0, -EBADMSG },
	};
	struct buf b = BUF_INIT;
	struct set_sums_reader r;
	(void)state;
	check(decode_sums, items, COUNT(items), changes, COUNT(changes));
	for (size_t i = 0; i < COUNT(items); i++)
		put(&b, &items[i]);
	set_sums_begin(&r, &b, 6, 2, events);
	static const uint64_t want[3][4] = { { 5, 0, 4, 5 }, { 0, 0, 1, 3 }, { 1, 1, 8, 24 } };
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(set_sums_next(&r), 1);
		assert_int_equal(r.row.set, want[i][0]);
		assert_int_equal(r.row.event, want[i][1]);
		assert_int_equal(r.row.samples, want[i][2]);
		assert_int_equal(r.row.value, want[i][3]);
		assert_int_equal(r.idle, i < 2);
	}
	assert_int_equal(set_sums_next(&r), 0);
	buf_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys),	       cmocka_unit_test(many_keys),
		cmocka_unit_test(totals),      cmocka_unit_test(tracks),
		cmocka_unit_test(top_lists),   cmocka_unit_test(projections),
		cmocka_unit_test(sums_by_set),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
