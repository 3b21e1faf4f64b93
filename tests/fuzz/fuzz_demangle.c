/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: mangled names, into rooms of several sizes.
 *
 * Covers: symbols/demangle.c
 */
#include "fuzz/input.h"
#include "symbols/symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t rooms[] = { 8192, 1, 2, 17, 300 };
	char none = 'x';
	char *name = copy_of(data, size);
	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		char *out = malloc(rooms[i]);
		symbol_demangle(name, out, rooms[i]);
		if (!memchr(out, '\0', rooms[i]))
			abort();
		free(out);
	}
	symbol_demangle(name, &none, 0);
	require(none == 'x');
	free(name);
	return 0;
}
