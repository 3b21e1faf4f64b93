/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns in the making whose buffer cannot grow, wherever in the column that is: there is an error
 * then, never a column without some of its bytes. The buffer has something in it before, more and
 * more, so that each number is the one that needs more room.
 */
#include "fault/alloc.c"

#include "store/block/keys.h"
#include "store/block/projection.h"
#include "store/block/set_sums.h"
#include "store/block/top.h"
#include "store/block/totals.h"
#include "store/block/track.h"
#include "store/read/segment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <stdio.h>

#define MOST 24	   /* entries of a column */
#define BEFORE 140 /* bytes in front of it */

/* Encode n entries behind what is there; they are the same each time. */
typedef int encode_n(struct buf *out, unsigned n);

static int encode_keys(struct buf *out, unsigned n)
{
	static struct block_key v[MOST];
	struct block_keys k = { v, n, MOST, false };
	for (unsigned i = 0; i < n; i++)
		v[i] = (struct block_key){ "a key", 5, 2, 300, 70000, 3, 400, 77, 1 };
	return block_keys_encode(out, &k);
}

static int encode_totals(struct buf *out, unsigned n)
{
	static uint64_t lost[2] = { 300, 4 }, flagged[1] = { 70000 };
	static struct store_cpu_totals cpu[MOST];
	const struct store_totals t = { cpu, n, 300, 70000, 5 };
	for (unsigned i = 0; i < n; i++)
		cpu[i] = (struct store_cpu_totals){ i, 1000, 300, lost, flagged };
	return totals_encode(out, &t, 2, 1, 2, 1);
}

static int encode_track(struct buf *out, unsigned n)
{
	static struct store_instant v[4 * MOST];
	const struct track t = {
		.t0_ns = 5, .t1_ns = 1000000005, .n_rows = 400, .v = v, .n = 4 * n
	};
	for (unsigned i = 0; i < 4 * n; i++)
		v[i] = (struct store_instant){ 5 + i * 1000000ll, 3 * i, 300, 70000 };
	return track_encode(out, &t);
}

static struct top top;

static int encode_top(struct buf *out, unsigned n)
{
	struct block b = { .info.level = 2 };
	b.column[COLUMN_TOP] = *out;
	top.lists[0].n = n;
	int rc = top_encode(&b, &top);
	*out = b.column[COLUMN_TOP];
	return rc;
}

static struct set_sums sums;
static struct dicts dicts;

static int encode_sums(struct buf *out, unsigned n)
{
	uint32_t was = sums.pool.n;
	sums.pool.n = n + 1;
	int rc = set_sums_encode(out, &sums, &dicts);
	sums.pool.n = was;
	return rc;
}

static int encode_values(struct buf *out, unsigned n)
{
	struct buf groups = BUF_INIT;
	struct projections p = { .lists = out, .groups = &groups };
	struct block_key key = { .key = "k", .len = 1 };
	int rc = 0;
	for (unsigned i = 0; !rc && i < n; i++) {
		struct cell c = { .event = 1, .idle = true, .period = 10 };
		const struct settable_label v = { .type = LABEL_INT,
						  .num = (int64_t)1 << i,
						  .str = "" };
		for (unsigned k = 0; !rc && k <= i; k++)
			rc = cell_add(&c, 100 * k, 300 + k, 7 + i);
		rc = rc ? rc : projections_add(&p, &v, &c, 1);
		cell_fini(&c);
	}
	rc = rc ? rc : projections_end_key(&p, &key);
	projections_fini(&p);
	buf_fini(&groups);
	return rc;
}

static void fill(struct buf *b, size_t before)
{
	*b = (struct buf)BUF_INIT;
	for (size_t i = 0; i < before; i++)
		assert_int_equal(buf_add_u8(b, 'x'), 0);
}

/* Allocation `at` fails; false: there are not so many. */
static bool try_with(encode_n *encode, unsigned n, size_t before, long at, const struct buf *want)
{
	struct buf b;
	fill(&b, before);
	alloc_faults = (struct alloc_faults){ .on = true, .at = at };
	int rc = encode(&b, n);
	alloc_faults.on = false;
	bool hit = alloc_faults.hit > 0;
	assert_int_equal(rc, hit ? -ENOMEM : 0);
	if (!hit) {
		assert_int_equal(b.len - before, want->len);
		assert_memory_equal(b.data + before, want->data, want->len);
	}
	buf_fini(&b);
	return hit;
}

static void check(encode_n *encode)
{
	for (unsigned n = 1; n <= MOST; n += 1 + n / 3) {
		struct buf want = BUF_INIT;
		assert_int_equal(encode(&want, n), 0);
		for (size_t before = 0; before <= BEFORE; before += n < 4 ? 1 : 7)
			for (long at = 1; try_with(encode, n, before, at, &want); at++)
				;
		buf_fini(&want);
	}
}

