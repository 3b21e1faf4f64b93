/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/dynsym.h"

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

int dynsym_each(const struct elf_image *img,
		void (*found)(void *ctx, const char *name, const Elf64_Sym *s), void *ctx)
{
	char *symbols = NULL, *strings = NULL;
	if (img->is_32)
		return -ENOENT;
	int rc = read_piece(img, img->dynsym.offset, img->dynsym.size, &symbols);
	rc = rc ? rc
		: read_piece(img, img->dynsym.strings_offset, img->dynsym.strings_size, &strings);
	for (uint64_t i = 0; !rc && i < img->dynsym.size / sizeof(Elf64_Sym); i++) {
		Elf64_Sym s;
		memcpy(&s, symbols + i * sizeof(s), sizeof(s));
		if (s.st_name < img->dynsym.strings_size)
			found(ctx, strings + s.st_name, &s);
	}
	free(symbols);
	free(strings);
	return rc;
}
