/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/section.h"

#include "elf/headers.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define AT_ONCE 64u
#define NAMES_MAX (1u << 20) /* bytes of names that are looked at; linked files have some hundred */

/*
 * The names of all sections, read at once: one by one they would be some hundred reads of a file.
 */
struct names {
	char *text; /* owned */
	size_t size;
};

/* The section that holds the names: its number may stand in the first section header. */
static int find_names(const struct elf_image *img, Elf64_Shdr *ret)
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

static int read_names(const struct elf_image *img, struct names *ret)
{
	Elf64_Shdr sh;
	int rc = find_names(img, &sh);
	if (rc)
		return rc;
	if (sh.sh_offset >= img->size)
		return -ENOENT;
	uint64_t left = img->size - sh.sh_offset, size = sh.sh_size < left ? sh.sh_size : left;
	size = size < NAMES_MAX ? size : NAMES_MAX;
	char *text = malloc(size + 1);
	if (!text)
		return -ENOMEM;
	rc = elf_image_read(img, sh.sh_offset, text, size);
	if (rc) {
		free(text);
		return rc;
	}
	*ret = (struct names){ text, size };
	return 0;
}

static int has_name(const struct names *names, const Elf64_Shdr *sh, const char *section)
{
	size_t len = strlen(section) + 1;
	bool inside = sh->sh_name <= names->size && len <= names->size - sh->sh_name;
	return inside && !memcmp(names->text + sh->sh_name, section, len);
}

/* Does the section hold bytes, of this name? */
static int is_it(const struct names *names, const Elf64_Shdr *sh, const char *section)
{
	return sh->sh_type != SHT_NOBITS && sh->sh_size && has_name(names, sh, section);
}

static int find_named(const struct elf_image *img, const struct names *names, const char *section,
		      struct elf_place *ret)
{
	Elf64_Shdr sh[AT_ONCE];
	int rc = 0;
	for (uint32_t at = 0; !rc && at < img->n_sections; at += AT_ONCE) {
		uint32_t n = img->n_sections - at < AT_ONCE ? img->n_sections - at : AT_ONCE;
		rc = elf_read_section_headers(img, at, n, sh);
		for (uint32_t i = 0; !rc && i < n; i++) {
			if (!is_it(names, &sh[i], section))
				continue;
			*ret = (struct elf_place){ sh[i].sh_addr, sh[i].sh_offset, sh[i].sh_size,
						   !!(sh[i].sh_flags & SHF_COMPRESSED) };
			return 0;
		}
	}
	return rc ? rc : -ENOENT;
}

static int find(const struct elf_image *img, const char *section, struct elf_place *ret)
{
	struct names names;
	int rc = img->n_sections ? read_names(img, &names) : -ENOENT;
	if (rc)
		return rc;
	rc = find_named(img, &names, section, ret);
	free(names.text);
	return rc;
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

int elf_section_read(const struct elf_image *img, const char *section, size_t max,
		     struct elf_section *ret)
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
