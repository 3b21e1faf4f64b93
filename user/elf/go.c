/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/go.h"

#include "elf/section.h"
#include "elf/tls.h"

#include <elf.h>
#include <string.h>

#define MAGIC "\xff Go buildinf:" /* 14 bytes; behind it the pointers' size and flags */
#define MAGIC_SIZE 14
#define SECTION_MAX (1u << 20)
#define INLINE 2 /* flag: the version follows; Go 1.18 and later */

/* "go1.19.8" or "devel go1.23-abc": 100 * major + minor. */
static unsigned parse(const char *text, size_t len)
{
	const char *p = memmem(text, len, "go1.", 4), *end = text + len;
	unsigned minor = 0;
	if (!p || p + 4 == end || p[4] < '0' || p[4] > '9')
		return 0;
	for (p += 4; p < end && *p >= '0' && *p <= '9' && minor < 1000; p++)
		minor = minor * 10 + (unsigned)(*p - '0');
	return 100 + minor;
}

static int read_vaddr(const struct elf_image *img, uint64_t vaddr, void *out, size_t len)
{
	for (size_t i = 0; i < img->n_loads; i++) {
		const struct elf_segment *s = &img->loads[i];
		if (vaddr >= s->vaddr && vaddr - s->vaddr < s->filesz)
			return elf_image_read(img, s->offset + (vaddr - s->vaddr), out, len);
	}
	return -1;
}

/* Before 1.18: a pointer to a string header. */
static unsigned by_pointer(const struct elf_image *img, const uint8_t *info)
{
	uint64_t at, string[2];
	char text[64];
	memcpy(&at, info + 16, sizeof(at));
	if (info[14] != 8 || info[15] & 1 || read_vaddr(img, at, string, sizeof(string)))
		return 0;
	size_t len = string[1] < sizeof(text) ? (size_t)string[1] : sizeof(text);
	return len && !read_vaddr(img, string[0], text, len) ? parse(text, len) : 0;
}

static unsigned in_section(const struct elf_image *img, const uint8_t *p, size_t size)
{
	for (size_t at = 0; size - at >= 40; at += 16) {
		if (memcmp(p + at, MAGIC, MAGIC_SIZE))
			continue;
		if (!(p[at + 15] & INLINE))
			return by_pointer(img, p + at);
		size_t len = p[at + 32]; /* a varint; versions are short */
		return len < 0x80 && len <= size - at - 33 ? parse((const char *)p + at + 33, len)
							   : 0;
	}
	return 0;
}

unsigned elf_go_version(const struct elf_image *img)
{
	struct elf_section s;
	if (elf_section_read(img, ".go.buildinfo", SECTION_MAX, &s))
		return 0;
	unsigned v = in_section(img, s.bytes, s.size);
	elf_section_fini(&s);
	return v;
}

bool elf_go_layout(unsigned version, struct elf_go_layout *ret)
{
	static const struct {
		unsigned from;
		struct elf_go_layout layout;
	} known[] = {
		{ 128, { 184, 352, 0, true } },	   { 126, { 184, 352, 288, true } },
		{ 125, { 184, 344, 280, true } },  { 124, { 192, 352, 288, true } },
		{ 123, { 192, 352, 288, false } }, { 121, { 192, 344, 280, false } },
		{ 117, { 192, 360, 296, false } }, { 109, { 192, 344, 0, false } },
	};
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (version < known[i].from)
			continue;
		*ret = known[i].layout;
		return true;
	}
	return false;
}

/*
 * Where symbols were stripped: on x86-64 it is all there is of thread-local memory, on arm64 one of
 * two.
 */
bool elf_go_tls(const struct elf_image *img, int64_t *ret)
{
	bool x86 = img->machine == EM_X86_64;
	const char *const names[] = { x86 ? "runtime.tlsg" : "runtime.tls_g", NULL };
	struct elf_variable v;
	if (elf_variables(img, names, &v, 1) == 1 && v.tls) {
		*ret = elf_static_tls(img, v.value);
		return true;
	}
	if (!x86 || img->tls.memsz > 8)
		return false;
	*ret = -8;
	return true;
}
