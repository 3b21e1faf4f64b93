/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sums of a query beside a budget: what just fits, and what is chosen where not all does.
 */
#include "unit/store_model.h"

#include "query/sums.h"

#define SETS 300
#define ROWS 6000

static int setup(void **state)
{
	struct fixture *f = fixture_of(41, 8, 90);
	fixture_read_rows(f);
	*state = f;
	return 0;
}

struct summed {
	struct query q;
	struct query_spec spec;
	struct sums s;
};

static void begin(struct summed *x, struct store *s, enum query_labels labels, size_t bytes)
{
	store_limit(s, &(struct store_limits){ .bytes = bytes });
	*x = (struct summed){ .q = { .store = s }, .spec = { .labels = labels } };
	assert_int_equal(setpool_init(&x->q.sets), 0);
	assert_int_equal(query_add_other(&x->q), 0);
	sums_init(&x->s, &x->q, &x->spec);
}

static void end(struct summed *x)
{
	store_limit(x->q.store, &(struct store_limits){ 0 });
	sums_fini(&x->s);
	setpool_fini(&x->q.sets);
	free(x->q.rows);
}

/* ---- what just fits ---- */

/* Label sets until they are too many, each named twice: it is paid for once. */
static void sets_that_fit(void **state)
{
	static const enum query_labels kinds[] = { QUERY_KEYS, QUERY_TOTALS, QUERY_KEYS_STACKS,
						   QUERY_ALL_LABELS };
	struct fixture *f = *state;
	for (size_t i = 0; i < 24; i++) {
		struct summed x;
		uint64_t cost = 0;
		uint32_t id, again;
		int rc = 0;
		begin(&x, f->s, kinds[i % 4], 60000 + 27777 * i);
		const size_t budget = query_budget(f->s, &x.spec),
			     room = i % 4 < 2 ? budget / 8 * 7 : budget / 3;
		assert_int_equal(x.s.budget, budget);
		for (int k = 0; !rc; k++) {
			char text[40];
			const int len = snprintf(text, sizeof(text), "value%0*d", 1 + k % 20, k);
			const struct label l[2] = {
				{ .key = "id", .key_len = 2, .num = k, .type = LABEL_INT },
				{ .key = "tenant",
				  .key_len = 6,
				  .str = text,
				  .str_len = (uint32_t)len },
			};
			const size_t from = k % 3 == 0, n = k % 3 == 1 ? 1 : 2 - from;
			cost += 400 + 100 * n;
			cost += from ? 0 : 3 * (2 + 8);
			cost += from + n == 2 ? 3 * (6 + (uint64_t)len) : 0;
			rc = sums_name(&x.s, l + from, n, &id);
			assert_int_equal(rc, cost > room ? -ENOBUFS : 0);
			if (!rc) {
				assert_int_equal(sums_name(&x.s, l + from, n, &again), 0);
				assert_int_equal(id, again);
			}
		}
		assert_true(cost > room);
		end(&x);
	}
}

/* Rows until they are too many: merging takes as much again. */
static void rows_that_fit(void **state)
{
	static const enum query_labels kinds[] = { QUERY_NO_LABELS, QUERY_NO_LABELS,
						   QUERY_KEYS_STACKS };
	struct fixture *f = *state;
	for (size_t i = 0; i < 60; i++) {
		struct summed x;
		int rc = 0;
		begin(&x, f->s, kinds[i % 3], 400000 + 21001 * i);
		x.spec.rows_alone = i % 3 == 1;
		const size_t budget = query_budget(f->s, &x.spec),
			     room = i % 3 == 1 ? budget / 4 * 3 : budget / 3;
		for (uint32_t k = 0; !rc; k++) {
			const struct store_row row = { 0, k, 0, 1, 2 };
			rc = sums_add(&x.s, &row);
			assert_int_equal(rc, runs_bytes(&x.s.runs) > room / 2 ? -ENOBUFS : 0);
			assert_int_equal(x.q.info.samples, k + 1);
			assert_int_equal(x.q.info.value, 2 * (k + 1));
			if (!rc && k % 1000 == 999)
				assert_int_equal(sums_end_block(&x.s), 0);
		}
		end(&x);
	}
}

