/* SPDX-License-Identifier: Apache-2.0 */
/* How often the pool of label sets sorts: the linker puts a count in place of labels_normalize. */
#include "store/dict/setpool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

/* In place of labels_normalize for the store: counts its calls. */
static unsigned n_normalized;
size_t __real_labels_normalize(struct label *v, size_t n);
size_t __wrap_labels_normalize(struct label *v, size_t n);

size_t __wrap_labels_normalize(struct label *v, size_t n)
{
	n_normalized++;
	return __real_labels_normalize(v, n);
}

/* A set that is there is found without sorting the list; one that is new is sorted once. */
static void test_sorted_once(void **ctx)
{
	struct label v[11];
	static char keys[11][8];
	struct setpool pool;
	uint32_t id, again;
	(void)ctx;
	assert_int_equal(setpool_init(&pool), 0);
	for (uint32_t i = 0; i < 11; i++) {
		snprintf(keys[i], sizeof(keys[i]), "key%u", (10 - i) * 7 % 11);
		v[i] = (struct label){ .key = keys[i],
				       .key_len = (uint32_t)strlen(keys[i]),
				       .type = LABEL_INT };
	}
	for (int set = 0; set < 50; set++) {
		v[3].num = set;
		n_normalized = 0;
		assert_int_equal(setpool_add(&pool, v, 11, &id), 0);
		assert_int_equal(n_normalized, 1);
		for (int row = 0; row < 20; row++) {
			assert_int_equal(setpool_add(&pool, v, 11, &again), 0);
			assert_int_equal(again, id);
			const struct label first = v[4];
			memmove(v + 4, v + 5, 6 * sizeof(v[0])); /* in another order */
			v[10] = first;
			assert_true(setpool_find(&pool, v, 11, &again));
			assert_int_equal(again, id);
		}
		assert_int_equal(n_normalized, 1);
	}
	setpool_fini(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_sorted_once) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
