/* SPDX-License-Identifier: Apache-2.0 */
/* Questions within a budget to stores of many files. */
#include "bounded_by_hand.h"

/* Each window has a file with stacks and functions of its own: most are not part of the answer. */
static void ask_many_files(const char *where, uint64_t share, bool bounded)
{
	enum { FILES = 20, STACKS = 20000 };
	struct store_options o;
	store_options_default(&o);
	o.windows_only = true;
	o.symbols_bytes = 1;
	empty(&fixture, (struct size){ 0 }, 1);
	struct store_writer *w = begin_store(&fixture, &o);
	for (uint32_t i = 0; i < FILES; i++) {
		uint32_t event = add_event(w, "event"), set[2] = { 0 };
		const struct label label = { .key = "tenant",
					     .key_len = 6,
					     .str = "t1",
					     .str_len = 2,
					     .type = LABEL_STRING };
		assert_int_equal(store_add_set(w, &label, 1, &set[1]), 0);
		for (uint32_t k = 0; k < STACKS; k++) {
			char name[24];
			snprintf(name, sizeof(name), "f%u_%u", i, k);
			uint32_t stack = add_stack(w, 0, name);
			assert_int_equal(store_add_row(w, set[k % 50 == 0], stack, event, 1, 1), 0);
		}
		commit(w, 1 + i * WINDOW_NS);
		assert_true(store_renew(w));
		store_renew_end(w);
	}
	ask_store(&fixture, w, "event", where, (size_t)32 << 20, FILES * STACKS * share / 50,
		  bounded);
}

static void many_files(void **state)
{
	(void)state;
	ask_many_files(NULL, 50, true);
	ask_many_files("tenant!=\"t1\"", 49, true);
	/* Stacks of others take no room: the answer is whole. */
	ask_many_files("tenant=\"t1\"", 1, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
