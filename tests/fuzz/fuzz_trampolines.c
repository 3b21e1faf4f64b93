/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: bindings of trampolines (include/ascribe/trampoline_abi.h): a table, then bindings.
 *
 * Covers: labels/binding.c
 */
#include "fuzz/input.h"
#include "labels/binding.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct ascribe_trampoline_table t;
	struct ascribe_binding v[4];
	struct label labels[BINDING_LABELS_MAX];
	uint64_t from = take_byte(&in), to = from + take_byte(&in);
	take_bytes(&in, &t, sizeof(t));
	binding_check_table(&t);
	size_t n = 0;
	while (n < 4 && in.left)
		take_bytes(&in, &v[n++], sizeof(v[0]));
	const struct ascribe_binding *b = binding_during(v, n, from, to);
	if (b) {
		size_t k = binding_labels(b, labels);
		require(k <= BINDING_LABELS_MAX && k == labels_normalize(labels, k));
	}
	return 0;
}
