/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of stores that become one: hosts, counters and where those of each store went. */
#include "store/file/meta.h"

#include "store/file/format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 256 /* names of counters: docs/format.md */

static struct store_meta joined;
static struct meta_map maps[8];

static int join(const struct store_meta *const *from, size_t n)
{
	memset(maps, 0, sizeof(maps));
	return meta_join(&joined, from, n, maps);
}

static void forget(size_t n)
{
	for (size_t i = 0; i < n; i++)
		meta_map_fini(&maps[i]);
	meta_fini(&joined);
	assert_null(joined.host);
	assert_null(maps[0].lost_at);
}

static void hosts_and_counters(void **state)
{
	static const char *const a[] = { "x", "y" }, *const b[] = { "z", "y", "w" };
	static const struct store_meta metas[] = {
		{ "one", "os", "cpu", a, 2, b, 3, 50 },
		{ "two", "os", "memory", b, 3, a, 2, 30 },
		{ "one", "os", "cpu", a, 1, b, 0, 40 },
	};
	const struct store_meta *const from[] = { &metas[0], &metas[1], &metas[2] };
	static const char *const lost[] = { "x", "y", "z", "w" }, *const flagged[] = { "z", "y",
										       "w", "x" };
	(void)state;
	assert_int_equal(join(from, 3), 0);
	assert_string_equal(joined.host, "one, two");
	assert_string_equal(joined.os, "os");
	assert_string_equal(joined.what, "cpu, memory");
	assert_int_equal(joined.created_ns, 30);
	assert_int_equal(joined.n_lost, 4);
	assert_int_equal(joined.n_flagged, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_string_equal(joined.lost_names[i], lost[i]);
		assert_string_equal(joined.flagged_names[i], flagged[i]);
	}
	for (size_t k = 0; k < 3; k++) {
		for (size_t i = 0; i < metas[k].n_lost; i++)
			assert_string_equal(lost[maps[k].lost_at[i]], metas[k].lost_names[i]);
		for (size_t i = 0; i < metas[k].n_flagged; i++)
			assert_string_equal(flagged[maps[k].flagged_at[i]],
					    metas[k].flagged_names[i]);
	}
	forget(3);
	/* In another order: what comes first is first, the earliest counts, systems differ. */
	struct store_meta late = metas[0];
	late.os = "another";
	const struct store_meta *const other[] = { &metas[1], &late };
	assert_int_equal(join(other, 2), 0);
	assert_string_equal(joined.host, "two, one");
	assert_string_equal(joined.os, "several");
	assert_string_equal(joined.what, "memory, cpu");
	assert_int_equal(joined.created_ns, 30);
	forget(2);
	const struct store_meta *const back[] = { &late, &metas[1], &late };
	assert_int_equal(join(back, 3), 0);
	assert_string_equal(joined.os, "several");
	assert_int_equal(joined.created_ns, 30);
	forget(3);
}

/* As many names as there may be, together; one more is refused. */
static void most_counters(void **state)
{
	static char text[MOST + 1][8];
	static const char *names[MOST + 1];
	(void)state;
	for (size_t i = 0; i <= MOST; i++) {
		snprintf(text[i], sizeof(text[i]), "n%zu", i);
		names[i] = text[i];
	}
	for (size_t more = 0; more < 2; more++) {
		struct store_meta a = { "h", "o", "w", names, 200, names, 1, 0 },
				  b = { "h", "o", "w", names + 100, 156 + more, names, 1, 0 };
		const struct store_meta *const from[] = { &a, &b };
		assert_int_equal(join(from, 2), more ? -E2BIG : 0);
		if (!more) {
			assert_int_equal(joined.n_lost, MOST);
			assert_string_equal(joined.lost_names[MOST - 1], names[MOST - 1]);
			assert_int_equal(maps[1].lost_at[155], MOST - 1);
			forget(2);
		} else {
			meta_map_fini(&maps[0]);
			meta_map_fini(&maps[1]);
		}
	}
}

/* Long names are cut at 200 bytes, and the list at 1023. */
static void long_names(void **state)
{
	static char text[7][301];
	static struct store_meta metas[7];
	const struct store_meta *from[7];
	char want[1500] = "";
	(void)state;
	for (size_t i = 0; i < 7; i++) {
		memset(text[i], (int)('a' + i), 300);
		metas[i] = (struct store_meta){ text[i], "o", text[i], NULL, 0, NULL, 0, 0 };
		from[i] = &metas[i];
		snprintf(want + strlen(want), sizeof(want) - strlen(want), "%s%.200s",
			 i ? ", " : "", text[i]);
	}
	want[1023] = 0;
	assert_int_equal(join(from, 7), 0);
	assert_string_equal(joined.host, want);
	assert_string_equal(joined.what, want);
	forget(7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts_and_counters),
		cmocka_unit_test(most_counters),
		cmocka_unit_test(long_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
