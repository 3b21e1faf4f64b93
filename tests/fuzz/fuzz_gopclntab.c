/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: .gopclntab in an ELF file whose headers are right: its functions, their depths and
 * lines, and the unwind rules made of them.
 *
 * Covers: symbols/gopclntab.c symbols/gopclntab_lines.c unwind/go.c
 */
#include "fuzz/elf_file.h"
#include "symbols/gopclntab.h"
#include "symbols/table.h"
#include "unwind/unwind.h"

#include <string.h>

static int count_depth(void *ctx, uint64_t vaddr, uint64_t end, uint32_t depth)
{
	(void)depth;
	require(vaddr <= end);
	return ++*(unsigned *)ctx > 100000;
}

static int look_at_line(void *ctx, const struct go_line *l)
{
	require(l->line && strlen(l->file) <= GOPCLNTAB_TEXT_MAX);
	++*(unsigned *)ctx;
	return 0;
}

static int look(void *ctx, const struct go_function *f)
{
	unsigned n = 0;
	(void)ctx;
	gopclntab_is_named(f, "runtime.");
	gopclntab_lines(f, f->vaddr, 8, look_at_line, &n);
	gopclntab_lines(f, f->vaddr + f->size - 1, 8, look_at_line, &n);
	require(n <= 16);
	n = 0;
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

/*
 * The runtime's moduledata and build info, of Go 1.19 or 1.24 as the table's magic number says.
 * gofunc is the table itself. By bits of the last byte: an unknown version, no gofunc, none of it.
 */
static void make_module(const uint8_t *data, size_t size, uint64_t module[64], char info[64])
{
	const bool old = size && data[0] == 0xf0;
	const uint8_t lacks = size ? data[size - 1] & 7 : 0;
	uint64_t names = 0;
	memset(module, 0, 64 * sizeof(*module));
	memset(info, 0, 64);
	if (size >= 40)
		memcpy(&names, data + 32, sizeof(names));
	module[0] = lacks & 4 ? 0 : ELF_FILE_TEXT;
	module[1] = ELF_FILE_TEXT + names;
	module[old ? 38 : 40] = lacks & 2 ? 0 : sizeof(struct elf_file_head);
	memcpy(info, "\xff Go buildinf:\x08\x02", 16);
	memcpy(info + 32, lacks & 1 ? "\x06go1.99" : old ? "\x06go1.19" : "\x06go1.24", 7);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t module[64];
	char info[64];
	make_module(data, size, module, info);
	const struct elf_part parts[] = { { .name = ".text",
					    .type = SHT_NOBITS,
					    .flags = SHF_ALLOC | SHF_EXECINSTR,
					    .memory = ELF_FILE_TEXT },
					  { .name = ".gopclntab",
					    .type = SHT_PROGBITS,
					    .flags = SHF_ALLOC,
					    .addr = ELF_FILE_TEXT,
					    .bytes = data,
					    .size = size },
					  { .name = ".noptrdata",
					    .type = SHT_PROGBITS,
					    .placed = true,
					    .bytes = module,
					    .size = sizeof(module) },
					  { .name = ".go.buildinfo",
					    .type = SHT_PROGBITS,
					    .placed = true,
					    .bytes = info,
					    .size = sizeof(info) } };
	struct elf_image img;
	size_t file_size;
	/* Byte 6: how many bytes an instruction has at least, 1 on x86-64. */
	const uint16_t machine = size > 6 && data[6] == 4 ? EM_AARCH64 : EM_X86_64;
	uint8_t *file = elf_file(machine, parts, 4, &file_size);
	if (well(elf_image_open_memory(&img, file, file_size, "fuzz", NULL))) {
		read_all(&img);
		elf_image_fini(&img);
	}
	free(file);
	return 0;
}
