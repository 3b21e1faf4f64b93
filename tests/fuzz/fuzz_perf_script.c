/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: what perf script prints.
 *
 * Covers: import/perf_script.c
 */
#include "fuzz/import.h"
#include "import/perf_script.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perf_script s = { 0 };
	struct profile_labels l = { 0 };
	char *copy = copy_of(data, size);
	FILE *f = size ? fmemopen(copy, size, "r") : NULL;
	int more = f != NULL;
	while (more > 0) {
		struct profile p = { .limits = &profile_file };
		more = perf_script_read(&s, f, 1000000000, 16, &l, &p, NULL);
		require(p.n_samples <= 16);
		check_profile(&p);
		profile_fini(&p);
	}
	perf_script_fini(&s);
	if (f)
		fclose(f);
	free(copy);
	return 0;
}
