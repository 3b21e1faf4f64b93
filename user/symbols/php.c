/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/php.h"

#include "elf/section.h"
#include "php_wire.h"
#include "symbols/dynsym.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RODATA_MAX (32u << 20) /* bytes; PHP 8.4 has 1 MiB */
#define API_DIGITS 8

struct search {
	struct binary_script p;
	bool zts;
};

static void on_symbol(void *ctx, const char *name, const Elf64_Sym *s)
{
	struct search *f = ctx;
	if (!s->st_value && s->st_shndx == SHN_UNDEF)
		return; /* an extension's */
	if (!strcmp(name, "executor_globals")) {
		f->p.at = s->st_value;
	} else if (!strcmp(name, "executor_globals_offset")) {
		f->zts = true;
	} else if (!strcmp(name, binary_script_eval(SCRIPT_PHP))) {
		f->p.eval = s->st_value;
		f->p.eval_size = s->st_size;
	}
}

/* Read ZEND_MODULE_BUILD_ID at the start of a text that ends in a NUL. 0: it is none. */
static uint32_t read_api(const char *text)
{
	uint32_t api = 0;
	size_t i = strlen("API");
	for (size_t end = i + API_DIGITS; i < end; i++) {
		if (text[i] < '0' || text[i] > '9')
			return 0;
		api = 10 * api + (uint32_t)(text[i] - '0');
	}
	text += i;
	if (!strncmp(text, ",NTS", 4))
		return api | (strstr(text, ",debug") ? PHP_DEBUG : 0);
	if (!strncmp(text, ",TS", 3))
		return api | PHP_ZTS | (strstr(text, ",debug") ? PHP_DEBUG : 0);
	return 0;
}

/* Find the build id among the constants of a file. 0: there is none. */
static uint32_t find_api(const struct elf_image *img)
{
	struct elf_place at;
	uint32_t api = 0;
	if (elf_section_find(img, ".rodata", &at) || at.size > RODATA_MAX)
		return 0;
	char *bytes = malloc(at.size + 1);
	if (bytes && !elf_image_read(img, at.offset, bytes, at.size)) {
		bytes[at.size] = 0;
		const char *p = bytes, *end = bytes + at.size;
		while (!api && (p = memmem(p, (size_t)(end - p), "API2", 4)))
			api = read_api(p++);
	}
	free(bytes);
	return api;
}

int php_find(const struct elf_image *img, struct binary_script *ret)
{
	struct search f = { .p.language = SCRIPT_PHP };
	int rc = dynsym_each(img, on_symbol, &f);
	if (rc || !f.p.eval || !(f.p.at || f.zts))
		return -ENOENT;
	f.p.version = find_api(img);
	if (!f.p.version)
		f.p.version = PHP_NO_API;
	*ret = f.p;
	return 0;
}
