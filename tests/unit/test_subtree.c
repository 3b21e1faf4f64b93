/* SPDX-License-Identifier: Apache-2.0 */
/* The heaviest stacks of a tree, and samples carried to parents, against sums over all stacks. */
#include "unit/store_model.h"

#include "query/subtree.h"

#define STACKS_MAX 4000
#define TRIALS 21
#define OF_STACK 1000 /* bytes; functions of the model take less than one stack in all */

struct plain {
	uint64_t own[STACKS_MAX], total[STACKS_MAX]; /* by stack */
	uint32_t n;
};

static int setup(void **state)
{
	struct fixture *f = fixture_of(41, 12, 90);
	fixture_read_rows(f);
	assert_true(store_n_stacks(f->s) > 300 && store_n_stacks(f->s) < STACKS_MAX);
	*state = f;
	return 0;
}

static void draw(struct model *m, const struct store *s, struct plain *p, struct keysums *k)
{
	*p = (struct plain){ .n = store_n_stacks(s) };
	keysums_init(k, 1 << 20);
	for (uint32_t i = 0; i < 3 * p->n; i++) {
		uint32_t stack = model_random(m, p->n);
		uint64_t samples = 1 + model_random(m, 1 + model_random(m, 200));
		if (model_random(m, 2))
			continue;
		assert_int_equal(keysums_add(k, stack, samples, 0), 0);
		p->own[stack] += samples;
	}
	for (uint32_t i = p->n; i-- > 0;) {
		uint32_t parent, frame;
		p->total[i] += p->own[i];
		store_stack(s, i, &parent, &frame);
		if (i)
			p->total[parent] += p->total[i];
	}
}

static const struct plain *ranked;

static int before(const void *a, const void *b)
{
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	if (ranked->total[i] != ranked->total[k])
		return ranked->total[i] > ranked->total[k] ? -1 : 1;
	return i < k ? -1 : 1;
}

/* The stacks but the root, those with more samples first; of as many the lower id. */
static void rank(const struct plain *p, uint32_t by_rank[STACKS_MAX], uint32_t rank_of[STACKS_MAX])
{
	ranked = p;
	for (uint32_t i = 1; i < p->n; i++)
		by_rank[i - 1] = i;
	qsort(by_rank, p->n - 1, sizeof(*by_rank), before);
	for (uint32_t i = 0; i + 1 < p->n; i++)
		rank_of[by_rank[i]] = i;
}

static void the_heaviest_are_chosen(void **state)
{
	static const size_t room_for[] = { 0, 1, 2, 7, 50, 200, STACKS_MAX };
	struct fixture *f = *state;
	struct model m = { .random = 5 };
	static struct plain p;
	static uint32_t by_rank[STACKS_MAX], rank_of[STACKS_MAX];
	for (int trial = 0; trial < TRIALS; trial++) {
		const size_t most = room_for[trial % 7];
		const struct subtree_room room = { OF_STACK * most + OF_STACK - 1, OF_STACK, 1, 3 };
		struct subtree t;
		struct keysums k;
		uint32_t members = 0;
		draw(&m, f->s, &p, &k);
		rank(&p, by_rank, rank_of);
		assert_int_equal(subtree_choose(&t, &k, f->s, &room), 0);
		for (uint32_t i = 0; i < p.n; i++) {
			bool want = !i || (p.total[i] && rank_of[i] < most);
			assert_int_equal(subtree_has(&t, i), want);
			if (want)
				assert_int_equal(subtree_index(&t, i), members++);
			uint32_t near = i, frame;
			while (near && !(p.total[near] && rank_of[near] < most))
				store_stack(f->s, near, &near, &frame);
			if (i % 9 == 0)
				assert_int_equal(subtree_nearest(&t, f->s, i), near);
		}
		assert_int_equal(t.n, members);
		assert_false(subtree_has(&t, UINT32_MAX));
		subtree_fini(&t);
		keysums_fini(&k);
	}
}

