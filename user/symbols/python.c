/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/python.h"

#include "elf/section.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_MAX (8u << 20) /* bytes of .dynsym or its strings; CPython's have 60 KiB */

/* A piece of the file in memory of its own, with a NUL behind it. */
static int read_piece(const struct elf_image *img, uint64_t offset, uint64_t size, char **ret)
{
	char *p = size && size <= TABLE_MAX ? malloc(size + 1) : NULL;
	if (!p)
		return -ENOENT;
	int rc = elf_image_read(img, offset, p, size);
	if (rc) {
		free(p);
		return rc;
	}
	p[size] = 0;
	*ret = p;
	return 0;
}

/* The 8 bytes that stand at vaddr when the file is mapped. */
static uint64_t word_at(const struct elf_image *img, uint64_t vaddr)
{
	uint64_t v;
	for (size_t i = 0; i < img->n_loads; i++) {
		const struct elf_segment *s = &img->loads[i];
		if (vaddr >= s->vaddr && vaddr - s->vaddr <= s->filesz &&
		    s->filesz - (vaddr - s->vaddr) >= 8)
			return elf_image_read(img, s->offset + (vaddr - s->vaddr), &v, sizeof(v))
				       ? 0
				       : v;
	}
	return 0;
}

int python_find(const struct elf_image *img, struct binary_python *ret)
{
	struct binary_python p = { 0 };
	struct elf_place at;
	char *symbols = NULL, *strings = NULL;
	if (img->is_32)
		return -ENOENT;
	int rc = elf_section_find(img, ".PyRuntime", &at);
	rc = rc ? rc : read_piece(img, img->dynsym.offset, img->dynsym.size, &symbols);
	rc = rc ? rc
		: read_piece(img, img->dynsym.strings_offset, img->dynsym.strings_size, &strings);
	for (uint64_t i = 0; !rc && i < img->dynsym.size / sizeof(Elf64_Sym); i++) {
		Elf64_Sym s;
		memcpy(&s, symbols + i * sizeof(s), sizeof(s));
		const char *name = s.st_name < img->dynsym.strings_size ? strings + s.st_name : "";
		if (!strcmp(name, "_PyRuntime"))
			p.runtime = s.st_value;
		else if (!strcmp(name, "Py_Version"))
			p.version = (uint32_t)word_at(img, s.st_value);
		else if (!strcmp(name, "_PyEval_EvalFrameDefault")) {
			p.eval = s.st_value;
			p.eval_size = s.st_size;
		}
	}
	free(symbols);
	free(strings);
	if (rc || !p.runtime || !p.version)
		return -ENOENT;
	*ret = p;
	return 0;
}