/* ---- what is chosen ---- */

struct given {
	uint32_t set, stack;
	uint64_t samples;
} given[ROWS];

/* Sets and stacks with small numbers have most samples; the first set is empty. */
static void draw(struct model *m, uint32_t n_sets, uint32_t n_stacks)
{
	for (size_t i = 0; i < ROWS; i++)
		given[i] = (struct given){ model_random(m, 1 + model_random(m, n_sets)),
					   model_random(m, 1 + model_random(m, n_stacks)),
					   1 + model_random(m, 9) };
}

static int add_all(struct summed *x, bool sets)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < ROWS; i++) {
		char text[16];
		snprintf(text, sizeof(text), "t%03u", given[i].set);
		const struct label l = { .key = "tenant", .key_len = 6, .str = text, .str_len = 4 };
		struct store_row row = { 0,
					 sets && x->spec.labels == QUERY_KEYS ? 0 : given[i].stack,
					 0, given[i].samples, 3 * given[i].samples };
		rc = sets ? sums_name(&x->s, &l, given[i].set != 0, &row.set) : 0;
		rc = rc ? rc : sums_add(&x->s, &row);
		if (!rc && i % 500 == 499)
			rc = sums_end_block(&x->s);
	}
	return rc;
}

/* All three passes. */
static void sum_up(struct summed *x, bool sets)
{
	bool again = true;
	assert_int_equal(add_all(x, sets), -ENOBUFS);
	for (int pass = 0; pass < 2; pass++) {
		assert_int_equal(sums_next(&x->s), 0);
		assert_int_equal(x->q.info.samples + x->q.info.value, 0);
		assert_int_equal(add_all(x, sets), 0);
		assert_int_equal(sums_end(&x->s, &again), 0);
		assert_int_equal(again, pass == 0);
	}
	assert_true(x->q.info.bounded);
	assert_int_equal(sums_give(&x->s), 0);
	for (size_t i = 1; i < x->q.n_rows; i++) {
		const struct store_row *a = &x->q.rows[i - 1], *b = a + 1;
		assert_true(a->set < b->set || (a->set == b->set && a->stack < b->stack) || !sets);
	}
}

/* The number of a set in the pool; -1: of all others. */
static int number_of(const struct query *q, uint32_t set)
{
	const struct label *l;
	if (set == QUERY_OTHER)
		return -1;
	return query_set(q, set, &l) ? (int)strtol(l->str + 1, NULL, 10) : 0;
}

static uint64_t sum_of(int set, int64_t stack)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < ROWS; i++)
		if ((set < 0 || given[i].set == (uint32_t)set) &&
		    (stack < 0 || given[i].stack == (uint32_t)stack))
			sum += given[i].samples;
	return sum;
}

static void sets_that_are_chosen(void **state)
{
	struct fixture *f = *state;
	struct model m = { .random = 3 };
	for (size_t trial = 0; trial < 8; trial++) {
		struct summed x;
		bool shown[SETS] = { false };
		uint64_t all = 0, least = UINT64_MAX;
		draw(&m, SETS, 50);
		begin(&x, f->s, QUERY_KEYS, 40000 + 9000 * trial);
		sum_up(&x, true);
		for (size_t i = 0; i < x.q.n_rows; i++) {
			const struct store_row *r = &x.q.rows[i];
			const int set = number_of(&x.q, r->set);
			assert_int_equal(r->stack, 0);
			assert_int_equal(r->value, 3 * r->samples);
			all += r->samples;
			if (set < 0)
				continue;
			assert_int_equal(r->samples, sum_of(set, -1));
			shown[set] = true;
			if (set)
				least = r->samples < least ? r->samples : least;
		}
		assert_int_equal(all, sum_of(-1, -1));
		assert_int_equal(x.q.info.samples, all);
		size_t n = 0;
		for (int k = 1; k < SETS; k++) {
			assert_true(shown[k] || sum_of(k, -1) <= least);
			n += shown[k];
		}
		/* Each for 400 times a power of two, the empty one, which has most, for 400 */
		assert_int_equal(n, (query_budget(f->s, &x.spec) / 8 * 7 - 400) / 800);
		end(&x);
	}
}