/* A new function costs, too; about one in ten may pass as seen. */
static void functions_cost(void **state)
{
	enum { OF_FUNCTION = 5000, FRAMES_MAX = 400 };
	struct fixture *f = *state;
	struct model m = { .random = 9 };
	static struct plain p;
	for (size_t bytes = 20000; bytes <= 300000; bytes += 130000) {
		const struct subtree_room room = { bytes, OF_STACK, OF_FUNCTION, 3 };
		const struct store_frame *seen[FRAMES_MAX];
		size_t cost = 0, n_seen = 0, least = 1;
		struct subtree t;
		struct keysums k;
		draw(&m, f->s, &p, &k);
		static uint32_t by_rank[STACKS_MAX], rank_of[STACKS_MAX];
		rank(&p, by_rank, rank_of);
		for (uint32_t at = 0; at + 1 < p.n; at++) {
			uint32_t i = by_rank[at], parent, frame;
			if (!p.total[i])
				break;
			store_stack(f->s, i, &parent, &frame);
			const struct store_frame *fr = store_frame(f->s, frame);
			bool is_new = true;
			for (size_t s = 0; s < n_seen; s++)
				is_new &= seen[s]->function != fr->function ||
					  seen[s]->module != fr->module ||
					  (!fr->function && seen[s]->offset != fr->offset);
			if (is_new)
				seen[n_seen++] = fr;
			cost += OF_STACK + (is_new ? OF_FUNCTION : 0);
			if (cost > bytes)
				break;
			least++;
		}
		assert_int_equal(subtree_choose(&t, &k, f->s, &room), 0);
		assert_true(t.n >= least && t.n <= bytes / OF_STACK + 1);
		if (t.n < p.n / 2) /* else there were no more */
			assert_true(t.n < bytes / OF_STACK);
		subtree_fini(&t);
		keysums_fini(&k);
	}
}

/* Few samples go to the parent, from the highest id down; nothing is lost. */
static void small_ones_are_carried(void **state)
{
	struct fixture *f = *state;
	struct model m = { .random = 6 };
	static struct plain p;
	for (int trial = 0; trial < TRIALS; trial++) {
		struct keysums k;
		size_t n = 0;
		draw(&m, f->s, &p, &k);
		/* A small table, as one that has filled up. */
		k.max_cap = 16u << trial % 4;
		const uint64_t least = p.total[0] / (keysums_max(&k) / 4) + 1;
		k.missed = 3;
		assert_int_equal(subtree_carry(&k, f->s), 0);
		assert_int_equal(k.missed, 3 + least);
		for (uint32_t i = p.n; i-- > 0;) {
			const struct keysum *left = keysums_find(&k, i);
			uint32_t parent, frame;
			store_stack(f->s, i, &parent, &frame);
			if (i && p.own[i] < least) {
				p.own[parent] += p.own[i];
				assert_null(left);
			} else if (p.own[i]) {
				assert_non_null(left);
				assert_int_equal(left->samples, p.own[i]);
				n++;
			}
		}
		assert_int_equal(k.n, n);
		keysums_fini(&k);
	}
}

/* As many samples as a stack must have to stay, and one less. */
static void just_enough(void **state)
{
	struct fixture *f = *state;
	const uint32_t last = store_n_stacks(f->s) - 1;
	for (uint64_t less = 0; less < 2; less++) {
		struct keysums k;
		keysums_init(&k, 1 << 12);
		k.max_cap = 16; /* 12 keys: each has a third of all samples, and one more */
		assert_int_equal(keysums_add(&k, last, 3 - less, 0), 0);
		assert_int_equal(keysums_add(&k, last - 1, 3 + less, 0), 0);
		assert_int_equal(subtree_carry(&k, f->s), 0);
		assert_int_equal(k.missed, 3);
		assert_int_equal(keysums_find(&k, last) != NULL, !less);
		assert_non_null(keysums_find(&k, last - 1));
		keysums_fini(&k);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_heaviest_are_chosen),
		cmocka_unit_test(functions_cost),
		cmocka_unit_test(small_ones_are_carried),
		cmocka_unit_test(just_enough),
	};
	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
