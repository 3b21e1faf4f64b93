/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/tls.h"

#include "elf/relocations.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SYMBOLS_AT_ONCE 2048u
#define STRINGS_MAX (64u << 20) /* of one table, held while it is searched */
#define DYNAMIC_MAX 1024u

/* ---- symbols ---- */

static bool is_wanted(const char *name, size_t len, const char *const *names)
{
	/* Nearly all symbols are none of them, and told by their first letter. */
	bool begins = false;
	for (const char *const *n = names; *n; n++)
		begins |= **n == *name;
	if (!begins)
		return false;
	for (; *names; names++) {
		size_t n = strlen(*names);
		if (n && (*names)[n - 1] == '*' ? len >= n - 1 && !memcmp(name, *names, n - 1)
						: len == n && !memcmp(name, *names, n))
			return true;
	}
	return false;
}

struct search {
	const char *const *names;
	struct elf_variable *ret;
	uint32_t dyn_index[ELF_VARIABLES_MAX]; /* in .dynsym, 0: not there */
	size_t n, max;
};

static void take(struct search *s, const Elf64_Sym *sym, const char *name, size_t len,
		 uint32_t dyn_index)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info);
	bool tls = type == STT_TLS;
	if (sym->st_shndx == SHN_UNDEF ||
	    (!tls && type != STT_OBJECT && type != STT_FUNC && type != STT_NOTYPE))
		return;
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->ret[i].name, name))
			return;
	if (s->n == s->max)
		return;
	s->dyn_index[s->n] = dyn_index;
	struct elf_variable *v = &s->ret[s->n++];
	*v = (struct elf_variable){ .value = sym->st_value,
				    .size = sym->st_size,
				    .tls = tls,
				    .access = tls ? ELF_ACCESS_UNKNOWN : ELF_ACCESS_NONE };
	memcpy(v->name, name, len);
}

static int search_table(const struct elf_image *img, const struct elf_symbols *t, bool dynamic,
			struct search *s)
{
	uint64_t n = t->size / sizeof(Elf64_Sym);
	if (!n || !t->strings_size)
		return 0;
	if (n > ELF_VARIABLE_SYMBOLS_MAX || t->strings_size > STRINGS_MAX)
		return -E2BIG;
	Elf64_Sym *sym = malloc(SYMBOLS_AT_ONCE * sizeof(*sym));
	char *strings = malloc(t->strings_size);
	int rc = sym && strings ? elf_image_read(img, t->strings_offset, strings, t->strings_size)
				: -ENOMEM;
	for (uint64_t at = 0; !rc && at < n && s->n < s->max; at += SYMBOLS_AT_ONCE) {
		size_t some = n - at < SYMBOLS_AT_ONCE ? (size_t)(n - at) : SYMBOLS_AT_ONCE;
		rc = elf_image_read(img, t->offset + at * sizeof(*sym), sym, some * sizeof(*sym));
		for (size_t i = 0; !rc && i < some; i++) {
			if (!sym[i].st_name || sym[i].st_name >= t->strings_size)
				continue;
			const char *name = strings + sym[i].st_name;
			size_t room = t->strings_size - sym[i].st_name;
			if (sym[i].st_shndx == SHN_UNDEF)
				continue;
			size_t len = strnlen(
				name, room < ELF_VARIABLE_NAME_MAX ? room : ELF_VARIABLE_NAME_MAX);
			if (len < room && len < ELF_VARIABLE_NAME_MAX &&
			    is_wanted(name, len, s->names))
				take(s, &sym[i], name, len, dynamic ? (uint32_t)(at + i) : 0);
		}
	}
	free(strings);
	free(sym);
	return rc;
}

/* ---- relocations ---- */

