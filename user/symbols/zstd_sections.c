/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/zstd_sections.h"

#include "util/array.h"

#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <zstd.h>

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2 /* glibc 2.37 and later define it */
#endif

static bool is_zstd(Elf_Scn *s, GElf_Shdr *ret, GElf_Chdr *ret_packed)
{
	return gelf_getshdr(s, ret) && ret->sh_flags & SHF_COMPRESSED &&
	       gelf_getchdr(s, ret_packed) && ret_packed->ch_type == ELFCOMPRESS_ZSTD;
}

bool zstd_sections_any(Elf *elf)
{
	GElf_Shdr sh;
	GElf_Chdr ch;
	for (Elf_Scn *s = NULL; (s = elf_nextscn(elf, s));)
		if (is_zstd(s, &sh, &ch))
			return true;
	return false;
}

/* The section looks from here on as though it had never been packed. */
static int replace(Elf_Scn *s, GElf_Shdr *sh, void *bytes, size_t size)
{
	Elf_Data *both[] = { elf_getdata(s, NULL), elf_rawdata(s, NULL) };
	for (size_t i = 0; i < 2; i++) {
		if (!both[i])
			return -EBADMSG;
		both[i]->d_buf = bytes;
		both[i]->d_size = size;
		both[i]->d_type = ELF_T_BYTE;
	}
	sh->sh_flags &= ~(GElf_Xword)SHF_COMPRESSED;
	return gelf_update_shdr(s, sh) ? 0 : -EBADMSG;
}

static int unpack(Elf *elf, Elf_Scn *s, GElf_Shdr *sh, const GElf_Chdr *ch,
		  struct zstd_sections *ret)
{
	size_t head = gelf_fsize(elf, ELF_T_CHDR, 1, EV_CURRENT); /* gelf_getchdr has read it */
	Elf_Data *packed = elf_rawdata(s, NULL);
	int rc = ARRAY_RESERVE(ret->bytes, ret->cap, ret->n + 1);
	if (rc || !packed)
		return rc ? rc : -EBADMSG;
	void *bytes = malloc(ch->ch_size ? ch->ch_size : 1);
	if (!bytes)
		return -ENOMEM;
	ret->bytes[ret->n++] = bytes;
	size_t n = ZSTD_decompress(bytes, ch->ch_size, (const char *)packed->d_buf + head,
				   packed->d_size - head);
	return ZSTD_isError(n) || n != ch->ch_size ? -EBADMSG : replace(s, sh, bytes, n);
}

int zstd_sections_unpack(Elf *elf, struct zstd_sections *ret)
{
	GElf_Shdr sh;
	GElf_Chdr ch;
	int rc = 0;
	for (Elf_Scn *s = NULL; !rc && (s = elf_nextscn(elf, s));)
		if (is_zstd(s, &sh, &ch))
			rc = unpack(elf, s, &sh, &ch, ret);
	return rc;
}

void zstd_sections_fini(struct zstd_sections *z)
{
	for (size_t i = 0; i < z->n; i++)
		free(z->bytes[i]);
	free(z->bytes);
	*z = (struct zstd_sections){ 0 };
}
