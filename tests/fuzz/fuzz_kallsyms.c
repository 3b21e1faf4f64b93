/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: /proc/kallsyms.
 *
 * Covers: symbols/kernel.c
 */
#include "fuzz/input.h"
#include "symbols/symbols.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kernel_symbols *k = NULL;
	struct symbol s;
	struct err err = { 0 };
	int fd = file_of(data, size);
	char path[40];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!kernel_symbols_read(&k, path, &err)) {
		for (size_t at = 0; at + 16 <= size; at++) {
			char hex[17] = "";
			memcpy(hex, data + at, 16);
			uint64_t addr = strtoull(hex, NULL, 16);
			if (!kernel_symbols_find(k, addr, &s))
				require(s.start <= addr && s.name && s.module);
		}
		kernel_symbols_memory(k);
	}
	kernel_symbols_free(k);
	close(fd);
	return 0;
}
