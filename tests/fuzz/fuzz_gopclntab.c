/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: .gopclntab in an ELF file whose headers are right: its functions, their depths, and
 * the unwind rules made of them.
 *
 * Covers: symbols/gopclntab.c unwind/go.c
 */
#include "fuzz/elf_file.h"
#include "symbols/gopclntab.h"
#include "symbols/table.h"
#include "unwind/unwind.h"

static int count_depth(void *ctx, uint64_t vaddr, uint64_t end, uint32_t depth)
{
	(void)depth;
	require(vaddr <= end);
	return ++*(unsigned *)ctx > 100000;
}

static int look(void *ctx, const struct go_function *f)
{
	unsigned n = 0;
	(void)ctx;
	gopclntab_is_named(f, "runtime.");
	gopclntab_depths(f, count_depth, &n);
	return 0;
}

static void read_all(const struct elf_image *img)
{
	static const struct table_parts some = { { 0, 0x10, 0x20, 0x1000, ELF_FILE_TEXT }, 5 };
	struct unwind_table *u = NULL;
	struct go_names names;
	struct table t;
	gopclntab_is_there(img);
	gopclntab_walk(img, 10000, &names, look, NULL);
	gopclntab_walk(img, 1, &names, look, NULL);
	gopclntab_walk_at(img, some.vaddr, some.n, &names, look, NULL);
	table_read_parts(&t, img, &some, "fuzz", NULL);
	table_fini(&t);
	if (!unwind_compile(&u, img, "fuzz", NULL))
		require(u->n_rules <= UNWIND_FILE_RULES_MAX);
	unwind_table_free(u);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct elf_part parts[] = { { .name = ".text",
					    .type = SHT_NOBITS,
					    .flags = SHF_ALLOC | SHF_EXECINSTR,
					    .memory = ELF_FILE_TEXT },
					  { .name = ".gopclntab",
					    .type = SHT_PROGBITS,
					    .flags = SHF_ALLOC,
					    .addr = ELF_FILE_TEXT,
					    .bytes = data,
					    .size = size } };
	struct elf_image img;
	size_t file_size;
	/* Byte 6: how many bytes an instruction has at least, 1 on x86-64. */
	const uint16_t machine = size > 6 && data[6] == 4 ? EM_AARCH64 : EM_X86_64;
	uint8_t *file = elf_file(machine, parts, 2, &file_size);
	if (well(elf_image_open_memory(&img, file, file_size, "fuzz", NULL))) {
		read_all(&img);
		elf_image_fini(&img);
	}
	free(file);
	return 0;
}
