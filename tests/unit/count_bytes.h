/* SPDX-License-Identifier: Apache-2.0 */
/* Count the bytes that a test has allocated, and the most there were at a time. */
#ifndef TESTS_COUNT_BYTES_H
#define TESTS_COUNT_BYTES_H

#include <malloc.h>
#include <stddef.h>
#include <stdint.h>

static int64_t used, most;

#ifdef __SANITIZE_ADDRESS__ /* which has its own malloc */
#define COUNTS_BYTES 0
#else
#define COUNTS_BYTES 1

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t each);
extern void *__libc_realloc(void *p, size_t n);
extern void __libc_free(void *p);

static void *count(void *p)
{
	used += p ? (int64_t)malloc_usable_size(p) : 0;
	most = used > most ? used : most;
	return p;
}

void *malloc(size_t n)
{
	return count(__libc_malloc(n));
}

void *calloc(size_t n, size_t each)
{
	return count(__libc_calloc(n, each));
}

/* Moving takes both pieces of memory for a moment. */
void *realloc(void *p, size_t n)
{
	int64_t had = p ? (int64_t)malloc_usable_size(p) : 0;
	void *to = count(__libc_realloc(p, n));
	used -= to || !n ? had : 0;
	return to;
}

void *reallocarray(void *p, size_t n, size_t each)
{
	size_t bytes;
	return __builtin_mul_overflow(n, each, &bytes) ? NULL : realloc(p, bytes);
}

void free(void *p)
{
	used -= p ? (int64_t)malloc_usable_size(p) : 0;
	__libc_free(p);
}
#endif

#endif
