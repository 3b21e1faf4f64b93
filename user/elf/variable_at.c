/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/variable_at.h"

#include "elf/headers.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AT_ONCE 2048u
#define SYMBOLS_MAX (16u << 20)

/* The best symbol for an address so far. */
struct best {
	uint64_t start, size;
	uint32_t name;
	bool found, global;
};

static void consider(struct best *b, const Elf64_Sym *sym)
{
	bool global = ELF64_ST_BIND(sym->st_info) == STB_GLOBAL;
	if (b->found && (sym->st_size > b->size || (sym->st_size == b->size && !global)))
		return;
	*b = (struct best){ sym->st_value, sym->st_size, sym->st_name, true, global };
}

static void look_at(const struct elf_variable_at *v, struct best *b, size_t n, const Elf64_Sym *sym)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info);
	if (sym->st_shndx == SHN_UNDEF || !sym->st_name || !sym->st_size ||
	    (type != STT_OBJECT && type != STT_COMMON))
		return;
	for (size_t i = 0; i < n; i++)
		if (!*v[i].name && v[i].vaddr - sym->st_value < sym->st_size)
			consider(&b[i], sym);
}

static int read_name(const struct elf_image *img, const struct elf_symbols *t, const struct best *b,
		     struct elf_variable_at *io_v)
{
	if (b->name >= t->strings_size)
		return -EBADMSG;
	uint64_t left = t->strings_size - b->name;
	size_t len = left < sizeof(io_v->name) ? (size_t)left : sizeof(io_v->name);
	int rc = elf_image_read(img, t->strings_offset + b->name, io_v->name, len);
	if (rc || !memchr(io_v->name, 0, len)) {
		io_v->name[0] = 0;
		return rc;
	}
	io_v->start = b->start;
	io_v->size = b->size;
	return 0;
}

static int search(const struct elf_image *img, const struct elf_symbols *t,
		  struct elf_variable_at *v, size_t n)
{
	struct best best[ELF_VARIABLE_AT_MAX] = { 0 };
	uint64_t total = t->size / elf_symbol_size(img);
	if (!total || !t->strings_size)
		return 0;
	Elf64_Sym *sym = total > SYMBOLS_MAX ? NULL : malloc(AT_ONCE * sizeof(*sym));
	int rc = sym ? 0 : total > SYMBOLS_MAX ? -E2BIG : -ENOMEM;
	for (uint64_t at = 0; !rc && at < total; at += AT_ONCE) {
		size_t some = total - at < AT_ONCE ? (size_t)(total - at) : AT_ONCE;
		rc = elf_read_symbols(img, t, at, some, sym);
		for (size_t i = 0; !rc && i < some; i++)
			look_at(v, best, n, &sym[i]);
	}
	free(sym);
	for (size_t i = 0; !rc && i < n; i++)
		if (best[i].found)
			rc = read_name(img, t, &best[i], &v[i]);
	return rc;
}

int elf_variables_at(const struct elf_image *img, struct elf_variable_at *v, size_t n)
{
	if (n > ELF_VARIABLE_AT_MAX)
		return -E2BIG;
	for (size_t i = 0; i < n; i++)
		v[i].name[0] = 0;
	int rc = search(img, &img->symtab, v, n);
	return rc ? rc : search(img, &img->dynsym, v, n);
}
