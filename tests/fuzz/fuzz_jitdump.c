/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: jitdumps, from the file to the recorder's table.
 *
 * Covers: symbols/jit_dump.c
 */
#include "fuzz/jit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	read_jit(data, size, JIT_DUMP);
	return 0;
}
