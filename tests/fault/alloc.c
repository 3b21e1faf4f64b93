/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/alloc.h"

#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

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

#define CALLERS 4 /* that tell places apart */

/* These run before a sanitizer has begun. */
#define EARLY __attribute__((no_sanitize("address", "undefined")))

struct place_hash {
	uint64_t h;
	int depth;
};

static _Unwind_Reason_Code add_caller(struct _Unwind_Context *c, void *ctx)
{
	struct place_hash *p = ctx;
	if (p->depth++ >= 3) /* from the caller of malloc on */
		p->h = (p->h ^ _Unwind_GetIP(c)) * 0x9e3779b97f4a7c15u;
	return p->depth < CALLERS + 3 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* Note the allocation if it is the first of its place. */
__attribute__((noinline)) static void note(struct alloc_faults *f)
{
	static uint64_t seen[1 << 14];
	struct place_hash p = { 0, 0 };
	_Unwind_Backtrace(add_caller, &p);
	const uint64_t h = p.h;
	if (!f->n_places)
		memset(seen, 0, sizeof(seen));
	size_t at = h >> 50;
	while (seen[at] && seen[at] != h)
		at = (at + 1) % (1 << 14);
	if (seen[at] || f->n_places == f->cap)
		return;
	seen[at] = h;
	f->places[f->n_places++] = f->n;
}

EARLY __attribute__((noinline)) static bool fails(const void *caller)
{
	struct alloc_faults *f = &alloc_faults;
	if (!f->on || ((uintptr_t)caller >= roaring_from && (uintptr_t)caller < roaring_to))
		return false;
	long n = ++f->n;
	if (f->places)
		note(f);
	if (!f->at || n < f->at || n > f->at + f->more)
		return false;
	f->hit++;
	errno = ENOMEM;
	return true;
}

/* A sanitizer's functions have these names beside the usual ones, which are ours. */
#if defined(__SANITIZE_ADDRESS__)
#define REAL(name) __interceptor_##name
#else
#define REAL(name) __libc_##name
#endif

void *REAL(malloc)(size_t n);
void *REAL(calloc)(size_t n, size_t size);
void *REAL(realloc)(void *p, size_t n);
void *REAL(memalign)(size_t align, size_t n);

EARLY void *malloc(size_t n)
{
	return fails(__builtin_return_address(0)) ? NULL : REAL(malloc)(n);
}

EARLY void *calloc(size_t n, size_t size)
{
	return fails(__builtin_return_address(0)) ? NULL : REAL(calloc)(n, size);
}

EARLY void *realloc(void *p, size_t n)
{
	return fails(__builtin_return_address(0)) ? NULL : REAL(realloc)(p, n);
}

EARLY int posix_memalign(void **ret, size_t align, size_t n)
{
	void *p = fails(__builtin_return_address(0)) ? NULL : REAL(memalign)(align, n);
	if (!p)
		return ENOMEM;
	*ret = p;
	return 0;
}

EARLY void *aligned_alloc(size_t align, size_t n)
{
	return fails(__builtin_return_address(0)) ? NULL : REAL(memalign)(align, n);
}

/* A sanitizer's own allocate where nobody else reaches. */
EARLY char *strndup(const char *s, size_t n)
{
	size_t len = strnlen(s, n);
	char *copy = fails(__builtin_return_address(0)) ? NULL : REAL(malloc)(len + 1);
	if (!copy)
		return NULL;
	copy[len] = 0;
	return memcpy(copy, s, len);
}

EARLY char *strdup(const char *s)
{
	size_t size = strlen(s) + 1;
	char *copy = fails(__builtin_return_address(0)) ? NULL : REAL(malloc)(size);
	return copy ? memcpy(copy, s, size) : NULL;
}
