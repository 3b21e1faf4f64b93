/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/hotspot.h"

#include "symbols/dynsym.h"

#include <errno.h>
#include <string.h>

static const char *const names[HOTSPOT_SYMBOLS] = {
#define X(id, name) [HOTSPOT_##id] = name,
	HOTSPOT_TABLES(X)
#undef X
};

static void on_symbol(void *ctx, const char *name, const Elf64_Sym *s)
{
	struct binary_hotspot *h = ctx;
	if (strncmp(name, HOTSPOT_PREFIX, strlen(HOTSPOT_PREFIX)) != 0)
		return;
	for (size_t i = 0; i < HOTSPOT_SYMBOLS; i++)
		if (!strcmp(name + strlen(HOTSPOT_PREFIX), names[i]))
			h->at[i] = s->st_value;
}

int hotspot_find(const struct elf_image *img, struct binary_hotspot *ret)
{
	struct binary_hotspot h = { 0 };
	int rc = dynsym_each(img, on_symbol, &h);
	for (size_t i = 0; !rc && i < HOTSPOT_SYMBOLS; i++)
		if (!h.at[i])
			rc = -ENOENT;
	if (rc)
		return -ENOENT;
	*ret = h;
	return 0;
}