static enum elf_access access_of(uint32_t type)
{
	switch (type) {
	case R_X86_64_TPOFF64:
	case R_AARCH64_TLS_TPREL:
		return ELF_ACCESS_TPOFF;
	case R_X86_64_TLSDESC:
	case R_AARCH64_TLSDESC:
		return ELF_ACCESS_DESC;
	case R_X86_64_DTPMOD64:
	case R_AARCH64_TLS_DTPMOD:
		return ELF_ACCESS_PAIR;
	default:
		return ELF_ACCESS_NONE;
	}
}

/* Of several ways the one that takes the fewest reads. */
static unsigned rank(enum elf_access a)
{
	static const unsigned r[] = { [ELF_ACCESS_TPOFF] = 4,
				      [ELF_ACCESS_DESC] = 3,
				      [ELF_ACCESS_PAIR] = 2,
				      [ELF_ACCESS_MODULE] = 1 };
	return a < sizeof(r) / sizeof(r[0]) ? r[a] : 0;
}

static void use_relocation(void *ctx, const Elf64_Rela *r)
{
	struct search *s = ctx;
	enum elf_access a = access_of((uint32_t)ELF64_R_TYPE(r->r_info));
	uint32_t sym = (uint32_t)ELF64_R_SYM(r->r_info);
	if (!a)
		return;
	for (size_t i = 0; i < s->n; i++) {
		struct elf_variable *v = &s->ret[i];
		enum elf_access how = a;
		if (!v->tls)
			continue;
		if (sym ? sym != s->dyn_index[i]
			: a != ELF_ACCESS_PAIR && (uint64_t)r->r_addend != v->value)
			continue;
		if (!sym && a == ELF_ACCESS_PAIR)
			how = ELF_ACCESS_MODULE; /* of the whole file */
		if (rank(how) <= rank(v->access))
			continue;
		v->access = how;
		v->at = r->r_offset;
	}
}

int elf_variables(const struct elf_image *img, const char *const *names, struct elf_variable *ret,
		  size_t max)
{
	struct search s = { .names = names,
			    .ret = ret,
			    .max = max < ELF_VARIABLES_MAX ? max : ELF_VARIABLES_MAX };
	bool tls = false;
	int rc = search_table(img, &img->dynsym, true, &s);
	int rc2 = elf_is_executable(img) ? search_table(img, &img->symtab, false, &s) : 0;
	for (size_t i = 0; i < s.n; i++)
		tls |= s.ret[i].tls;
	if (!s.n)
		return rc ? rc : rc2;
	rc = tls ? elf_relocations(img, use_relocation, &s) : 0;
	return rc ? rc : (int)s.n;
}

/* ---- executables ---- */

/*
 * x86-64: the block lies below the thread pointer, its end rounded up; aarch64: above, behind 16
 * bytes.
 */
int64_t elf_static_tls(const struct elf_image *img, uint64_t value)
{
	uint64_t align = img->tls_align ? img->tls_align : 1;
	if (img->machine == EM_AARCH64)
		return (int64_t)((16 + align - 1) / align * align + value);
	return (int64_t)(value - (img->tls.memsz + align - 1) / align * align);
}

bool elf_is_executable(const struct elf_image *img)
{
	Elf64_Dyn d;
	if (img->type == ET_EXEC)
		return true;
	for (uint64_t at = 0, n = 0; at + sizeof(d) <= img->dynamic_size && n < DYNAMIC_MAX;
	     at += sizeof(d), n++) {
		if (elf_image_read(img, img->dynamic_offset + at, &d, sizeof(d)) ||
		    d.d_tag == DT_NULL)
			return false;
		if (d.d_tag == DT_FLAGS_1)
			return d.d_un.d_val & 0x08000000; /* DF_1_PIE */
	}
	return false;
}

bool elf_uses_musl(const struct elf_image *img)
{
	char path[128];
	size_t n = img->interp_size < sizeof(path) ? (size_t)img->interp_size : sizeof(path);
	return n && !elf_image_read(img, img->interp_offset, path, n) &&
	       memmem(path, n, "/ld-musl-", 9);
}
