/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that other libraries refuse: what glibc prints into memory of its own, and what liblzma,
 * libzstd, libelf and libdw answer when they lack memory or find their file broken. These are
 * requests as those of starve.c are.
 */
#include "fuzz/starve.h"

#include <elfutils/libdw.h>
#include <errno.h>
#include <gelf.h>
#include <lzma.h>
#include <stdarg.h>
#include <stdio.h>
#include <zstd.h>
#include <zstd_errors.h>

int fuzz_vasprintf(char **ret, const char *fmt, va_list args);
int fuzz_asprintf(char **ret, const char *fmt, ...);
FILE *fuzz_open_memstream(char **ret, size_t *ret_len);
int fuzz_fclose(FILE *f);
lzma_ret fuzz_lzma_stream_decoder(lzma_stream *z, uint64_t memory, uint32_t flags);
ZSTD_CCtx *fuzz_ZSTD_createCCtx(void);
size_t fuzz_ZSTD_compress(void *to, size_t cap, const void *from, size_t len, int level);
size_t fuzz_ZSTD_compress2(ZSTD_CCtx *c, void *to, size_t cap, const void *from, size_t len);
size_t fuzz_ZSTD_decompressDCtx(ZSTD_DCtx *c, void *to, size_t cap, const void *from, size_t len);
Elf *fuzz_elf_begin(int fd, Elf_Cmd cmd, Elf *ref);
GElf_Shdr *fuzz_gelf_getshdr(Elf_Scn *s, GElf_Shdr *ret);
int fuzz_gelf_update_shdr(Elf_Scn *s, GElf_Shdr *h);
Elf_Data *fuzz_elf_getdata(Elf_Scn *s, Elf_Data *after);
Elf_Data *fuzz_elf_rawdata(Elf_Scn *s, Elf_Data *after);
Dwarf_Die *fuzz_dwarf_offdie(Dwarf *d, Dwarf_Off at, Dwarf_Die *ret);
int fuzz_dwarf_child(Dwarf_Die *die, Dwarf_Die *ret);
int fuzz_dwarf_siblingof(Dwarf_Die *die, Dwarf_Die *ret);

int fuzz_vasprintf(char **ret, const char *fmt, va_list args)
{
	return fuzz_denies() ? -1 : vasprintf(ret, fmt, args);
}

int fuzz_asprintf(char **ret, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	int n = fuzz_vasprintf(ret, fmt, args);
	va_end(args);
	return n;
}

FILE *fuzz_open_memstream(char **ret, size_t *ret_len)
{
	return fuzz_denies() ? NULL : open_memstream(ret, ret_len);
}

/* The stream is closed in any case, as with what could not be written before. */
int fuzz_fclose(FILE *f)
{
	int rc = fclose(f);
	if (!fuzz_denies())
		return rc;
	errno = ENOMEM;
	return EOF;
}

lzma_ret fuzz_lzma_stream_decoder(lzma_stream *z, uint64_t memory, uint32_t flags)
{
	return fuzz_denies() ? LZMA_MEM_ERROR : lzma_stream_decoder(z, memory, flags);
}

#define NO_MEMORY ((size_t)-ZSTD_error_memory_allocation)

ZSTD_CCtx *fuzz_ZSTD_createCCtx(void)
{
	return fuzz_denies() ? NULL : ZSTD_createCCtx();
}

size_t fuzz_ZSTD_compress(void *to, size_t cap, const void *from, size_t len, int level)
{
	return fuzz_denies() ? NO_MEMORY : ZSTD_compress(to, cap, from, len, level);
}

size_t fuzz_ZSTD_compress2(ZSTD_CCtx *c, void *to, size_t cap, const void *from, size_t len)
{
	return fuzz_denies() ? NO_MEMORY : ZSTD_compress2(c, to, cap, from, len);
}

size_t fuzz_ZSTD_decompressDCtx(ZSTD_DCtx *c, void *to, size_t cap, const void *from, size_t len)
{
	return fuzz_denies() ? NO_MEMORY : ZSTD_decompressDCtx(c, to, cap, from, len);
}

Elf *fuzz_elf_begin(int fd, Elf_Cmd cmd, Elf *ref)
{
	return fuzz_denies() ? NULL : elf_begin(fd, cmd, ref);
}

GElf_Shdr *fuzz_gelf_getshdr(Elf_Scn *s, GElf_Shdr *ret)
{
	return fuzz_denies() ? NULL : gelf_getshdr(s, ret);
}

int fuzz_gelf_update_shdr(Elf_Scn *s, GElf_Shdr *h)
{
	return fuzz_denies() ? 0 : gelf_update_shdr(s, h);
}

Elf_Data *fuzz_elf_getdata(Elf_Scn *s, Elf_Data *after)
{
	return fuzz_denies() ? NULL : elf_getdata(s, after);
}

Elf_Data *fuzz_elf_rawdata(Elf_Scn *s, Elf_Data *after)
{
	return fuzz_denies() ? NULL : elf_rawdata(s, after);
}

Dwarf_Die *fuzz_dwarf_offdie(Dwarf *d, Dwarf_Off at, Dwarf_Die *ret)
{
	return fuzz_denies() ? NULL : dwarf_offdie(d, at, ret);
}

int fuzz_dwarf_child(Dwarf_Die *die, Dwarf_Die *ret)
{
	return fuzz_denies() ? -1 : dwarf_child(die, ret);
}

int fuzz_dwarf_siblingof(Dwarf_Die *die, Dwarf_Die *ret)
{
	return fuzz_denies() ? -1 : dwarf_siblingof(die, ret);
}
