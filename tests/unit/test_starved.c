/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every place of the store that asks for memory gets none, once. What was asked for is then an
 * error that says so, or is done in full: never a part, never something else. Stores that were
 * there are as they were, and a second try succeeds.
 */
#include "fault/alloc.c"
#include "unit/starved.h"

static void writing(void **state)
{
	(void)state;
	starve("write", run_write);
}

static void reading(void **state)
{
	(void)state;
	starve("read", run_read);
	starve("read two as one", run_read_two);
	starve("verify", run_verify);
}

static void other_stores(void **state)
{
	(void)state;
	starve("repair", run_repair);
	starve("rebuild", run_rebuild);
	starve("snapshot", run_snapshot);
	starve("merge", run_merge);
	starve("delete", run_delete);
	if (has_old)
		starve("convert", run_convert);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writing),
		cmocka_unit_test(reading),
		cmocka_unit_test(other_stores),
	};
	return cmocka_run_group_tests(tests, make_stores, remove_stores);
}
