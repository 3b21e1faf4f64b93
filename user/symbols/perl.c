/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/perl.h"

#include "elf/tls.h"
#include "perl_wire.h"
#include "symbols/dynsym.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

struct search {
	struct binary_script s;
	uint64_t revision, version, size; /* vaddrs */
};

static void on_symbol(void *ctx, const char *name, const Elf64_Sym *s)
{
	struct search *f = ctx;
	if (s->st_shndx == SHN_UNDEF)
		return; /* an extension's */
	if (!strcmp(name, "PL_revision")) {
		f->revision = s->st_value;
	} else if (!strcmp(name, "PL_version")) {
		f->version = s->st_value;
	} else if (!strcmp(name, "PL_interp_size")) {
		f->size = s->st_value;
	} else if (!strcmp(name, binary_script_eval(SCRIPT_PERL))) {
		f->s.eval = s->st_value;
		f->s.eval_size = s->st_size;
	}
}

/* Find the variable with the interpreter of a thread. */
static enum script_way find_context(const struct elf_image *img, uint64_t *ret_at)
{
	static const char *const names[] = { "PL_current_context", NULL };
	struct elf_variable v;
	if (img->machine != EM_X86_64 || elf_variables(img, names, &v, 1) != 1 || !v.tls)
		return SCRIPT_NO_WAY;
	if (elf_is_executable(img)) {
		*ret_at = (uint64_t)elf_static_tls(img, v.value);
		return SCRIPT_BY_TP;
	}
	*ret_at = v.at;
	return v.access == ELF_ACCESS_TPOFF  ? SCRIPT_BY_SLOT
	       : v.access == ELF_ACCESS_PAIR ? SCRIPT_BY_PAIR
					     : SCRIPT_NO_WAY;
}

int perl_find(const struct elf_image *img, struct binary_script *ret)
{
	struct search f = { .s.language = SCRIPT_PERL };
	uint8_t revision, version;
	uint16_t size;
	int rc = dynsym_each(img, on_symbol, &f);
	if (rc || !f.revision || !f.version || !f.size || !f.s.eval)
		return -ENOENT;
	if (elf_image_read_at(img, f.revision, &revision, sizeof(revision)) ||
	    elf_image_read_at(img, f.version, &version, sizeof(version)) ||
	    elf_image_read_at(img, f.size, &size, sizeof(size)) || revision != 5 || !version)
		return -ENOENT;
	f.s.version = PERL_VERSION_OF(version, size, find_context(img, &f.s.at));
	*ret = f.s;
	return 0;
}
