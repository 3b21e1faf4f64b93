/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: folded stacks and Pyroscope's lines. The first byte chooses.
 *
 * Covers: import/folded.c
 */
#include "fuzz/import.h"
#include "import/folded.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct folded_form form = { 100, take_byte(&in) % 2 == 0 };
	struct profile p = { .limits = &profile_file };
	struct profile_labels l = { 0 };
	size_t line = 0;
	while (in.left && in.p[in.left - 1] != '\n') /* whole lines */
		in.left--;
	uint8_t *copy = (uint8_t *)copy_of(in.p, in.left);
	if (!profile_add_folded(&p, copy, in.left, &form, &line, &l, NULL))
		check_profile(&p);
	profile_fini(&p);
	free(copy);
	return 0;
}
