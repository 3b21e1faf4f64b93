/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: which functions end in others, by their code and what refers to them. The input is a
 * byte of flags, the number of functions, six bytes of each (distance to the one before, size,
 * name), and the code; with WORDS its last half is data. The file's headers are right.
 *
 * Covers: symbols/tails.c
 */
#include "fuzz/elf_file.h"
#include "symbols/tails.h"

#include <stdio.h>

enum {
	EXEC = 1,
	WORDS = 2,
	OTHER_MACHINE = 4,
	FAR = 8,      /* the last function */
	LARGE = 16,   /* the file */
	OVERLAP = 32, /* a second section of code is the same bytes */
	CUT = 64,     /* the file ends before its code does */
	LONG = 128    /* names */
};

#define NAMES 256

/* The table of the functions. False where an allocation failed. */
static bool take_table(struct input *in, uint8_t flags, uint64_t base, struct table *ret)
{
	static const char *const begins[] = { "f", "_Z", "_R", "_" };
	size_t n = take_byte(in), len = 1, room = NAMES * 260;
	uint64_t addr = 0;
	*ret = (struct table){ .base = base,
			       .entries = calloc(n ? n : 1, sizeof(*ret->entries)),
			       .n = n,
			       .names = calloc(1, room) };
	require(ret->entries && ret->names);
	for (size_t i = 0; i < n; i++) {
		uint16_t of[3];
		take_bytes(in, of, sizeof(of));
		addr += i ? of[0] : 0;
		if (i && i + 1 == n && flags & FAR)
			addr += 80u << 20;
		ret->entries[i] = (struct table_entry){
			(uint32_t)addr,
			(uint32_t)of[1] << (of[2] & 16 ? 4 : 0) |
				(of[2] & 0x8000 ? TABLE_SIZE_GUESSED : 0),
			0,
		};
		if (!(of[2] & 1))
			continue;
		ret->entries[i].name = (uint32_t)len;
		int chars = snprintf(ret->names + len, room - len, "%s%.*d", begins[of[2] >> 1 & 3],
				     flags & LONG ? 200 : 1, (int)i);
		len += (size_t)chars + 1;
	}
	ret->names_len = len;
	return well(table_make_reach(ret));
}

static void check(const struct table *t, const struct table_entry *before)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct table_entry *e = &t->entries[i];
		require(e->name < t->names_len);
		require(e->addr == before[i].addr && e->size == before[i].size);
		require(!before[i].name || e->name == before[i].name);
	}
	require(!t->names[0] && !t->names[t->names_len - 1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t flags = take_byte(&in);
	struct table t;
	struct table_entry *before;
	bool made = take_table(&in, flags, sizeof(struct elf_file_head), &t);
	before = malloc(t.n * sizeof(*before) + 1);
	require(before != NULL);
	if (t.n)
		memcpy(before, t.entries, t.n * sizeof(*before));
	bool overlap = flags & OVERLAP;
	size_t words = flags & WORDS ? in.left / 2 : 0, file_size;
	struct elf_part parts[] = { { .name = ".text",
				      .type = SHT_NOBITS,
				      .flags = SHF_ALLOC | SHF_EXECINSTR,
				      .addr = sizeof(struct elf_file_head),
				      .memory = ELF_FILE_TEXT },
				    { .name = ".text",
				      .type = SHT_PROGBITS,
				      .flags = SHF_ALLOC | SHF_EXECINSTR,
				      .placed = true,
				      .bytes = in.p,
				      .size = in.left - words },
				    { .name = ".data",
				      .type = SHT_PROGBITS,
				      .flags = SHF_ALLOC | SHF_WRITE,
				      .placed = true,
				      .bytes = in.p + in.left - words,
				      .size = words } };
	uint8_t *file = elf_file(flags & OTHER_MACHINE ? EM_AARCH64 : EM_X86_64, parts + !overlap,
				 2 + overlap, &file_size);
	((Elf64_Ehdr *)(void *)file)->e_type = flags & EXEC ? ET_EXEC : ET_DYN;
	int fd = file_of(file, file_size);
	struct elf_image img;
	if (flags & LARGE)
		require(!ftruncate(fd, 17 << 20));
	if (!elf_image_open(&img, fd, "fuzz", NULL)) {
		if (flags & CUT)
			require(!ftruncate(fd, (off_t)(file_size - in.left / 2)));
		if (made && !tails_name(&t, &img))
			check(&t, before);
		elf_image_fini(&img);
	}
	close(fd);
	free(file);
	free(before);
	table_fini(&t);
	return 0;
}
