/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: an ELF image, its symbols, notes and names.
 *
 *   make fuzz
 *   build/fuzz/fuzz_elf -max_len=65536 CORPUS   with small .so files in it
 */
#include "symbols/symbols.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(struct binary *b, uint64_t vaddr)
{
	struct symbol s;
	if (binary_find(b, vaddr, &s))
		return;
	if (s.start > vaddr || (s.size && vaddr - s.start >= s.size) || strlen(s.name) > 10000)
		abort();
	++*s.tag;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct binary *b = NULL;
	const uint8_t *id;
	uint64_t vaddr, bias;
	struct err err;
	if (binary_open_memory(&b, data, size, "fuzz", &err))
		return 0;
	binary_build_id(b, &id);
	binary_label_descriptor(b, &vaddr);
	ask(b, 0);
	for (uint64_t off = 0; off < size; off += 1 + size / 200)
		if (!binary_bias(b, off, off, &bias))
			ask(b, off - bias);
	/*
	 * Whatever the symbols claim as their place: every eighth word of the file as an address.
	 */
	for (size_t at = 0; at + 8 <= size; at += 64) {
		memcpy(&vaddr, data + at, 8);
		ask(b, vaddr);
	}
	if (binary_memory(b) > (64u << 20) + 16 * size)
		abort();
	binary_free(b);
	return 0;
}
