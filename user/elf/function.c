/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/function.h"

#include "elf/headers.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#define AT_ONCE 1024u
#define SYMBOLS_MAX (8u << 20)
#define STRINGS_MAX (256u << 20)

struct search {
	bool (*wanted)(void *, const char *name);
	int (*cb)(void *, const struct elf_function *);
	void *ctx;
};

static int look_at(const struct search *s, const Elf64_Sym *sym)
{
	const struct elf_function f = { sym->st_value, sym->st_size };
	const unsigned type = ELF64_ST_TYPE(sym->st_info);
	if (sym->st_shndx == SHN_UNDEF)
		return 0;
	if (type == STT_GNU_IFUNC)
		return -ENOTSUP;
	return type == STT_FUNC || type == STT_NOTYPE ? s->cb(s->ctx, &f) : 0;
}

static int search_table(const struct elf_image *img, const struct elf_symbols *t,
			const struct search *s)
{
	const uint64_t n = t->size / elf_symbol_size(img);
	if (!n || !t->strings_size)
		return 0;
	if (n > SYMBOLS_MAX || t->strings_size > STRINGS_MAX)
		return -E2BIG;
	Elf64_Sym *sym = malloc(AT_ONCE * sizeof(*sym));
	char *strings = calloc(1, t->strings_size + 1); /* each name ends */
	int rc = sym && strings ? elf_image_read(img, t->strings_offset, strings, t->strings_size)
				: -ENOMEM;
	for (uint64_t at = 0; !rc && at < n; at += AT_ONCE) {
		const size_t some = n - at < AT_ONCE ? (size_t)(n - at) : AT_ONCE;
		rc = elf_read_symbols(img, t, at, some, sym);
		for (size_t i = 0; !rc && i < some; i++)
			if (sym[i].st_name < t->strings_size &&
			    s->wanted(s->ctx, strings + sym[i].st_name))
				rc = look_at(s, &sym[i]);
	}
	free(strings);
	free(sym);
	return rc;
}

int elf_function_each(const struct elf_image *img, bool (*wanted)(void *, const char *name),
		      int (*cb)(void *, const struct elf_function *), void *ctx)
{
	const struct search s = { wanted, cb, ctx };
	int rc = search_table(img, &img->symtab, &s);
	return rc ? rc : search_table(img, &img->dynsym, &s);
}
