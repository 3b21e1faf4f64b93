/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: symbol_demangle on any bytes, into rooms of several sizes. Built by `make fuzz`. */
#include "symbols/symbols.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t rooms[] = { 8192, 1, 2, 17, 300 };
	char *name = malloc(size + 1);
	memcpy(name, data, size);
	name[size] = '\0';
	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		char *out = malloc(rooms[i]);
		symbol_demangle(name, out, rooms[i]);
		if (!memchr(out, '\0', rooms[i]))
			abort();
		free(out);
	}
	free(name);
	return 0;
}
