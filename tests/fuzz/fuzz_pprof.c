/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: pprof, gzipped or not: twice into one profile, and into one with little room.
 *
 * Covers: import/pprof.c util/gunzip.c
 */
#include "fuzz/import.h"
#include "fuzz/protobuf.h"
#include "import/pprof.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	return protobuf_mutate_behind(0, data, size, max, seed);
}

static void read_pprof(const uint8_t *data, size_t size, struct profile p)
{
	struct profile_labels l = { 0 };
	if (!profile_add_pprof(&p, data, size, &l, NULL)) {
		check_profile(&p);
		if (!profile_add_pprof(&p, data, size, &l, NULL))
			check_profile(&p);
	}
	profile_fini(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	read_pprof(data, size, (struct profile){ 0 });
	read_pprof(data, size, (struct profile){ .limits = &small_limits });
	return 0;
}