static void rows_that_are_chosen(void **state)
{
	struct fixture *f = *state;
	struct model m = { .random = 4 };
	for (size_t trial = 0; trial < 6; trial++) {
		struct summed x;
		uint64_t all = 0;
		size_t own = 0;
		draw(&m, SETS, 50);
		begin(&x, f->s, QUERY_KEYS_STACKS, 400000 + 90000 * trial);
		sum_up(&x, true);
		uint64_t rest[SETS] = { 0 };
		for (size_t i = 0; i < x.q.n_rows; i++) {
			const struct store_row *r = &x.q.rows[i];
			const int set = number_of(&x.q, r->set);
			all += r->samples;
			assert_int_equal(r->value, 3 * r->samples);
			if (set < 0) {
				assert_int_equal(r->stack, QUERY_OTHER_STACK);
				continue;
			}
			rest[set] += r->samples;
			own += r->stack != QUERY_OTHER_STACK;
			if (r->stack != QUERY_OTHER_STACK)
				assert_int_equal(r->samples, sum_of(set, r->stack));
		}
		for (int k = 0; k < SETS; k++)
			assert_true(!rest[k] || rest[k] == sum_of(k, -1));
		assert_int_equal(all, sum_of(-1, -1));
		assert_true(own > 0);
		end(&x);
	}
}

/* A stack has its own samples; those below it that have no row are the others of its. */
static void stacks_that_are_chosen(void **state)
{
	struct fixture *f = *state;
	struct model m = { .random = 5 };
	const uint32_t n_stacks = store_n_stacks(f->s);
	for (size_t trial = 0; trial < 6; trial++) {
		struct summed x;
		uint64_t all = 0, *own = calloc(n_stacks, sizeof(*own)),
			 *other = calloc(n_stacks, sizeof(*other));
		bool *kept = calloc(n_stacks, sizeof(*kept));
		draw(&m, 1, n_stacks);
		begin(&x, f->s, QUERY_NO_LABELS, 30000 + 8000 * trial);
		sum_up(&x, false);
		for (uint32_t i = 0; i < n_stacks; i++)
			kept[i] = subtree_has(&x.s.kept, i);
		for (size_t i = 0; i < ROWS; i++) {
			uint32_t at = given[i].stack, frame;
			bool itself = kept[at];
			while (!kept[at])
				store_stack(f->s, at, &at, &frame);
			*(itself ? &own[at] : &other[at]) += given[i].samples;
		}
		for (size_t i = 0; i < x.q.n_rows; i++) {
			const struct store_row *r = &x.q.rows[i];
			uint64_t *want = r->set == QUERY_OTHER ? other : own;
			assert_true(r->set == QUERY_OTHER || r->set == 0);
			assert_int_equal(r->samples, want[r->stack]);
			assert_int_equal(r->value, 3 * r->samples);
			all += r->samples;
			want[r->stack] = 0;
		}
		for (uint32_t i = 0; i < n_stacks; i++)
			assert_int_equal(own[i] + other[i], 0);
		assert_int_equal(all, sum_of(-1, -1));
		free(own);
		free(other);
		free(kept);
		end(&x);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sets_that_fit),	  cmocka_unit_test(rows_that_fit),
		cmocka_unit_test(sets_that_are_chosen),	  cmocka_unit_test(rows_that_are_chosen),
		cmocka_unit_test(stacks_that_are_chosen),
	};
	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
