// SPDX-License-Identifier: Apache-2.0
/*
 * Sample the malloc of a program, and its relatives, as ascribe/heap.h does. Preload it
 * (LD_PRELOAD=libascribe-heap.so), or compile this file into a dynamic program. It needs nothing
 * but the C library, glibc or musl, and works above any malloc that comes behind it.
 *
 *   malloc(n) --> n < left? --yes--> left -= n; the real malloc
 *                    | no
 *                    v
 *   draw a new `left`; does anybody listen? --yes--> table of live samples, otel_memory:alloc
 *
 *   free(p) ----> filter: any live sample in the page of p? --no--> the real free
 *                    | yes
 *                    v
 *   is p in the table? --yes--> out of it, otel_memory:free
 *
 * The program's own anonymous mappings are allocations, too; those of the allocator are not.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <ascribe/heap.h>

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#define COLD __attribute__((noinline, cold))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- the allocator behind us ---- */

static void free_early(void *p);

static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void (*free)(void *);
	void *(*memalign)(size_t, size_t);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	void *(*valloc)(size_t);
	void *(*pvalloc)(size_t);
	void *(*mmap)(void *, size_t, int, int, int, off_t);
	int (*munmap)(void *, size_t);
	void *(*mremap)(void *, size_t, size_t, int, ...);
	uintptr_t from, to; /* where the object that has its malloc is mapped */
} real = { .free = free_early };

/*
 * Call a real function. What the allocator asks itself for on the way, as musl's calloc asks
 * malloc, is none of the program's.
 */
#define REAL(name, ...) \
	({ \
		const uint64_t left = ascribe_heap_mine_.left; \
		ascribe_heap_mine_.left = UINT64_MAX; \
		__auto_type result = real.name(__VA_ARGS__); \
		ascribe_heap_mine_.left = left; \
		result; \
	})

static char early[32 << 10] __attribute__((aligned(16))); /* until `real` is known */
static size_t early_used;

static bool is_early(const void *p)
{
	return (uintptr_t)p - (uintptr_t)early < sizeof(early);
}

static void *early_alloc(size_t n)
{
	if (n > sizeof(early) - early_used)
		return NULL;
	void *p = early + early_used;
	early_used += (n + 15) & ~(size_t)15;
	return p;
}

