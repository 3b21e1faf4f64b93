/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of many windows merged, in order and out of it, beside sums over all of them. */
#include "query/runs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SETS 4
#define STACKS 40
#define WINDOWS 70

static uint64_t random_state = 5;

static uint32_t draw(uint32_t below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(random_state >> 33) % below;
}

struct sum {
	uint64_t samples, value;
};

static void check(const struct store_row *rows, size_t n, struct sum want[SETS][STACKS])
{
	size_t n_want = 0;
	for (size_t i = 0; i < n; i++) {
		const struct store_row *r = &rows[i];
		struct sum *w = &want[r->set][r->stack];
		assert_true(!i || r[-1].set < r->set ||
			    (r[-1].set == r->set && r[-1].stack < r->stack));
		assert_int_equal(r->samples, w->samples);
		assert_int_equal(r->value, w->value);
		w->samples = 0;
	}
	for (size_t i = 0; i < (size_t)SETS * STACKS; i++)
		n_want += want[i / STACKS][i % STACKS].samples > 0;
	assert_int_equal(n_want, 0);
}

/* One window: some (set, stack), in order or not, once or more often. Return how many differ. */
static size_t add_window(struct runs *r, bool sorted, bool sets, struct sum want[SETS][STACKS])
{
	const uint32_t n = draw(3) ? draw(SETS * STACKS) : draw(4);
	bool seen[SETS][STACKS] = { { false } };
	uint32_t at = 0;
	size_t differ = 0;
	for (uint32_t i = 0; i < n; i++) {
		at = sorted ? at + 1 + draw(3) : draw(SETS * STACKS);
		if (at >= SETS * STACKS)
			break;
		struct store_row row = { sets ? at / STACKS : 0, at % STACKS, 0, 1 + draw(9),
					 draw(100) };
		if (!sets && sorted && at >= STACKS)
			break;
		assert_int_equal(runs_add(r, &row), 0);
		want[row.set][row.stack].samples += row.samples;
		want[row.set][row.stack].value += row.value;
		differ += !seen[row.set][row.stack];
		seen[row.set][row.stack] = true;
	}
	assert_int_equal(runs_close(r), 0);
	return differ;
}

static void windows_are_merged(void **state)
{
	(void)state;
	for (int trial = 0; trial < 40; trial++) {
		struct sum want[SETS][STACKS] = { { { 0 } } };
		struct runs r = { .n_done = 0 };
		struct store_row *rows = NULL;
		size_t n = 0, most = 0;
		for (int i = 0; i < 1 + trial % 3 * WINDOWS / 2; i++) {
			size_t bytes = 0, had = r.n_done;
			const size_t last = had ? r.done[had - 1].n : SIZE_MAX,
				     one = add_window(&r, trial % 4 ? draw(2) : 1, trial & 1, want);
			/* Less than half of the run before it is not merged with it */
			if (one && last / 2 > one) {
				assert_int_equal(r.n_done, had + 1);
				assert_int_equal(r.done[had].n, one);
			}
			for (size_t k = 0; k < r.n_done; k++) {
				/* each takes part in few merges: sizes fall by more than half */
				assert_true(!k || r.done[k - 1].n / 2 > r.done[k].n);
				assert_true(r.done[k].n <= r.done[k].cap);
				bytes += r.done[k].cap * sizeof(struct store_row);
			}
			assert_false(r.unsorted);
			assert_int_equal(r.open.n, 0);
			assert_int_equal(runs_bytes(&r), bytes);
			most = bytes > most ? bytes : most;
		}
		/* Of what repeats itself no room is left: a run and one that is merged with it */
		assert_true(most <= 3 * SETS * STACKS * sizeof(struct store_row));
		assert_int_equal(runs_finish(&r, &rows, &n), 0);
		check(rows, n, want);
		free(rows);
		runs_fini(&r);
		assert_int_equal(r.n_done + r.open.cap, 0);
	}
}

/* Sorted by stack, or by set and stack; equal ones keep their order, which their samples say. */
static void rows_are_sorted(void **state)
{
	(void)state;
	for (size_t n = 0; n < 300; n = 2 * n + 1)
		for (int by_set = 0; by_set < 2; by_set++) {
			struct store_row *v = malloc((n + 1) * sizeof(*v));
			for (size_t i = 0; i < n; i++)
				v[i] = (struct store_row){ draw(SETS) << 28, draw(STACKS) << 20, 0,
							   i, i };
			assert_int_equal(runs_sort_rows(&v, n, by_set), 0);
			for (size_t i = 1; i < n; i++) {
				const struct store_row *a = &v[i - 1], *b = &v[i];
				assert_true(!by_set || a->set <= b->set);
				if (by_set && a->set < b->set)
					continue;
				assert_true(a->stack < b->stack ||
					    (a->stack == b->stack && a->samples < b->samples));
				assert_int_equal(b->samples, b->value);
			}
			free(v);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows_are_merged),
		cmocka_unit_test(rows_are_sorted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
