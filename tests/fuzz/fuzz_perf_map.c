/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: perf maps, from the file to the recorder's table, and what their names say.
 *
 * Covers: symbols/jit_map.c symbols/jit.c symbols/jit_name.c
 */
#include "fuzz/jit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	read_jit(data, size, JIT_PERF_MAP);
	return 0;
}
