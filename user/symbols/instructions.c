/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/instructions.h"

#include <Zydis/Zydis.h>

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#define DECODE_MAX (1u << 20) /* bytes from the beginning of a function */

/* Each instruction of x86-64 before the offset must end there or earlier. */
static int decode_up_to(const uint8_t *code, uint64_t len)
{
	ZydisDecoder decoder;
	ZydisDecodedInstruction in;
	uint64_t at = 0;
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	while (at < len && ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, code + at,
								      len - at, &in)))
		at += in.length;
	return at == len ? 0 : -EILSEQ;
}

int instructions_begin_at(const struct elf_image *img, uint64_t vaddr, uint64_t offset)
{
	uint64_t place;
	if (img->machine == EM_AARCH64)
		return offset % 4 ? -EILSEQ : 0;
	if (img->machine != EM_X86_64 || !offset)
		return 0;
	if (offset > DECODE_MAX)
		return -E2BIG;
	int rc = elf_image_offset(img, vaddr, &place);
	uint8_t *code = rc ? NULL : malloc(offset);
	if (!code)
		return rc ? rc : -ENOMEM;
	rc = elf_image_read(img, place, code, offset);
	rc = rc ? rc : decode_up_to(code, offset);
	free(code);
	return rc;
}
