/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/alloc.h"

#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct alloc_faults alloc_faults;

/*
 * CRoaring takes no failure: it ends the program by an assertion. Its text, so that its allocations
 * can be left alone.
 */
static uintptr_t roaring_from, roaring_to;

static int find_roaring(struct dl_phdr_info *info, size_t size, void *ctx)
{
	(void)size, (void)ctx;
	if (!info->dlpi_name || !strstr(info->dlpi_name, "libroaring"))
		return 0;
	roaring_from = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD)
			roaring_to = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr +
				     info->dlpi_phdr[i].p_memsz;
	return 1;
}

__attribute__((constructor)) static void begin(void)
{
	dl_iterate_phdr(find_roaring, NULL);
}

static bool fails(const void *caller)
{
	struct alloc_faults *f = &alloc_faults;
	if (!f->on || ((uintptr_t)caller >= roaring_from && (uintptr_t)caller < roaring_to))
		return false;
	long n = ++f->n;
	if (!f->at || n < f->at || n > f->at + f->more)
		return false;
	f->hit++;
	errno = ENOMEM;
	return true;
}

#if defined(__SANITIZE_ADDRESS__)
#define REAL(name) __real_##name
#define OURS(name) __wrap_##name
#else
#define REAL(name) __libc_##name
#define OURS(name) name
#endif

void *REAL(malloc)(size_t n);
void *REAL(calloc)(size_t n, size_t size);
void *REAL(realloc)(void *p, size_t n);
void *OURS(malloc)(size_t n);
void *OURS(calloc)(size_t n, size_t size);
void *OURS(realloc)(void *p, size_t n);

void *OURS(malloc)(size_t n)
{
	return fails(__builtin_return_address(0)) ? NULL : REAL(malloc)(n);
}

void *OURS(calloc)(size_t n, size_t size)
{
	return fails(__builtin_return_address(0)) ? NULL : REAL(calloc)(n, size);
}

void *OURS(realloc)(void *p, size_t n)
{
	return fails(__builtin_return_address(0)) ? NULL : REAL(realloc)(p, n);
}

#if defined(__SANITIZE_ADDRESS__)
/* These allocate inside the C library, where the linker does not reach. */
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);

char *__wrap_strdup(const char *s)
{
	return fails(__builtin_return_address(0)) ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
	return fails(__builtin_return_address(0)) ? NULL : __real_strndup(s, n);
}
#else
void *__libc_memalign(size_t align, size_t n);

int posix_memalign(void **ret, size_t align, size_t n)
{
	void *p = fails(__builtin_return_address(0)) ? NULL : __libc_memalign(align, n);
	if (!p)
		return ENOMEM;
	*ret = p;
	return 0;
}

void *aligned_alloc(size_t align, size_t n)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_memalign(align, n);
}
#endif
