/* SPDX-License-Identifier: Apache-2.0 */
/* Who held a lock, from small tables of who waited and who ended the waits. */
#include "query/holder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ROWS 300

struct rows {
	struct query_table_row v[ROWS];
	const char *values[ROWS][2];
	bool present[2];
	struct query_table table;
};

static struct rows waits, wakers;

static struct query_table_row *add(struct rows *r, const char *first, const char *second,
				   const char *module, uint64_t ns)
{
	size_t i = r->table.n_rows++;
	r->values[i][0] = first;
	r->values[i][1] = second;
	r->v[i] = (struct query_table_row){
		.values = r->values[i], .present = r->present, .module = module, .samples = ns
	};
	r->table.rows = r->v;
	return &r->v[i];
}

static int begin(void **state)
{
	(void)state;
	waits = wakers = (struct rows){ .present = { true, true } };
	return 0;
}

/* The function of the holder; NULL: there is none. */
static const char *holder(void)
{
	const struct query_table_row *r = query_holder(&waits.table, &wakers.table);
	return r ? r->values[1] : NULL;
}

/* Who ends more of the waits than it waits itself. */
static void holds_most(void **state)
{
	(void)state;
	add(&waits, "take", "lock", "/bin/app", 60);
	add(&waits, "refill", "lock", "/bin/app", 40);
	add(&waits, "read", "io", "/bin/app", 1000);
	/* take: 70% of the ends, 60% of the waits; refill: 30% and 40%; flush: none of the waits */
	add(&wakers, "worker", "take", "/bin/app", 70);
	add(&wakers, "worker", "refill", "/bin/app", 30);
	assert_string_equal(holder(), "take");
	add(&wakers, "flusher", "flush", "/bin/app", 100);
	assert_string_equal(holder(), "flush");
	/* By two threads: the sum of both counts */
	add(&wakers, "other", "take", "/bin/app", 400);
	assert_string_equal(holder(), "take");
	/* Of another program: not looked at */
	add(&wakers, "cron", "main", "/bin/cron", 100000);
	assert_string_equal(holder(), "take");
	add(&wakers, "cron", "main", NULL, 100000);
	wakers.v[0].other = wakers.v[4 - 1].other = true;
	assert_string_equal(holder(), "flush");
}

/* Two hundredths more is chance. */
static void about_as_much(void **state)
{
	(void)state;
	add(&waits, "take", "lock", "/bin/app", 500);
	add(&waits, "put", "lock", "/bin/app", 500);
	add(&wakers, "w", "take", "/bin/app", 510);
	add(&wakers, "w", "put", "/bin/app", 490);
	assert_null(holder());
	wakers.v[0].samples = 530;
	wakers.v[1].samples = 470;
	assert_string_equal(holder(), "take");
}

static void nothing_is_known(void **state)
{
	(void)state;
	assert_null(holder());
	add(&wakers, "w", "take", "/bin/app", 1);
	assert_null(holder());
	add(&waits, "read", "io", "/bin/app", 5);
	assert_null(holder());
	/* In no program; cut */
	add(&waits, "take", "lock", NULL, 5);
	add(&waits, "take", "lock", "/bin/app", 5)->other = true;
	assert_null(holder());
	/* One nanosecond is enough */
	add(&waits, "put", "lock", "/bin/app", 1);
	assert_string_equal(holder(), "take");
	waits.v[1].samples = 0;
	assert_string_equal(holder(), "take");
	waits.v[3].samples = 0;
	assert_null(holder());
	waits.v[3].samples = 1;
	wakers.v[0].samples = 0;
	assert_null(holder());
}

/* Only so many wakers are looked at, those that ended most first. */
static void many_wakers(void **state)
{
	(void)state;
	add(&waits, "take", "lock", "/bin/app", 100);
	for (size_t i = 0; i < HOLDER_ROWS - 1; i++)
		add(&wakers, "w", "take", "/bin/app", 1);
	add(&wakers, "w", "last", "/bin/app", 300);
	assert_string_equal(holder(), "last");
	wakers.values[HOLDER_ROWS - 1][1] = "take";
	add(&wakers, "w", "behind", "/bin/app", 300);
	assert_null(holder());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(holds_most, begin),
		cmocka_unit_test_setup(about_as_much, begin),
		cmocka_unit_test_setup(nothing_is_known, begin),
		cmocka_unit_test_setup(many_wakers, begin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
