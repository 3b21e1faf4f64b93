/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: perf maps, from the file to the recorder's table, and what their names say. Behind
 * '*' stands what is there again and again: more than is read at a time.
 *
 * Covers: symbols/jit_map.c symbols/jit.c symbols/jit_name.c
 */
#include "fuzz/jit.h"

#define LONG (300u * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2 || *data != '*') {
		read_jit(data, size, JIT_PERF_MAP);
		return 0;
	}
	uint8_t *all = malloc(LONG);
	require(all != NULL);
	for (size_t i = 0; i < LONG; i++)
		all[i] = data[1 + i % (size - 1)];
	read_jit(all, LONG, JIT_PERF_MAP);
	free(all);
	return 0;
}