static int find_allocator(struct dl_phdr_info *o, size_t size, void *ctx)
{
	uintptr_t from = UINTPTR_MAX, to = 0;
	(void)size;
	(void)ctx;
	for (unsigned i = 0; i < o->dlpi_phnum; i++) {
		const uintptr_t at = o->dlpi_addr + o->dlpi_phdr[i].p_vaddr;
		if (o->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		from = at < from ? at : from;
		to = at + o->dlpi_phdr[i].p_memsz > to ? at + o->dlpi_phdr[i].p_memsz : to;
	}
	if ((uintptr_t)real.malloc < from || (uintptr_t)real.malloc >= to)
		return 0;
	real.from = from;
	real.to = to;
	return 1;
}

/*
 * Find the real functions, before there is a second thread. True: they are there. False: dlsym
 * itself is asking for memory.
 */
static COLD bool find_real(void)
{
	static bool finding;
	if (real.malloc || finding)
		return real.malloc;
	finding = true;
	/* free and realloc look whether a pointer is early where the filter says that it may be */
	for (size_t at = 0; at < sizeof(early); at += 4096)
		*ascribe_heap_filter_of_(early + at) = ASCRIBE_HEAP_MANY_;
	*ascribe_heap_filter_of_(early + sizeof(early) - 1) = ASCRIBE_HEAP_MANY_;
#define FIND(name) real.name = (__typeof__(real.name))dlsym(RTLD_NEXT, #name)
	FIND(calloc);
	FIND(realloc);
	FIND(free);
	FIND(memalign);
	FIND(posix_memalign);
	FIND(aligned_alloc);
	FIND(valloc);
	FIND(pvalloc);
	FIND(mmap);
	FIND(munmap);
	FIND(mremap);
	FIND(malloc);
#undef FIND
	dl_iterate_phdr(find_allocator, NULL);
	finding = false;
	return real.malloc;
}

static inline bool is_ready(void)
{
	return !UNLIKELY(!real.malloc) || find_real();
}

/* ---- malloc and its relatives ---- */

static COLD struct ascribe_heap_sample_ malloc_taken(size_t n)
{
	if (is_ready())
		return ascribe_heap_take_(real.malloc(n), n);
	return (struct ascribe_heap_sample_){ early_alloc(n), n, 0, true };
}

/*
 * Half of what sampling costs is spent here and in free: neither saves a register. Until a thread
 * has drawn, `left` is 0: so it is until the real functions are known.
 */
PUBLIC void *malloc(size_t n)
{
	if (!UNLIKELY(n >= ascribe_heap_mine_.left)) {
		ascribe_heap_mine_.left -= n;
		return real.malloc(n);
	}
	return ascribe_heap_taken_(malloc_taken(n));
}

PUBLIC void *calloc(size_t count, size_t size)
{
	size_t n;
	if (!is_ready()) /* all of it is zero */
		return __builtin_mul_overflow(count, size, &n) ? NULL : early_alloc(n);
	void *p = REAL(calloc, count, size);
	return p ? ascribe_heap_allocated(p, count * size) : NULL;
}

/* The page of p is marked. True: p is of early_alloc, and nobody else's. */
static COLD bool forget(void *p)
{
	if (is_early(p))
		return true;
	if (ascribe_heap_table_remove_(p))
		ascribe_heap_fire_free_(p);
	return false;
}

/* What is freed before the real functions are known stays. */
static COLD void free_early(void *p)
{
	if (find_real())
		real.free(p);
}

static COLD void free_marked(void *p)
{
	if (!forget(p))
		real.free(p);
}

PUBLIC void free(void *p)
{
	if (ascribe_heap_is_marked_(p))
		free_marked(p);
	else
		real.free(p);
}

/* Whatever becomes of it, p is no sample any more: its memory may be somebody else's at once. */
PUBLIC void *realloc(void *p, size_t n)
{
	if (ascribe_heap_is_marked_(p) && forget(p)) {
		const size_t have = (size_t)(early + sizeof(early) - (char *)p);
		void *q = malloc(n);
		return q ? memcpy(q, p, n < have ? n : have) : NULL;
	}
	if (!is_ready())
		return early_alloc(n);
	void *q = REAL(realloc, p, n);
	return q ? ascribe_heap_allocated(q, n) : NULL;
}

PUBLIC void *reallocarray(void *p, size_t count, size_t size)
{
	size_t n;
	if (__builtin_mul_overflow(count, size, &n)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(p, n);
}

/* What the allocator behind us may not have. */
static void *missing(void)
{
	errno = ENOMEM;
	return NULL;
}

PUBLIC void *memalign(size_t to, size_t n)
{
	void *p = is_ready() && real.memalign ? REAL(memalign, to, n) : missing();
	return p ? ascribe_heap_allocated(p, n) : NULL;
}

PUBLIC void *aligned_alloc(size_t to, size_t n)
{
	void *p = is_ready() && real.aligned_alloc ? REAL(aligned_alloc, to, n) : missing();
	return p ? ascribe_heap_allocated(p, n) : NULL;
}

PUBLIC int posix_memalign(void **ret, size_t to, size_t n)
{
	const int rc =
		is_ready() && real.posix_memalign ? REAL(posix_memalign, ret, to, n) : ENOMEM;
	if (!rc)
		ascribe_heap_allocated(*ret, n);
	return rc;
}

PUBLIC void *valloc(size_t n)
{
	void *p = is_ready() && real.valloc ? REAL(valloc, n) : missing();
	return p ? ascribe_heap_allocated(p, n) : NULL;
}

PUBLIC void *pvalloc(size_t n)
{
	void *p = is_ready() && real.pvalloc ? REAL(pvalloc, n) : missing();
	return p ? ascribe_heap_allocated(p, n) : NULL;
}

/* ---- mappings ---- */

static bool is_memory(int prot, int flags)
{
	return flags & MAP_ANONYMOUS && prot & (PROT_READ | PROT_WRITE);
}

/* Does the allocator ask, to hand it out itself? */
#define IS_OF_ALLOCATOR() ((uintptr_t)__builtin_return_address(0) - real.from < real.to - real.from)

PUBLIC void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
	if (!is_ready() || !real.mmap) {
		missing();
		return MAP_FAILED;
	}
	void *p = real.mmap(at, n, prot, flags, fd, off);
	return p != MAP_FAILED && is_memory(prot, flags) && !IS_OF_ALLOCATOR()
		       ? ascribe_heap_allocated(p, n)
		       : p;
}

#undef mmap64 /* musl's name for mmap, which programs of glibc call here, too */
PUBLIC void *mmap64(void *, size_t, int, int, int, off_t) __attribute__((alias("mmap")));

/* A sampled mapping ends with its first page. */
PUBLIC int munmap(void *p, size_t n)
{
	if (ascribe_heap_is_marked_(p))
		forget(p);
	return is_ready() && real.munmap ? real.munmap(p, n) : -1;
}

PUBLIC void *mremap(void *p, size_t old, size_t n, int flags, ...)
{
	va_list more;
	va_start(more, flags);
	void *to = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
	va_end(more);
	if (ascribe_heap_is_marked_(p))
		forget(p);
	void *q = is_ready() && real.mremap ? real.mremap(p, old, n, flags, to) : MAP_FAILED;
	return q != MAP_FAILED && !IS_OF_ALLOCATOR() ? ascribe_heap_allocated(q, n) : q;
}
