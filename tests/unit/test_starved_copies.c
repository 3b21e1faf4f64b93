/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As test_starved, for copies of parents whose windows are gone: a lack of memory is an error that
 * says so, and a store that was to lose rows is as it was.
 */
#include "fault/alloc.c"
#include "unit/starved.h"

static void copies(void **state)
{
	(void)state;
	starve("merge of parents", run_merge_coarse);
	starve("delete from parents", run_delete_coarse);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(copies) };
	return cmocka_run_group_tests(tests, make_stores, remove_stores);
}
