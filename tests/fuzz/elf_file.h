/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ELF file around sections that come from an input: the bytes of its headers are right, so that
 * what reads the sections is reached. One segment of code, [0, ELF_FILE_TEXT).
 */
#ifndef TESTS_FUZZ_ELF_FILE_H
#define TESTS_FUZZ_ELF_FILE_H

#include "fuzz/input.h"

#include <elf.h>

#define ELF_FILE_TEXT (1u << 20)
#define ELF_FILE_SECTIONS 10

struct elf_part {
	const char *name;
	uint32_t type, link; /* link: of the part with that number, from 1 on */
	uint64_t flags, addr, entsize, memory;
	bool placed; /* its address is its place in the file */
	const void *bytes;
	size_t size;
};

struct elf_file_head {
	Elf64_Ehdr eh;
	Elf64_Phdr text;
	Elf64_Shdr sh[ELF_FILE_SECTIONS + 2];
	char names[256];
};

/* To be freed. The parts follow each other behind the head. */
static inline uint8_t *elf_file(uint16_t machine, const struct elf_part *v, size_t n,
				size_t *ret_size)
{
	struct elf_file_head h = {
		.text = { .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_memsz = ELF_FILE_TEXT }
	};
	size_t at = sizeof(h), name = 1;
	require(n <= ELF_FILE_SECTIONS);
	memcpy(h.eh.e_ident, ELFMAG "\2\1\1", 7);
	h.eh.e_type = ET_DYN;
	h.eh.e_machine = machine;
	h.eh.e_entry = UINT64_MAX; /* it is not entered */
	h.eh.e_phoff = (uint64_t)((char *)&h.text - (char *)&h);
	h.eh.e_phnum = 1;
	h.eh.e_phentsize = sizeof(h.text);
	h.eh.e_shoff = (uint64_t)((char *)h.sh - (char *)&h);
	h.eh.e_shnum = (uint16_t)(n + 2);
	h.eh.e_shentsize = sizeof(h.sh[0]);
	h.eh.e_shstrndx = (uint16_t)(n + 1);
	for (size_t i = 0; i < n; i++) {
		h.sh[i + 1] = (Elf64_Shdr){ .sh_name = (uint32_t)name,
					    .sh_type = v[i].type,
					    .sh_flags = v[i].flags,
					    .sh_addr = v[i].placed ? at : v[i].addr,
					    .sh_offset = at,
					    .sh_size = v[i].memory ? v[i].memory : v[i].size,
					    .sh_link = v[i].link,
					    .sh_entsize = v[i].entsize };
		strcpy(h.names + name, v[i].name);
		name += strlen(v[i].name) + 1;
		at += v[i].size;
	}
	h.sh[n + 1] = (Elf64_Shdr){ .sh_type = SHT_STRTAB,
				    .sh_offset = (uint64_t)(h.names - (char *)&h),
				    .sh_size = sizeof(h.names) };
	h.text.p_filesz = at < ELF_FILE_TEXT ? at : ELF_FILE_TEXT;
	uint8_t *f = malloc(at);
	require(f != NULL);
	memcpy(f, &h, sizeof(h));
	at = sizeof(h);
	for (size_t i = 0; i < n; at += v[i++].size)
		if (v[i].size)
			memcpy(f + at, v[i].bytes, v[i].size);
	*ret_size = at;
	return f;
}

#endif