static void columns(void **state)
{
	(void)state;
	check(encode_keys);
	check(encode_totals);
	check(encode_track);
	check(encode_top);
	check(encode_sums);
	check(encode_values);
}

/* ---- what grows from nothing, in buffers of its own ---- */

#define FEW 8 /* entries of each kind */

static int encode_kind(enum kind kind)
{
	struct dict_mark at = { dicts_first(kind), kind == KIND_SETS }, next;
	struct buf out = BUF_INIT;
	int rc = dicts_encode(&dicts, kind, &at, &out, &next);
	assert_true(rc || next.next == dicts_count(&dicts, kind));
	buf_fini(&out);
	return rc;
}

static int encode_rows(enum kind ignored)
{
	struct rows_writer w = { .events = dicts.events };
	int rc = 0;
	(void)ignored;
	for (uint32_t i = 0; !rc && i < FEW; i++) {
		const struct store_row group[] = { { i, i, 0, 300, 70000 }, { i + 1, i, 0, 2, 1 } };
		rc = rows_put(&w, group, 2);
	}
	rows_writer_fini(&w);
	return rc;
}

static int encode_table(enum kind ignored)
{
	static struct settable_label labels[] = {
		{ .key = 1, .type = LABEL_INT, .num = 70000 },
		{ .key = 2, .type = LABEL_STRING, .str = "some text", .len = 9 },
		{ .key = 3,
		  .type = LABEL_STRING,
		  .str = "0f8fad5b-d9cb-469f-a165-70867728950e",
		  .len = 36 },
	};
	static struct settable_set sets[] = { { .first = 0, .n = 3 }, { .first = 1, .n = 2 } };
	const struct settable t = { .labels = labels, .n_labels = 3, .sets = sets, .n = 2 };
	struct block b = { .info.level = 0 };
	(void)ignored;
	int rc = settable_encode(&b, &t);
	block_fini(&b);
	return rc;
}

static int encode_index(enum kind ignored)
{
	static struct block_ref v[FEW];
	const struct segment g = { .refs = v, .n_refs = FEW };
	struct buf out = BUF_INIT;
	(void)ignored;
	int rc = segment_encode_index(&out, &g);
	buf_fini(&out);
	return rc;
}

static void check_each(int (*encode)(enum kind), enum kind kind)
{
	bool hit = true;
	for (long at = 1; hit; at++) {
		alloc_faults = (struct alloc_faults){ .on = true, .at = at };
		int rc = encode(kind);
		alloc_faults.on = false;
		hit = alloc_faults.hit > 0;
		assert_int_equal(rc, hit ? -ENOMEM : 0);
		assert_true(hit || at > 2);
	}
}

static void from_nothing(void **state)
{
	(void)state;
	for (enum kind kind = 1; kind <= N_DICTS; kind++)
		check_each(encode_kind, kind);
	check_each(encode_rows, 0);
	check_each(encode_table, 0);
	check_each(encode_index, 0);
}

/* Entries of every kind, whose columns all have something. */
static void fill_dicts(void)
{
	uint32_t id, stack = 0;
	for (unsigned i = 0; i < FEW; i++) {
		char text[32];
		snprintf(text, sizeof(text), "function %u", i);
		struct store_frame f = { .kind = FRAME_USER, .line = 7, .offset = 70000 };
		assert_int_equal(strings_add(&dicts.strings, text, strlen(text), &f.function), 0);
		f.file = f.module = f.function;
		assert_int_equal(dicts_add_frame(&dicts, &f, &id), 0);
		assert_int_equal(dicts_add_stack(&dicts, stack, id, &stack), 0);
		assert_int_equal(dicts_add_leaf(&dicts, stack, &id), 0);
	}
}

static int setup(void **state)
{
	const struct store_event e = { "a", "u", 0, 10 };
	uint32_t id;
	(void)state;
	assert_int_equal(set_sums_init(&sums), 0);
	assert_int_equal(dicts_init(&dicts, true), 0);
	assert_int_equal(dicts_add_event(&dicts, &e, &id), 0);
	for (unsigned i = 0; i < MOST; i++) {
		char text[16];
		snprintf(text, sizeof(text), "v%u", i);
		const struct label l = {
			.key = "k", .key_len = 1, .str = text, .str_len = (uint32_t)strlen(text)
		};
		const struct settable_label v = { .type = LABEL_STRING,
						  .str = text,
						  .len = (uint32_t)strlen(text) };
		assert_int_equal(set_sums_add(&sums, &l, 1, 0, true, 300, 70000), 0);
		assert_int_equal(dicts_add_set(&dicts, &l, 1, &id), 0);
		assert_int_equal(top_add(&top, 1, 0, &v, 300), 0);
	}
	fill_dicts();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	top.lists[0].n = MOST;
	top_fini(&top);
	set_sums_fini(&sums);
	dicts_fini(&dicts);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(columns),
					    cmocka_unit_test(from_nothing) };
	return cmocka_run_group_tests(tests, setup, teardown);
}
