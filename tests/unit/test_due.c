/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of work: by time against a search through all, lists against an array. */
#include "util/due.h"
#include "util/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <stdlib.h>

#define ITEMS 500
#define STEPS 100000

static void test_order(void **state)
{
	(void)state;
	static struct due_item item[ITEMS];
	struct due q = { 0 };
	srand(3);
	for (unsigned step = 0; step < STEPS; step++) {
		struct due_item *i = &item[(unsigned)rand() % ITEMS], *least = NULL;
		size_t n = 0;
		if (rand() % 3)
			assert_int_equal(due_put(&q, i, (uint64_t)rand() % 1000), 0);
		else
			due_remove(&q, i);
		for (size_t k = 0; step % 16 == 0 && k < ITEMS; k++) {
			if (!item[k].place)
				continue;
			n++;
			if (!least || item[k].at_ns < least->at_ns)
				least = &item[k];
		}
		if (step % 16)
			continue;
		assert_int_equal(q.n, n);
		assert_true(!least == !due_first(&q));
		assert_true(!least || due_first(&q)->at_ns == least->at_ns);
	}
	uint64_t last = 0;
	for (struct due_item *i; (i = due_first(&q)); due_remove(&q, i)) {
		assert_true(i->at_ns >= last);
		last = i->at_ns;
	}
	due_fini(&q);
}

static void test_list(void **state)
{
	(void)state;
	struct thing {
		int value;
		struct list_node node;
	} v[5] = { { .value = 0 }, { .value = 1 }, { .value = 2 }, { .value = 3 }, { .value = 4 } };
	struct list l = { 0 };
	for (int i = 0; i < 5; i++)
		list_append(&l, &v[i].node);
	list_remove(&l, &v[0].node);
	list_remove(&l, &v[2].node);
	list_remove(&l, &v[2].node); /* is in none */
	list_remove(&l, &v[4].node);
	list_append(&l, &v[0].node);
	static const int want[] = { 1, 3, 0 };
	size_t n = 0;
	for (struct list_node *i = l.first; i; i = i->after)
		assert_int_equal(LIST_ENTRY(i, struct thing, node)->value, want[n++]);
	assert_int_equal(n, 3);
	assert_int_equal(l.n, 3);
	assert_ptr_equal(l.last, &v[0].node);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_list),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
