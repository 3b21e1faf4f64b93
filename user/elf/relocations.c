/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/relocations.h"

#include <errno.h>
#include <stdlib.h>

#define AT_ONCE 2048u

int elf_relocations(const struct elf_image *img, void (*on)(void *ctx, const Elf64_Rela *r),
		    void *ctx)
{
	Elf64_Rela *rela = malloc(AT_ONCE * sizeof(*rela));
	uint64_t left = ELF_RELOCATIONS_MAX;
	int rc = rela ? 0 : -ENOMEM;
	for (uint32_t i = 0; !rc && i < img->n_sections; i++) {
		Elf64_Shdr sh;
		rc = elf_image_read(img, img->shoff + (uint64_t)i * sizeof(sh), &sh, sizeof(sh));
		if (rc || sh.sh_type != SHT_RELA || sh.sh_entsize != sizeof(*rela) ||
		    !(sh.sh_flags & SHF_ALLOC))
			continue;
		const uint64_t n = sh.sh_size / sizeof(*rela);
		if (n > left)
			rc = -E2BIG;
		left -= n;
		for (uint64_t at = 0; !rc && at < n; at += AT_ONCE) {
			const size_t some = n - at < AT_ONCE ? (size_t)(n - at) : AT_ONCE;
			rc = elf_image_read(img, sh.sh_offset + at * sizeof(*rela), rela,
					    some * sizeof(*rela));
			for (size_t k = 0; !rc && k < some; k++)
				on(ctx, &rela[k]);
		}
	}
	free(rela);
	return rc;
}
