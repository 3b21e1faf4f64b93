/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The static probes (USDT) of an ELF image, from its notes. Their layout is that of SystemTap's
 * sys/sdt.h: name "stapsdt", type 3; then the address of the probe, that which .stapsdt.base had
 * when the note was written, the address of a semaphore; then provider, name and arguments as text.
 */
#ifndef ASCRIBE_ELF_USDT_H
#define ASCRIBE_ELF_USDT_H

#include "elf/image.h"

#define ELF_USDT_BYTES_MAX (4u << 20) /* of all notes of a file */

struct elf_usdt {
	uint64_t vaddr;	    /* of the probe's nop */
	uint64_t semaphore; /* the vaddr of a 16-bit count of its users; 0: there is none */
	const char *provider, *name, *arguments;
};

/*
 * Call cb with each probe, until it returns non-zero; the texts live as long as the call. 0, what
 * cb returned, or the error: -ENOENT there are no such notes; -E2BIG; -EBADMSG a note is cut.
 */
int elf_usdt_each(const struct elf_image *img, int (*cb)(void *, const struct elf_usdt *),
		  void *ctx);

#endif
