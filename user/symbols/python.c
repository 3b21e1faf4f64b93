/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/python.h"

#include "elf/section.h"
#include "symbols/dynsym.h"

#include <errno.h>
#include <string.h>

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

struct search {
	const struct elf_image *img;
	struct binary_script p;
};

static void on_symbol(void *ctx, const char *name, const Elf64_Sym *s)
{
	struct search *f = ctx;
	if (!strcmp(name, "_PyRuntime")) {
		f->p.at = s->st_value;
	} else if (!strcmp(name, "Py_Version")) {
		f->p.version = (uint32_t)word_at(f->img, s->st_value);
	} else if (!strcmp(name, "_PyEval_EvalFrameDefault")) {
		f->p.eval = s->st_value;
		f->p.eval_size = s->st_size;
	}
}

int python_find(const struct elf_image *img, struct binary_script *ret)
{
	struct search f = { .img = img, .p.language = SCRIPT_PYTHON };
	struct elf_place at;
	int rc = img->is_32 ? -ENOENT : elf_section_find(img, ".PyRuntime", &at);
	rc = rc ? rc : dynsym_each(img, on_symbol, &f);
	if (rc || !f.p.at || !f.p.version)
		return -ENOENT;
	*ret = f.p;
	return 0;
}
