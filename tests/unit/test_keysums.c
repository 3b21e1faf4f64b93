/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of a stream in a table that is too small: none is lost that is larger than what was
 * taken away.
 */
#include "util/keysums.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KEYS 20000

static uint64_t random_state;

static uint32_t draw(uint32_t below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((random_state >> 32) * below >> 32);
}

/* Small keys come more often. */
static uint32_t draw_key(void)
{
	return draw(draw(KEYS) + 1);
}

/* Return the sum of all samples; want[] has those of each key. */
static uint64_t add_stream(struct keysums *k, uint64_t *want)
{
	uint64_t all = 0;
	for (int i = 0; i < 200000; i++) {
		uint32_t key = draw_key(), samples = 1 + draw(5);
		int rc = keysums_add(k, key, samples, 0);
		if (rc == -ENOBUFS) {
			keysums_shrink(k);
			rc = keysums_add(k, key, samples, 0);
		}
		assert_int_equal(rc, 0);
		want[key] += samples;
		all += samples;
	}
	return all;
}

static void largest_keys(void **state)
{
	static uint64_t want[KEYS];
	(void)state;
	for (size_t bytes = 1 << 13; bytes <= 1 << 19; bytes *= 2) {
		struct keysums k;
		random_state = bytes;
		memset(want, 0, sizeof(want));
		keysums_init(&k, bytes);
		uint64_t all = add_stream(&k, want);
		for (uint32_t i = 0; i < KEYS; i++) {
			struct keysum *s = keysums_find(&k, i);
			assert_true(s ? s->samples <= want[i] && s->samples + k.missed >= want[i]
				      : want[i] <= k.missed);
		}
		assert_true(k.missed <= all / (keysums_max(&k) / 2));
		keysums_fini(&k);
	}
}

static int descending(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x < y) - (x > y);
}

/* Sums of all magnitudes: what is taken away from each is their median, as qsort tells it. */
static void median_is_taken_away(void **state)
{
	static uint64_t sum[KEYS];
	(void)state;
	for (size_t n = 1; n < KEYS; n = 3 * n + n % 7) {
		const uint64_t same = draw(3) ? 0 : (uint64_t)draw(UINT32_MAX) << draw(32);
		struct keysums k;
		keysums_init(&k, 1 << 21);
		for (uint32_t i = 0; i < n; i++) {
			sum[i] =
				same + ((uint64_t)draw(UINT32_MAX) >> draw(32) << draw(n % 32 + 1));
			assert_int_equal(keysums_add(&k, i, sum[i], 0), 0);
		}
		keysums_shrink(&k);
		uint64_t *sorted = malloc(n * sizeof(*sorted));
		assert_non_null(sorted);
		memcpy(sorted, sum, n * sizeof(*sum));
		qsort(sorted, n, sizeof(*sorted), descending);
		assert_int_equal(k.missed, sorted[n / 2]);
		for (uint32_t i = 0; i < n; i++) {
			const struct keysum *s = keysums_find(&k, i);
			assert_int_equal(s ? s->samples : 0,
					 sum[i] > k.missed ? sum[i] - k.missed : 0);
		}
		free(sorted);
		keysums_fini(&k);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(largest_keys),
					    cmocka_unit_test(median_is_taken_away) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
