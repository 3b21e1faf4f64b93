/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .eh_frame_hdr (Linux Standard Base, "Exception Frames"): version u8 1, encodings of three things
 * u8, the address of .eh_frame, the number of entries u32. Then for each function its start and its
 * entry, both i32 from the section's own address.
 */
#include "symbols/unnamed.h"

#include "elf/section.h"

#include <errno.h>
#include <string.h>

#define HEAD 12u
#define AT_ONCE 1024u
#define PCREL_SDATA4 0x1b /* DW_EH_PE_pcrel | DW_EH_PE_sdata4 */
#define UDATA4 0x03
#define DATAREL_SDATA4 0x3b /* DW_EH_PE_datarel | DW_EH_PE_sdata4 */

struct entry {
	int32_t start, fde;
};

int unnamed_walk(const struct elf_image *img, size_t max, int (*add)(void *ctx, uint64_t vaddr),
		 void *ctx)
{
	static const uint8_t usual[4] = { 1, PCREL_SDATA4, UDATA4, DATAREL_SDATA4 };
	struct entry v[AT_ONCE];
	struct elf_place place;
	uint8_t head[HEAD];
	uint32_t n;
	int rc = elf_section_find(img, ".eh_frame_hdr", &place);
	if (!rc && (place.compressed || place.size < HEAD))
		rc = -ENOENT;
	rc = rc ? rc : elf_image_read(img, place.offset, head, HEAD);
	if (!rc && memcmp(head, usual, sizeof(usual)))
		rc = -ENOENT;
	if (rc)
		return rc;
	memcpy(&n, head + 8, sizeof(n));
	if (n > max)
		return -E2BIG;
	if (n > (place.size - HEAD) / sizeof(*v))
		return -EBADMSG;
	for (uint32_t at = 0; at < n; at += AT_ONCE) {
		uint32_t some = n - at < AT_ONCE ? n - at : AT_ONCE;
		rc = elf_image_read(img, place.offset + HEAD + (uint64_t)at * sizeof(*v), v,
				    some * sizeof(*v));
		for (uint32_t i = 0; !rc && i < some; i++)
			rc = add(ctx, place.vaddr + (uint64_t)(int64_t)v[i].start);
		if (rc)
			return rc;
	}
	return 0;
}
