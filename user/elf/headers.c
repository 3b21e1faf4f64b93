/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A narrow structure is not larger than its wide one. So an array of n narrow ones is read to the
 * end of the room for n wide ones and widened from the first on. That never writes over what is
 * still to be read.
 */
#include "elf/headers.h"

#include <string.h>

_Static_assert(sizeof(Elf32_Phdr) <= sizeof(Elf64_Phdr) &&
		       sizeof(Elf32_Shdr) <= sizeof(Elf64_Shdr) &&
		       sizeof(Elf32_Sym) <= sizeof(Elf64_Sym),
	       "widened in place");

size_t elf_program_header_size(const struct elf_image *img)
{
	return img->is_32 ? sizeof(Elf32_Phdr) : sizeof(Elf64_Phdr);
}

size_t elf_section_header_size(const struct elf_image *img)
{
	return img->is_32 ? sizeof(Elf32_Shdr) : sizeof(Elf64_Shdr);
}

size_t elf_symbol_size(const struct elf_image *img)
{
	return img->is_32 ? sizeof(Elf32_Sym) : sizeof(Elf64_Sym);
}

int elf_read_header(struct elf_image *img, Elf64_Ehdr *ret)
{
	Elf32_Ehdr h;
	int rc = elf_image_read(img, 0, ret->e_ident, EI_NIDENT);
	if (rc)
		return rc;
	img->is_32 = ret->e_ident[EI_CLASS] == ELFCLASS32;
	if (!img->is_32)
		return elf_image_read(img, 0, ret, sizeof(*ret));
	rc = elf_image_read(img, 0, &h, sizeof(h));
	if (rc)
		return rc;
	*ret = (Elf64_Ehdr){
		.e_type = h.e_type,
		.e_machine = h.e_machine,
		.e_version = h.e_version,
		.e_entry = h.e_entry,
		.e_phoff = h.e_phoff,
		.e_shoff = h.e_shoff,
		.e_flags = h.e_flags,
		.e_ehsize = h.e_ehsize,
		.e_phentsize = h.e_phentsize,
		.e_phnum = h.e_phnum,
		.e_shentsize = h.e_shentsize,
		.e_shnum = h.e_shnum,
		.e_shstrndx = h.e_shstrndx,
	};
	memcpy(ret->e_ident, h.e_ident, EI_NIDENT);
	return 0;
}

/* Read n narrow structures of `size` bytes behind the room that the first n wide ones will not need
 * yet. */
static int read_narrow(const struct elf_image *img, uint64_t offset, size_t n, size_t size,
		       void *room, size_t wide, const uint8_t **ret)
{
	uint8_t *at = (uint8_t *)room + n * (wide - size);
	*ret = at;
	return elf_image_read(img, offset, at, n * size);
}

int elf_read_program_headers(const struct elf_image *img, uint64_t offset, size_t n,
			     Elf64_Phdr *ret)
{
	const uint8_t *at;
	Elf32_Phdr h;
	if (!img->is_32)
		return elf_image_read(img, offset, ret, n * sizeof(*ret));
	int rc = read_narrow(img, offset, n, sizeof(h), ret, sizeof(*ret), &at);
	for (size_t i = 0; !rc && i < n; i++) {
		memcpy(&h, at + i * sizeof(h), sizeof(h));
		ret[i] = (Elf64_Phdr){
			.p_type = h.p_type,
			.p_flags = h.p_flags,
			.p_offset = h.p_offset,
			.p_vaddr = h.p_vaddr,
			.p_paddr = h.p_paddr,
			.p_filesz = h.p_filesz,
			.p_memsz = h.p_memsz,
			.p_align = h.p_align,
		};
	}
	return rc;
}

int elf_read_section_headers(const struct elf_image *img, uint32_t index, size_t n, Elf64_Shdr *ret)
{
	uint64_t offset = img->shoff + (uint64_t)index * elf_section_header_size(img);
	const uint8_t *at;
	Elf32_Shdr h;
	if (!img->is_32)
		return elf_image_read(img, offset, ret, n * sizeof(*ret));
	int rc = read_narrow(img, offset, n, sizeof(h), ret, sizeof(*ret), &at);
	for (size_t i = 0; !rc && i < n; i++) {
		memcpy(&h, at + i * sizeof(h), sizeof(h));
		ret[i] = (Elf64_Shdr){
			.sh_name = h.sh_name,
			.sh_type = h.sh_type,
			.sh_flags = h.sh_flags,
			.sh_addr = h.sh_addr,
			.sh_offset = h.sh_offset,
			.sh_size = h.sh_size,
			.sh_link = h.sh_link,
			.sh_info = h.sh_info,
			.sh_addralign = h.sh_addralign,
			.sh_entsize = h.sh_entsize,
		};
	}
	return rc;
}

int elf_read_symbols(const struct elf_image *img, const struct elf_symbols *s, uint64_t index,
		     size_t n, Elf64_Sym *ret)
{
	uint64_t offset = s->offset + index * elf_symbol_size(img);
	const uint8_t *at;
	Elf32_Sym h;
	if (!img->is_32)
		return elf_image_read(img, offset, ret, n * sizeof(*ret));
	int rc = read_narrow(img, offset, n, sizeof(h), ret, sizeof(*ret), &at);
	for (size_t i = 0; !rc && i < n; i++) {
		memcpy(&h, at + i * sizeof(h), sizeof(h));
		ret[i] = (Elf64_Sym){
			.st_name = h.st_name,
			.st_info = h.st_info,
			.st_other = h.st_other,
			.st_shndx = h.st_shndx,
			.st_value = h.st_value,
			.st_size = h.st_size,
		};
	}
	return rc;
}
