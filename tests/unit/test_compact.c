/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of the parents a commit makes: as many rows of children as its own say, and as much
 * again for each block that is overdue. After a failure there is a pause of a minute.
 */
#include "store/write/merge.h"
#include "unit/parent_model.h"

#define SPAN MINUTE /* of a slot of level 1 */
#define STACKS 2000
#define SETS 4
#define CHILD (STACKS * SETS + STACKS) /* rows of a window, and groups */
#define PAUSE (60 * SECOND)

static char dir[64];

/* Nothing is due while windows are put. */
static struct store_writer *begin(void)
{
	struct store_writer *w = open_writer(dir);
	w->opt.grace_ns = 12 * 60 * MINUTE;
	return w;
}

static void end(struct store_writer *w)
{
	store_writer_close(w);
	remove_tree(dir);
}

static void put_windows(struct store_writer *w, int64_t slot, unsigned n)
{
	uint32_t event, set, stack[STACKS];
	assert_int_equal(store_add_event(w, &model_events[1], &event), 0);
	for (unsigned i = 0; i < STACKS; i++)
		stack[i] = stack_of(w, i);
	for (unsigned k = 0; k < n; k++) {
		for (unsigned s = 0; s < SETS; s++) {
			const struct label l = {
				.key = "k", .key_len = 1, .type = LABEL_INT, .num = s
			};
			assert_int_equal(store_add_set(w, &l, 1, &set), 0);
			for (unsigned i = 0; i < STACKS; i++)
				assert_int_equal(store_add_row(w, set, stack[i], event, 1, 10), 0);
		}
		commit_long(w, slot + k * SECOND, SECOND);
	}
	const struct block_ref *last = &w->pending[0].v[w->pending[0].n - 1];
	assert_int_equal(last->b.n_rows + last->b.n_folded, CHILD);
}

static void compact(struct store_writer *w, int64_t now, size_t rows)
{
	struct err err = { 0 };
	w->opt.grace_ns = 0;
	if (compact_due(w, now, rows, &err))
		fail_msg("%s", err.text);
}

/* 16384 rows and four times those of the commit. */
static void by_rows(void **state)
{
	static const struct {
		int64_t later;
		size_t rows, children;
	} cases[] = {
		{ -1, 100000, 0 },
		{ 0, 0, 2 },
		{ 0, 904, 2 },
		{ 0, 905, 3 },
		{ SPAN - 1, 904, 2 },
		{ SPAN - 1, 905, 3 },
		/* Seven of the blocks count as overdue, at most. */
		{ SPAN, 154, 14 },
		{ SPAN, 153, 14 },
		{ SPAN, 279, 14 },
		{ SPAN, 280, 15 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct store_writer *w = begin();
		put_windows(w, T0, 17);
		compact(w, T0 + SPAN + cases[i].later, cases[i].rows);
		const struct merge *m = w->merges[1];
		assert_int_equal(m ? m->at : 0, cases[i].children);
		assert_true(!m || m->n_children == 17);
		assert_int_equal(w->pending[0].n, 17);
		end(w);
	}
}

/* Two blocks are overdue: three times the work, of which their parent takes a part. */
static void overdue_blocks(void **state)
{
	static const size_t cases[][2] = { { 0, 3 }, { 237, 3 }, { 238, 4 } };
	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct store_writer *w = begin();
		put_windows(w, T0, 2);
		put_windows(w, T0 + SPAN, 6);
		compact(w, T0 + 2 * SPAN, cases[i][0]);
		assert_int_equal(w->pending[0].n, 6);
		assert_int_equal(w->pending[1].n, 1);
		assert_int_equal(w->pending[1].v[0].b.n_folded, STACKS);
		assert_int_equal(w->pending[1].v[0].b.n_children, 2);
		assert_non_null(w->merges[1]);
		assert_int_equal(w->merges[1]->at, cases[i][1]);
		end(w);
	}
}

/* What is set aside is not waited for. */
static void set_aside(void **state)
{
	struct store_writer *w = begin();
	(void)state;
	put_windows(w, T0, 2);
	put_windows(w, T0 + SPAN, 6);
	for (size_t i = 0; i < 2; i++)
		w->pending[0].v[i].aside = true;
	w->any_aside = true;
	compact(w, T0 + 2 * SPAN, 0);
	assert_int_equal(w->pending[0].n, 8);
	assert_int_equal(w->merges[1]->n_children, 6);
	assert_int_equal(w->merges[1]->at, 2);
	end(w);
}

/* Blocks below may be summed up, where one above was set aside. */
static void set_aside_above(void **state)
{
	struct store_writer *w = begin();
	(void)state;
	put_windows(w, T0, 2);
	struct block_ref above = w->pending[0].v[0];
	above.aside = true;
	assert_int_equal(pending_add(&w->pending[1], &above), 0);
	w->any_aside = true;
	compact(w, T0 + SPAN, 100000);
	assert_int_equal(w->pending[0].n, 0);
	assert_int_equal(w->pending[1].n, 2);
	end(w);
}

/* The pause is no longer than a minute, whatever the clock does. */
static void after_a_failure(void **state)
{
	const int64_t now = T0 + SPAN;
	const struct {
		int64_t until;
		bool waits;
	} cases[] = {
		{ 0, false },	   { now - 1, false },	  { now, false },
		{ now + 1, true }, { now + PAUSE, true }, { now + PAUSE + 1, false },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct store_writer *w = begin();
		put_windows(w, T0, 2);
		w->compact_after_ns = cases[i].until;
		compact(w, now, 100000);
		assert_int_equal(w->pending[0].n, cases[i].waits ? 2 : 0);
		assert_int_equal(w->compact_after_ns, cases[i].waits ? cases[i].until : 0);
		end(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_rows),	   cmocka_unit_test(overdue_blocks),
		cmocka_unit_test(set_aside),	   cmocka_unit_test(set_aside_above),
		cmocka_unit_test(after_a_failure),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
