/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: call frame information. The input is an .eh_frame section: it is put into an ELF file
 * around it.
 *
 *   make fuzz
 *   objcopy -O binary --only-section=.eh_frame --set-section-flags .eh_frame=alloc FILE CORPUS/x
 *   build/fuzz/fuzz_unwind -max_len=16384 CORPUS
 */
#include "unwind/unwind.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_SIZE (1u << 20)
#define NAMES "\0.eh_frame\0.names"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct file {
	Elf64_Ehdr eh;
	Elf64_Phdr text;
	Elf64_Shdr sh[3];
	char names[24];
	uint8_t frame[];
};

static struct file *wrap(const uint8_t *data, size_t size)
{
	struct file *f = calloc(1, sizeof(*f) + size);
	if (!f)
		abort();
	memcpy(f->eh.e_ident, ELFMAG "\2\1\1", 7);
	f->eh.e_type = ET_DYN;
	f->eh.e_machine = EM_X86_64;
	f->eh.e_phoff = offsetof(struct file, text);
	f->eh.e_phnum = 1;
	f->eh.e_phentsize = sizeof(f->text);
	f->eh.e_shoff = offsetof(struct file, sh);
	f->eh.e_shnum = 3;
	f->eh.e_shentsize = sizeof(f->sh[0]);
	f->eh.e_shstrndx = 2;
	f->text = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_memsz = TEXT_SIZE };
	f->sh[1] = (Elf64_Shdr){ .sh_name = 1,
				 .sh_type = SHT_PROGBITS,
				 .sh_addr = TEXT_SIZE / 2,
				 .sh_offset = offsetof(struct file, frame),
				 .sh_size = size };
	f->sh[2] = (Elf64_Shdr){ .sh_name = 11,
				 .sh_type = SHT_STRTAB,
				 .sh_offset = offsetof(struct file, names),
				 .sh_size = sizeof(NAMES) };
	memcpy(f->names, NAMES, sizeof(NAMES));
	memcpy(f->frame, data, size);
	return f;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_image img;
	struct unwind_table *t = NULL;
	struct file *f = wrap(data, size);
	if (elf_image_open_memory(&img, f, sizeof(*f) + size, "fuzz", NULL))
		abort();
	if (!unwind_compile(&t, &img, "fuzz", NULL)) {
		if (t->n_rules > UNWIND_FILE_RULES_MAX ||
		    t->n_pages != TEXT_SIZE >> UNWIND_PAGE_BITS)
			abort();
		/* Rows of a page ascend, so that the search finds what it should. */
		for (uint32_t p = 0; p < t->n_pages; p++)
			for (uint32_t i = t->page_at[p] + 1; i < t->page_at[p + 1]; i++)
				if (t->rows[i - 1] >> UNWIND_RULE_BITS >= t->rows[i] >>
				    UNWIND_RULE_BITS)
					abort();
		for (uint64_t at = 0; at < TEXT_SIZE; at += 4093)
			unwind_table_find(t, at);
	}
	unwind_table_free(t);
	elf_image_fini(&img);
	free(f);
	return 0;
}
