/* SPDX-License-Identifier: Apache-2.0 */
/* Attaching from a shared library: initial-exec, the slot's offset is read from the GOT. */
#include <ascribe/label.h>

#include "bench_attach.h"

static void attach_detach(long n)
{
	struct ascribe_label_set set;
	struct ascribe_scope scope;
	ascribe_set_init(&set);
	ascribe_set_add_int(&set, "query_id", 42);
	for (long i = 0; i < n; i++) {
		ascribe_attach(&scope, &set);
		ascribe_detach(&scope);
	}
}

static void swap(long n)
{
	struct ascribe_label_set set;
	const struct ascribe_record_header *other;
	ascribe_set_init(&set);
	other = &set.header;
	for (long i = 0; i < n; i++)
		other = ascribe_swap(other);
	ascribe_swap(NULL);
}

const struct bench_case *bench_library_cases(void)
{
	static const struct bench_case cases[] = {
		{ "attach + detach, in a shared library", attach_detach, "label/attach-library" },
		{ "swap, in a shared library", swap, "label/swap-library" },
		{ NULL, NULL, NULL },
	};
	return cases;
}
