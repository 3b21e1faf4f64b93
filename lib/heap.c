// SPDX-License-Identifier: Apache-2.0
/*
 * Sample a program's allocations for whoever listens to the static probes of OpenTelemetry's memory
 * profiles (design 00003):
 *
 *   otel_memory:alloc(ptr, size, weighted_bytes)    a sampled allocation
 *   otel_memory:free(ptr)                           it is about to be freed
 *
 * Preload it (LD_PRELOAD=libascribe-heap.so), or compile this file into a dynamic program. It needs
 * nothing but the C library, glibc or musl, and works above any malloc that comes behind it.
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
 * 1. The bytes between two samples are distributed exponentially with the mean MEAN. So an
 *    allocation of S bytes is sampled with probability 1 - exp(-S / MEAN), and stands for
 *    S / (1 - exp(-S / MEAN)) bytes.
 * 2. A sample enters the table before its pointer is returned, and leaves it before its memory is
 *    given up. So the probes of a pointer come in this order.
 * 3. Nothing here locks, allocates or fails: it may run in signal handlers.
 * 4. A sample without room in the table is freed at once for those who listen. So what is allocated
 *    is right, and live memory is too low by ascribe_heap_untracked samples.
 *
 * The program's own anonymous mappings are allocations, too; those of the allocator are not.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
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

#define MEAN (512 * 1024) /* bytes */
#define PUBLIC __attribute__((visibility("default")))
#define COLD __attribute__((noinline, cold))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- the probes: a nop each, and a note that says where (layout of SystemTap's sys/sdt.h) ---- */

#define PROBE(name, args) \
	"990: nop\n" \
	".pushsection .note.stapsdt, \"\", \"note\"\n" \
	".balign 4\n" \
	".4byte 992f - 991f, 994f - 993f, 3\n" \
	"991: .asciz \"stapsdt\"\n" \
	"992: .balign 4\n" \
	"993: .8byte 990b, _.stapsdt.base, otel_memory_" name "_semaphore\n" \
	".asciz \"otel_memory\"\n" \
	".asciz \"" name "\"\n" \
	".asciz \"" args "\"\n" \
	"994: .balign 4\n" \
	".popsection\n" \
	".ifndef _.stapsdt.base\n" \
	".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n" \
	".weak _.stapsdt.base\n" \
	".hidden _.stapsdt.base\n" \
	"_.stapsdt.base: .space 1\n" \
	".size _.stapsdt.base, 1\n" \
	".popsection\n" \
	".endif\n"

/* How many listen; the kernel counts them here. */
#define SEMAPHORE __attribute__((section(".probes"), visibility("hidden"), used))
SEMAPHORE volatile unsigned short otel_memory_alloc_semaphore;
SEMAPHORE volatile unsigned short otel_memory_free_semaphore;

#if defined(__x86_64__)
static inline __attribute__((always_inline)) void fire_alloc(void *p, size_t size,
							     uint64_t weighted)
{
	__asm__ volatile(PROBE("alloc", "8@%%rdi 8@%%rsi 8@%%rdx")
			 :
			 : "D"(p), "S"(size), "d"(weighted));
}

static inline __attribute__((always_inline)) void fire_free(void *p)
{
	__asm__ volatile(PROBE("free", "8@%%rdi") : : "D"(p));
}
#elif defined(__aarch64__)
static inline __attribute__((always_inline)) void fire_alloc(void *p, size_t size,
							     uint64_t weighted)
{
	register uint64_t x0 __asm__("x0") = (uintptr_t)p, x1 __asm__("x1") = size,
			     x2 __asm__("x2") = weighted;
	__asm__ volatile(PROBE("alloc", "8@x0 8@x1 8@x2") : : "r"(x0), "r"(x1), "r"(x2));
}

static inline __attribute__((always_inline)) void fire_free(void *p)
{
	register uint64_t x0 __asm__("x0") = (uintptr_t)p;
	__asm__ volatile(PROBE("free", "8@x0") : : "r"(x0));
}
#else
#error "the probes are written for x86-64 and arm64"
#endif

/* ---- live samples ---- */

/*
 * Pointers in buckets. A bucket is searched whole, so that any slot of it may become free. Half
 * full it stands for 16 GiB, and then 4 in 1,000 samples find no room.
 */
#define BUCKET 16 /* pointers, two cache lines */
#define BUCKETS 4096
static uintptr_t table[BUCKETS][BUCKET] __attribute__((aligned(128)));

/*
 * Live samples of each page, by the low bits of its number: frees of neighbours share a cache line.
 * A count that reached MANY stays there: it only costs a search of the table.
 */
