/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/section.h"

#include "elf/headers.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AT_ONCE 64u

/* The section that holds the names: its number may stand in the first section header. */
static int read_names(const struct elf_image *img, Elf64_Shdr *ret)
{
	uint32_t index = img->shstrndx;
	if (index == SHN_XINDEX) {
		int rc = elf_read_section_headers(img, 0, 1, ret);
		if (rc)
			return rc;
		index = ret->sh_link;
	}
	return index < img->n_sections ? elf_read_section_headers(img, index, 1, ret) : -ENOENT;
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

/* Does the section hold bytes, of this name? */
static int is_it(const struct elf_image *img, const Elf64_Shdr *names, const Elf64_Shdr *sh, const char *section)
{
	return sh->sh_type != SHT_NOBITS && sh->sh_size && has_name(img, names, sh, section);
}

static int find(const struct elf_image *img, const char *section, struct elf_place *ret)
{
	Elf64_Shdr names, sh[AT_ONCE];
	if (!img->n_sections)
		return -ENOENT;
	int rc = read_names(img, &names);
	for (uint32_t at = 0; !rc && at < img->n_sections; at += AT_ONCE) {
		uint32_t n = img->n_sections - at < AT_ONCE ? img->n_sections - at : AT_ONCE;
		rc = elf_read_section_headers(img, at, n, sh);
		for (uint32_t i = 0; !rc && i < n; i++) {
			if (!is_it(img, &names, &sh[i], section))
				continue;
			*ret = (struct elf_place){ sh[i].sh_addr, sh[i].sh_offset, sh[i].sh_size,
						   !!(sh[i].sh_flags & SHF_COMPRESSED) };
			return 0;
		}
	}
	return rc ? rc : -ENOENT;
}

static int is_inside(const struct elf_image *img, const struct elf_place *at)
{
	return at->offset <= img->size && at->size <= img->size - at->offset;
}

int elf_section_find(const struct elf_image *img, const char *section, struct elf_place *ret)
{
	struct elf_place at;
	int rc = find(img, section, &at);
	if (!rc && !is_inside(img, &at))
		rc = -EBADMSG;
	if (!rc)
		*ret = at;
	return rc;
}

int elf_section_read(const struct elf_image *img, const char *section, size_t max, struct elf_section *ret)
{
	struct elf_place at;
	int rc = find(img, section, &at);
	if (rc)
		return rc;
	if (at.compressed)
		return -ENOENT;
	if (at.size > max)
		return -E2BIG;
	if (!is_inside(img, &at))
		return -EBADMSG;
	uint8_t *bytes = malloc(at.size);
	if (!bytes)
		return -ENOMEM;
	rc = elf_image_read(img, at.offset, bytes, at.size);
	if (rc) {
		free(bytes);
		return rc;
	}
	*ret = (struct elf_section){ at.vaddr, bytes, at.size };
	return 0;
}

void elf_section_fini(struct elf_section *s)
{
	free(s->bytes);
	s->bytes = NULL;
	s->size = 0;
}
