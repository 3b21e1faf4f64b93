/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: jitdumps, from the file to the recorder's table. With 'x' as a flag in its header, a
 * dump has a long record before its others: up to the next flag's bytes before the end of what is
 * read at a time.
 *
 * Covers: symbols/jit_dump.c
 */
#include "fuzz/jit.h"

#include <string.h>

#define HEADER 40u
#define FLAGS 32u /* of the header */
#define WINDOW (256u * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < HEADER || data[FLAGS] != 'x') {
		read_jit(data, size, JIT_DUMP);
		return 0;
	}
	const uint32_t gap = WINDOW - HEADER - data[FLAGS + 1];
	uint8_t *all = calloc(1, size + gap);
	require(all != NULL);
	memcpy(all, data, HEADER);
	all[HEADER] = 9; /* no record that is known */
	memcpy(all + HEADER + 4, &gap, sizeof(gap));
	memcpy(all + HEADER + gap, data + HEADER, size - HEADER);
	read_jit(all, size + gap, JIT_DUMP);
	free(all);
	return 0;
}
