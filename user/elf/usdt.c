/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/usdt.h"

#include "elf/section.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#define OWNER "stapsdt"
#define TYPE 3

/* The text at *at, which ends before end, and *at behind it. NULL: it does not. */
static const char *take_text(const uint8_t **at, const uint8_t *end)
{
	const char *text = (const char *)*at;
	const uint8_t *zero = memchr(*at, 0, (size_t)(end - *at));
	*at = zero ? zero + 1 : end;
	return zero ? text : NULL;
}

static int read_note(const uint8_t *at, const uint8_t *end, const struct elf_place *base,
		     struct elf_usdt *ret)
{
	uint64_t word[3]; /* probe, base, semaphore */
	if ((size_t)(end - at) < sizeof(word))
		return -EBADMSG;
	memcpy(word, at, sizeof(word));
	at += sizeof(word);
	/* Whoever moved the sections afterwards (prelink) left the note as it was. */
	const uint64_t moved = base->vaddr && word[1] ? base->vaddr - word[1] : 0;
	ret->vaddr = word[0] + moved;
	ret->semaphore = word[2] ? word[2] + moved : 0;
	ret->provider = take_text(&at, end);
	ret->name = take_text(&at, end);
	ret->arguments = take_text(&at, end);
	return ret->arguments ? 0 : -EBADMSG;
}

static size_t padded(uint32_t n)
{
	return ((size_t)n + 3) & ~(size_t)3;
}

int elf_usdt_each(const struct elf_image *img, int (*cb)(void *, const struct elf_usdt *),
		  void *ctx)
{
	struct elf_section s;
	struct elf_place base = { 0 };
	int rc = img->is_32 ? -ENOENT
			    : elf_section_read(img, ".note.stapsdt", ELF_USDT_BYTES_MAX, &s);
	if (rc)
		return rc;
	(void)!elf_section_find(img, ".stapsdt.base", &base);
	const uint8_t *at = s.bytes, *end = s.bytes + s.size;
	while (!rc && (size_t)(end - at) >= sizeof(Elf64_Nhdr)) {
		struct elf_usdt probe;
		Elf64_Nhdr h;
		memcpy(&h, at, sizeof(h));
		at += sizeof(h);
		const size_t name = padded(h.n_namesz), bytes = padded(h.n_descsz);
		if (name > (size_t)(end - at) || bytes > (size_t)(end - at) - name) {
			rc = -EBADMSG;
			break;
		}
		if (h.n_type == TYPE && h.n_namesz == sizeof(OWNER) &&
		    !memcmp(at, OWNER, sizeof(OWNER))) {
			rc = read_note(at + name, at + name + h.n_descsz, &base, &probe);
			rc = rc ? rc : cb(ctx, &probe);
		}
		at += name + bytes;
	}
	elf_section_fini(&s);
	return rc;
}