#define MANY 255
static uint8_t filter[1 << 16];

PUBLIC uint64_t ascribe_heap_untracked;

#define GOLDEN 0x9e3779b97f4a7c15ull

static uint8_t *filter_of(const void *p)
{
	return &filter[(uint16_t)((uintptr_t)p >> 12)];
}

/* May there be a sample in the page of p? */
static inline bool is_marked(const void *p)
{
	return UNLIKELY(*filter_of(p) != 0);
}

static void filter_count(const void *p, int change)
{
	uint8_t *at = filter_of(p), old = __atomic_load_n(at, __ATOMIC_RELAXED);
	do {
		if (old == MANY)
			return;
	} while (!__atomic_compare_exchange_n(at, &old, (uint8_t)(old + change), true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

static uintptr_t *bucket_of(const void *p)
{
	return table[((uintptr_t)p >> 4) * GOLDEN >> 52];
}

/* False: there is no room. */
static bool table_add(void *p)
{
	uintptr_t *b = bucket_of(p);
	filter_count(p, 1);
	for (unsigned i = 0; i < BUCKET; i++) {
		uintptr_t none = 0;
		if (!b[i] && __atomic_compare_exchange_n(&b[i], &none, (uintptr_t)p, false,
							 __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return true;
	}
	filter_count(p, -1);
	return false;
}

static bool table_remove(void *p)
{
	uintptr_t *b = bucket_of(p);
	for (unsigned i = 0; i < BUCKET; i++) {
		uintptr_t have = (uintptr_t)p;
		if (b[i] == have &&
		    __atomic_compare_exchange_n(&b[i], &have, 0, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED)) {
			filter_count(p, -1);
			return true;
		}
	}
	return false;
}

/* ---- which allocation is a sample ---- */

static __thread struct {
	uint64_t left;	 /* bytes until the next sample; 0: the thread has not drawn yet */
	uint64_t random; /* state of xorshift64; 0: none yet */
	pid_t pid;	 /* that the state is of: the child of a fork draws its own numbers */
} mine __attribute__((tls_model("initial-exec")));

static uint64_t draw_bits(void)
{
	uint64_t x = mine.random;
	const pid_t pid = getpid();
	if (!x || mine.pid != pid) {
		struct timespec now = { 0 };
		clock_gettime(CLOCK_MONOTONIC, &now);
		x ^= ((uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec) * GOLDEN;
		x ^= ((uintptr_t)&mine ^ (uint64_t)pid << 40) * 0xbf58476d1ce4e5b9ull;
		x |= !x;
		mine.pid = pid;
	}
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	mine.random = x;
	return x * 0x2545f4914f6cdd1dull;
}

/* -ln of a random number in (0, 1]; the mathematics library is none of ours. */
static double draw_exponential(void)
{
	const double ln2 = 0.69314718055994531;
	const uint64_t u = (draw_bits() >> 12) + 1; /* 1 .. 2^52 */
	const int shift = 63 - __builtin_clzll(u);
	const double m = (double)u / (double)(1ull << shift); /* [1, 2) */
	const double z = (m - 1) / (m + 1), zz = z * z;	      /* ln m = 2 artanh z */
	double sum = 0;
	for (int k = 17; k >= 1; k -= 2)
		sum = sum * zz + 1.0 / k;
	return (52 - shift) * ln2 - 2 * z * sum;
}

/* 1 - exp(-x), also of very small x. */
static double complement(double x)
{
	int halved = 0;
	for (; x > 0.03 && halved < 11; halved++)
		x /= 2;
	if (x > 0.03) /* beyond 60 */
		return 1;
	double c = x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5))));
	while (halved--)
		c = c * (2 - c);
	return c;
}

static uint64_t weighted(size_t n)
{
	return (uint64_t)((double)n / complement((double)n / MEAN) + 0.5);
}

struct sample {
	void *p;
	size_t n;
	uint64_t weighted; /* bytes that it stands for; 0: no sample, or nobody listens */
	bool kept;	   /* in the table */
};

/* n bytes at p were allocated, and `left` does not reach. */
static COLD struct sample take(void *p, size_t n)
{
	struct sample s = { p, n, 0, true };
	const bool first = !mine.left;
	if (!p)
		return s;
	mine.left = 1 + (uint64_t)(draw_exponential() * MEAN);
	if (first && n < mine.left) {
		mine.left -= n;
		return s;
	}
	if (first)
		mine.left = 1 + (uint64_t)(draw_exponential() * MEAN);
	if (!otel_memory_alloc_semaphore)
		return s;
	s.weighted = weighted(n);
	s.kept = table_add(p);
	if (!s.kept)
		__atomic_fetch_add(&ascribe_heap_untracked, 1, __ATOMIC_RELAXED);
	return s;
}

/* The probe stands in the function that the program called, so that stacks end there. */
static inline __attribute__((always_inline)) void *taken(struct sample s)
{
	if (s.weighted)
		fire_alloc(s.p, s.n, s.weighted);
	if (!s.kept)
		fire_free(s.p);
	return s.p;
}

/* The program has n bytes at p. Return p. */
static inline __attribute__((always_inline)) void *allocated(void *p, size_t n)
{
	if (UNLIKELY(n >= mine.left))
		return taken(take(p, n));
	mine.left -= n;
	return p;
}

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
		const uint64_t left = mine.left; \
		mine.left = UINT64_MAX; \
		__auto_type result = real.name(__VA_ARGS__); \
		mine.left = left; \
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
		*filter_of(early + at) = MANY;
	*filter_of(early + sizeof(early) - 1) = MANY;
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

static COLD struct sample malloc_taken(size_t n)
{
	if (is_ready())
		return take(real.malloc(n), n);
	return (struct sample){ early_alloc(n), n, 0, true };
}

/*
 * Half of what sampling costs is spent here and in free: neither saves a register. Until a thread
 * has drawn, `left` is 0: so it is until the real functions are known.
 */
PUBLIC void *malloc(size_t n)
{
	if (!UNLIKELY(n >= mine.left)) {
		mine.left -= n;
		return real.malloc(n);
	}
	return taken(malloc_taken(n));
}

PUBLIC void *calloc(size_t count, size_t size)
{
	size_t n;
	if (!is_ready()) /* all of it is zero */
		return __builtin_mul_overflow(count, size, &n) ? NULL : early_alloc(n);
	void *p = REAL(calloc, count, size);
	return p ? allocated(p, count * size) : NULL;
}

/* The page of p is marked. True: p is of early_alloc, and nobody else's. */
static COLD bool forget(void *p)
{
	if (is_early(p))
		return true;
	if (table_remove(p))
		fire_free(p);
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
	if (is_marked(p))
		free_marked(p);
	else
		real.free(p);
}

/* Whatever becomes of it, p is no sample any more: its memory may be somebody else's at once. */
PUBLIC void *realloc(void *p, size_t n)
{
	if (is_marked(p) && forget(p)) {
		const size_t have = (size_t)(early + sizeof(early) - (char *)p);
		void *q = malloc(n);
		return q ? memcpy(q, p, n < have ? n : have) : NULL;
	}
	if (!is_ready())
		return early_alloc(n);
	void *q = REAL(realloc, p, n);
	return q ? allocated(q, n) : NULL;
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
	return p ? allocated(p, n) : NULL;
}

PUBLIC void *aligned_alloc(size_t to, size_t n)
{
	void *p = is_ready() && real.aligned_alloc ? REAL(aligned_alloc, to, n) : missing();
	return p ? allocated(p, n) : NULL;
}

PUBLIC int posix_memalign(void **ret, size_t to, size_t n)
{
	const int rc =
		is_ready() && real.posix_memalign ? REAL(posix_memalign, ret, to, n) : ENOMEM;
	if (!rc)
		allocated(*ret, n);
	return rc;
}

PUBLIC void *valloc(size_t n)
{
	void *p = is_ready() && real.valloc ? REAL(valloc, n) : missing();
	return p ? allocated(p, n) : NULL;
}

PUBLIC void *pvalloc(size_t n)
{
	void *p = is_ready() && real.pvalloc ? REAL(pvalloc, n) : missing();
	return p ? allocated(p, n) : NULL;
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
	return p != MAP_FAILED && is_memory(prot, flags) && !IS_OF_ALLOCATOR() ? allocated(p, n)
									       : p;
}

#undef mmap64 /* musl's name for mmap, which programs of glibc call here, too */
PUBLIC void *mmap64(void *, size_t, int, int, int, off_t) __attribute__((alias("mmap")));

/* A sampled mapping ends with its first page. */
PUBLIC int munmap(void *p, size_t n)
{
	if (is_marked(p))
		forget(p);
	return is_ready() && real.munmap ? real.munmap(p, n) : -1;
}

PUBLIC void *mremap(void *p, size_t old, size_t n, int flags, ...)
{
	va_list more;
	va_start(more, flags);
	void *to = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
	va_end(more);
	if (is_marked(p))
		forget(p);
	void *q = is_ready() && real.mremap ? real.mremap(p, old, n, flags, to) : MAP_FAILED;
	return q != MAP_FAILED && !IS_OF_ALLOCATOR() ? allocated(q, n) : q;
}
