/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: unwind rules of an ELF file whose headers are right. A byte says the machine, what is
 * there, and whether the program starts in the code. Pieces: .eh_frame, .debug_frame, the code of
 * .text, for which rules are made where it has none. Each eighth byte of the code begins a
 * function, or some other symbol is there. The table goes to the recorder's side as a worker sends
 * it; so does the input itself.
 *
 * Covers: unwind/program.c unwind/compile.c unwind/table.c unwind/code.c unwind/frame.c
 * unwind/request.c
 */
#include "fuzz/elf_file.h"
#include "unwind/request.h"

#include <errno.h>

enum { EH_FRAME = 1, DEBUG_FRAME = 2, CODE = 4, ARM64 = 8, SYMBOLS = 16, START = 32 };

#define FUNCTIONS 16
#define CODE_AT 1100 /* in it, or before it */

static void check_table(const struct unwind_table *t)
{
	require(t->n_rules <= UNWIND_FILE_RULES_MAX);
	/* Rows of a page ascend, so that the search finds what it should. */
	for (uint32_t p = 0; p < t->n_pages; p++)
		for (uint32_t i = t->page_at[p] + 1; i < t->page_at[p + 1]; i++)
			require(t->rows[i - 1] >> UNWIND_RULE_BITS < t->rows[i] >>
				UNWIND_RULE_BITS);
	for (uint64_t at = 0; at < ELF_FILE_TEXT; at += 4093)
		unwind_table_find(t, at);
}

static void send_table(const struct unwind_table *t)
{
	struct buf b = BUF_INIT;
	struct unwind_table *got = NULL;
	if (well(unwind_encode(t, &b)) && well(unwind_decode(&got, &b)))
		check_table(got);
	unwind_table_free(got);
	buf_fini(&b);
}

static void compile(const struct elf_image *img)
{
	struct unwind_table *t = NULL;
	if (!unwind_compile(&t, img, "fuzz", NULL)) {
		check_table(t);
		send_table(t);
	}
	unwind_table_free(t);
}

/* What a worker answers about the file, and the input as an answer. */
static void answer(const uint8_t *file, size_t file_size, const uint8_t *data, size_t size)
{
	const int fd = file_of(file, file_size);
	struct sandbox_request q = { .bytes = (const uint8_t *)"fuzz", .len = 4, .fds = &fd };
	struct buf out = BUF_INIT;
	struct unwind_table *t = NULL;
	require(unwind_op(&q, &out) == -EINVAL);
	q.n_fds = 1;
	if (!unwind_op(&q, &out) && well(unwind_decode(&t, &out)))
		check_table(t);
	unwind_table_free(t);
	t = NULL;
	out.len = 0;
	if (!buf_add(&out, data, size) && !unwind_decode(&t, &out))
		for (uint64_t at = 0; at < ELF_FILE_TEXT; at += 4093)
			unwind_table_find(t, at);
	unwind_table_free(t);
	buf_fini(&out);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t infos[8] = {
		ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),   ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
		ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE), ELF64_ST_INFO(STB_LOCAL, STT_NOTYPE),
		ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), ELF64_ST_INFO(STB_WEAK, STT_FUNC),
		ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),   ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
	};
	struct input in = { data, size };
	uint8_t there = take_byte(&in), *pieces[3];
	struct elf_part parts[ELF_FILE_SECTIONS];
	Elf64_Sym symbols[FUNCTIONS];
	size_t len[3], n = 0, file_size;
	struct elf_image img;
	for (size_t i = 0; i < 3; i++)
		pieces[i] = take_piece(&in, &len[i]);
	for (size_t i = 0; i < 2; i++)
		if (there & (EH_FRAME << i))
			parts[n++] = (struct elf_part){ .name = i ? ".debug_frame" : ".eh_frame",
							.type = SHT_PROGBITS,
							.addr = ELF_FILE_TEXT / 2,
							.bytes = pieces[i],
							.size = len[i] };
	if (there & CODE)
		parts[n++] = (struct elf_part){ .name = ".text",
						.type = SHT_PROGBITS,
						.flags = SHF_ALLOC | SHF_EXECINSTR,
						.placed = true,
						.bytes = pieces[2],
						.size = len[2] };
	if (there & SYMBOLS) {
		parts[n++] = (struct elf_part){
			.name = ".strtab", .type = SHT_STRTAB, .bytes = "", .size = 1
		};
		parts[n] = (struct elf_part){ .name = ".symtab",
					      .type = SHT_SYMTAB,
					      .link = (uint32_t)n,
					      .entsize = sizeof(symbols[0]),
					      .bytes = symbols,
					      .size = sizeof(symbols) };
		n++;
		for (size_t i = 0; i < FUNCTIONS; i++)
			symbols[i] = (Elf64_Sym){ .st_info = infos[i % 8],
						  .st_shndx = i != 7,
						  .st_value = CODE_AT + 8 * i };
	}
	uint8_t *f = elf_file(there & ARM64 ? EM_AARCH64 : EM_X86_64, parts, n, &file_size);
	if (there & START) /* of the program, in the code */
		((Elf64_Ehdr *)f)->e_entry = CODE_AT + 8;
	if (well(elf_image_open_memory(&img, f, file_size, "fuzz", NULL))) {
		compile(&img);
		elf_image_fini(&img);
	}
	answer(f, file_size, data, size);
	free(f);
	for (size_t i = 0; i < 3; i++)
		free(pieces[i]);
	return 0;
}
