/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/section.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AT_ONCE 64u

/* The section that holds the names: its number may stand in the first section header. */
static int read_names(const struct elf_image *img, Elf64_Shdr *ret)
{
	Elf64_Ehdr eh;
	int rc = elf_image_read(img, 0, &eh, sizeof(eh));
	if (rc)
		return rc;
	uint32_t index = eh.e_shstrndx;
	if (index == SHN_XINDEX) {
		rc = elf_image_read(img, img->shoff, ret, sizeof(*ret));
		index = ret->sh_link;
	}
	if (rc || index >= img->n_sections)
		return rc ? rc : -ENOENT;
	return elf_image_read(img, img->shoff + (uint64_t)index * sizeof(*ret), ret, sizeof(*ret));
}

static int has_name(const struct elf_image *img, const Elf64_Shdr *names, const Elf64_Shdr *sh, const char *section)
{
	char name[32];
	size_t len = strlen(section) + 1;
	if (len > sizeof(name) || sh->sh_name > names->sh_size || len > names->sh_size - sh->sh_name ||
	    names->sh_offset > UINT64_MAX - sh->sh_name)
		return 0;
	return !elf_image_read(img, names->sh_offset + sh->sh_name, name, len) && !memcmp(name, section, len);
}

static int read_bytes(const struct elf_image *img, const Elf64_Shdr *sh, size_t max, struct elf_section *ret)
{
	if (sh->sh_size > max)
		return -E2BIG;
	if (sh->sh_offset > img->size || sh->sh_size > img->size - sh->sh_offset)
		return -EBADMSG;
	uint8_t *bytes = malloc(sh->sh_size);
	if (!bytes)
		return -ENOMEM;
	int rc = elf_image_read(img, sh->sh_offset, bytes, sh->sh_size);
	if (rc) {
		free(bytes);
		return rc;
	}
	*ret = (struct elf_section){ sh->sh_addr, bytes, sh->sh_size };
	return 0;
}

int elf_section_read(const struct elf_image *img, const char *section, size_t max, struct elf_section *ret)
{
	Elf64_Shdr names, sh[AT_ONCE];
	if (!img->n_sections)
		return -ENOENT;
	int rc = read_names(img, &names);
	for (uint32_t at = 0; !rc && at < img->n_sections; at += AT_ONCE) {
		uint32_t n = img->n_sections - at < AT_ONCE ? img->n_sections - at : AT_ONCE;
		rc = elf_image_read(img, img->shoff + (uint64_t)at * sizeof(sh[0]), sh, n * sizeof(sh[0]));
		for (uint32_t i = 0; !rc && i < n; i++) {
			if (sh[i].sh_type == SHT_NOBITS || sh[i].sh_flags & SHF_COMPRESSED || !sh[i].sh_size ||
			    !has_name(img, &names, &sh[i], section))
				continue;
			return read_bytes(img, &sh[i], max, ret);
		}
	}
	return rc ? rc : -ENOENT;
}

void elf_section_fini(struct elf_section *s)
{
	free(s->bytes);
	s->bytes = NULL;
	s->size = 0;
}
