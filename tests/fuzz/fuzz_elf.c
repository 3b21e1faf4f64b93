/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: an ELF image, its symbols, notes and names. The input: a small file, as it is.
 *
 * Covers: elf/*.c
 */
#include "elf/accessor.h"
#include "elf/go.h"
#include "elf/section.h"
#include "elf/tls.h"
#include "fuzz/input.h"
#include "symbols/symbols.h"

static void ask(struct binary *b, uint64_t vaddr)
{
	struct symbol s;
	if (binary_find(b, vaddr, &s))
		return;
	if (s.start > vaddr || (s.size && vaddr - s.start >= s.size) || strlen(s.name) > 10000)
		abort();
	++*s.tag;
}

/* What is asked of files of programs that publish labels. */
static void ask_variables(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "custom_labels_current_set", "otel_thread_ctx_v1",
					     "debug*", "main", NULL };
	struct elf_variable v[8];
	struct elf_image img;
	struct elf_go_layout layout;
	struct elf_section text;
	struct accessor_step steps[ACCESSOR_STEPS_MAX];
	int64_t at;
	if (elf_image_open_memory(&img, data, size, "fuzz", NULL))
		return;
	int n = elf_variables(&img, names, v, 8);
	require(n <= 8);
	for (int i = 0; i < n; i++)
		elf_static_tls(&img, v[i].value);
	elf_is_executable(&img);
	elf_uses_musl(&img);
	elf_go_layout(elf_go_version(&img), &layout);
	elf_go_tls(&img, &at);
	if (!elf_section_read(&img, ".text", 1 << 16, &text)) {
		for (size_t i = 0; i < text.size && i < 256; i++)
			require(accessor_decode(text.bytes + i, text.size - i, text.vaddr + i,
						steps) <= ACCESSOR_STEPS_MAX);
		elf_section_fini(&text);
	}
	elf_image_fini(&img);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct binary *b = NULL;
	const uint8_t *id;
	uint64_t vaddr, bias;
	struct err err;
	ask_variables(data, size);
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
