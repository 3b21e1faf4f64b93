/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Sample allocations for whoever listens to the static probes of OpenTelemetry's memory profiles
 * (design 00003):
 *
 *   otel_memory:alloc(ptr, size, weighted_bytes)    a sampled allocation
 *   otel_memory:free(ptr)                           it is about to be freed
 *
 * For an allocator of one's own: arenas, slabs, a malloc that the program defines, static programs.
 * libascribe-heap.so has malloc and its relatives already; do not count their memory twice.
 *
 *	void *p = take_from(arena, n);
 *	return ascribe_heap_allocated(p, n);        before p is known to others
 *
 *	ascribe_heap_freed(p);                      before its memory is given up
 *	give_back(arena, p);
 *
 * Header-only; needs libc (before glibc 2.34 link with -lpthread), gcc or clang, x86-64 or aarch64
 * Linux; C11 or C++11. All files of a program share 580 KiB of zeros, most of which are never
 * touched. Programs and libraries that are there at start have room for its thread-local 32 bytes;
 * see docs/labels.md for later ones.
 *
 * 1. The bytes between two samples of a thread are distributed exponentially, with a mean of
 *    ASCRIBE_HEAP_MEAN. So an allocation of S bytes is sampled with probability 1 - exp(-S / mean),
 *    and stands for S / (1 - exp(-S / mean)) bytes. A thread that goes on for longer with more than
 *    ASCRIBE_HEAP_RATE samples a second gets a larger mean, 128 times at most.
 * 2. A sample enters the table before its pointer is returned, and leaves it before its memory is
 *    given up. So the probes of a pointer come in this order.
 * 3. Nothing here locks, allocates or fails: it may run in signal handlers, and in any thread.
 * 4. A sample without room in the table is freed at once for those who listen. So what is allocated
 *    is right, and live memory is too low by ascribe_heap_untracked samples.
 */
#ifndef ASCRIBE_HEAP_H
#define ASCRIBE_HEAP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define ASCRIBE_HEAP_MEAN (512 * 1024) /* bytes */
#define ASCRIBE_HEAP_RATE 1000	       /* samples a second of a thread, on the long run */
#define ASCRIBE_HEAP_CREDIT 4096       /* samples that a thread may take at once, some 2 GiB */
#define ASCRIBE_HEAP_PATIENCE 16       /* samples too many until the mean doubles again */
#define ASCRIBE_HEAP_DOUBLED_MAX 7

/* One for all files of a program or library. */
#define ASCRIBE_HEAP_SHARED_ __attribute__((weak, visibility("hidden")))
#define ASCRIBE_HEAP_FN_ static inline __attribute__((unused))
#define ASCRIBE_HEAP_HOT_ static inline __attribute__((unused, always_inline))
#define ASCRIBE_HEAP_COLD_ static __attribute__((unused, noinline, cold))

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
extern "C" {
#endif

/* ---- the probes: a nop each, and a note that says where (layout of SystemTap's sys/sdt.h) ---- */

#define ASCRIBE_HEAP_PROBE_(name, args) \
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
#define ASCRIBE_HEAP_SEMAPHORE_ ASCRIBE_HEAP_SHARED_ __attribute__((section(".probes"), used))
ASCRIBE_HEAP_SEMAPHORE_ volatile unsigned short otel_memory_alloc_semaphore;
ASCRIBE_HEAP_SEMAPHORE_ volatile unsigned short otel_memory_free_semaphore;

#if defined(__x86_64__)
ASCRIBE_HEAP_HOT_ void ascribe_heap_fire_alloc_(void *p, size_t size, uint64_t weighted)
{
	__asm__ volatile(ASCRIBE_HEAP_PROBE_("alloc", "8@%%rdi 8@%%rsi 8@%%rdx")
			 :
			 : "D"(p), "S"(size), "d"(weighted));
}

ASCRIBE_HEAP_HOT_ void ascribe_heap_fire_free_(void *p)
{
	__asm__ volatile(ASCRIBE_HEAP_PROBE_("free", "8@%%rdi") : : "D"(p));
}
#elif defined(__aarch64__)
ASCRIBE_HEAP_HOT_ void ascribe_heap_fire_alloc_(void *p, size_t size, uint64_t weighted)
{
	register uint64_t x0 __asm__("x0") = (uintptr_t)p, x1 __asm__("x1") = size,
			     x2 __asm__("x2") = weighted;
	__asm__ volatile(ASCRIBE_HEAP_PROBE_("alloc", "8@x0 8@x1 8@x2")
			 :
			 : "r"(x0), "r"(x1), "r"(x2));
}

ASCRIBE_HEAP_HOT_ void ascribe_heap_fire_free_(void *p)
{
	register uint64_t x0 __asm__("x0") = (uintptr_t)p;
	__asm__ volatile(ASCRIBE_HEAP_PROBE_("free", "8@x0") : : "r"(x0));
}
#else
#error "the probes are written for x86-64 and arm64"
#endif

/* ---- live samples ---- */

/*
 * Pointers in buckets. A bucket is searched whole, so that any slot of it may become free. Half
 * full it stands for 16 GiB, and then 4 in 1,000 samples find no room.
 */
#define ASCRIBE_HEAP_BUCKET_ 16 /* pointers, two cache lines */
#define ASCRIBE_HEAP_BUCKETS_ 4096
ASCRIBE_HEAP_SHARED_ uintptr_t ascribe_heap_table_[ASCRIBE_HEAP_BUCKETS_][ASCRIBE_HEAP_BUCKET_]
	__attribute__((aligned(128)));

/*
 * Live samples of each page, by the low bits of its number: frees of neighbours share a cache line.
 * A count that reached ASCRIBE_HEAP_MANY_ stays there: it only costs a search of the table.
 */
#define ASCRIBE_HEAP_MANY_ 255
ASCRIBE_HEAP_SHARED_ uint8_t ascribe_heap_filter_[1 << 16];

__attribute__((weak, visibility("default"))) uint64_t ascribe_heap_untracked;

#define ASCRIBE_HEAP_GOLDEN_ 0x9e3779b97f4a7c15ull

ASCRIBE_HEAP_FN_ uint8_t *ascribe_heap_filter_of_(const void *p)
{
	return &ascribe_heap_filter_[(uint16_t)((uintptr_t)p >> 12)];
}

/* May there be a sample in the page of p? */
ASCRIBE_HEAP_FN_ bool ascribe_heap_is_marked_(const void *p)
{
	return __builtin_expect(*ascribe_heap_filter_of_(p) != 0, 0);
}

ASCRIBE_HEAP_FN_ void ascribe_heap_filter_count_(const void *p, int change)
{
	uint8_t *at = ascribe_heap_filter_of_(p), old = __atomic_load_n(at, __ATOMIC_RELAXED);
	do {
		if (old == ASCRIBE_HEAP_MANY_)
			return;
	} while (!__atomic_compare_exchange_n(at, &old, (uint8_t)(old + change), true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

ASCRIBE_HEAP_FN_ uintptr_t *ascribe_heap_bucket_of_(const void *p)
{
	return ascribe_heap_table_[((uintptr_t)p >> 4) * ASCRIBE_HEAP_GOLDEN_ >> 52];
}

/* False: there is no room. */
ASCRIBE_HEAP_FN_ bool ascribe_heap_table_add_(void *p)
{
	uintptr_t *b = ascribe_heap_bucket_of_(p);
	ascribe_heap_filter_count_(p, 1);
	for (unsigned i = 0; i < ASCRIBE_HEAP_BUCKET_; i++) {
		uintptr_t none = 0;
		if (!b[i] && __atomic_compare_exchange_n(&b[i], &none, (uintptr_t)p, false,
							 __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return true;
	}
	ascribe_heap_filter_count_(p, -1);
	return false;
}

ASCRIBE_HEAP_FN_ bool ascribe_heap_table_remove_(void *p)
{
	uintptr_t *b = ascribe_heap_bucket_of_(p);
	for (unsigned i = 0; i < ASCRIBE_HEAP_BUCKET_; i++) {
		uintptr_t have = (uintptr_t)p;
		if (b[i] == have &&
		    __atomic_compare_exchange_n(&b[i], &have, 0, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED)) {
			ascribe_heap_filter_count_(p, -1);
			return true;
		}
	}
	return false;
}

/* ---- which allocation is a sample ---- */

struct ascribe_heap_mine_ {
	uint64_t left;	 /* bytes until the next sample; 0: the thread has not drawn yet */
	uint64_t random; /* state of xorshift64 */
	int64_t due_ns;	 /* when so many samples are due by ASCRIBE_HEAP_RATE */
	uint64_t mean;	 /* by which `left` was drawn */
};
ASCRIBE_HEAP_SHARED_ __attribute__((
	tls_model("initial-exec"))) __thread struct ascribe_heap_mine_ ascribe_heap_mine_;

/* Set by the first file of a program or library. */
ASCRIBE_HEAP_SHARED_ bool ascribe_heap_follows_forks_;

/* Let a child draw anew: with what its parent had left, all children took the same samples. */
static void ascribe_heap_forked_(void)
{
	ascribe_heap_mine_.left = 0;
}

__attribute__((constructor)) static void ascribe_heap_follow_forks_(void)
{
	if (!ascribe_heap_follows_forks_)
		ascribe_heap_follows_forks_ = !pthread_atfork(NULL, NULL, ascribe_heap_forked_);
}

ASCRIBE_HEAP_FN_ int64_t ascribe_heap_now_(void)
{
	struct timespec now = { 0, 0 };
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/*
 * Count a sample at this time, and set the mean of the next. A thread spends its credit at the
 * smallest mean. Beyond it the mean doubles until its samples come at the rate. What a sample
 * stands for is by the mean that it was drawn with, so sums stay right on average.
 */
ASCRIBE_HEAP_FN_ void ascribe_heap_pace_(int64_t now)
{
	const int64_t each = 1000000000 / ASCRIBE_HEAP_RATE;
	struct ascribe_heap_mine_ *m = &ascribe_heap_mine_;
	if (m->due_ns < now - ASCRIBE_HEAP_CREDIT * each)
		m->due_ns = now - ASCRIBE_HEAP_CREDIT * each;
	m->due_ns += each;
	int64_t doubled = (m->due_ns - now) / (ASCRIBE_HEAP_PATIENCE * each);
	if (doubled < 0)
		doubled = 0;
	if (doubled > ASCRIBE_HEAP_DOUBLED_MAX) {
		doubled = ASCRIBE_HEAP_DOUBLED_MAX;
		m->due_ns -= each;
	}
	m->mean = (uint64_t)ASCRIBE_HEAP_MEAN << doubled;
}

/* The time is mixed in, so that threads and the children of a fork draw their own numbers. */
ASCRIBE_HEAP_FN_ uint64_t ascribe_heap_draw_bits_(int64_t now)
{
	uint64_t x = ascribe_heap_mine_.random ^ (uintptr_t)&ascribe_heap_mine_;
	x ^= (uint64_t)now * ASCRIBE_HEAP_GOLDEN_;
	x |= !x;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	ascribe_heap_mine_.random = x;
	return x * 0x2545f4914f6cdd1dull;
}

/* -ln of a random number in (0, 1]; the mathematics library is none of ours. */
ASCRIBE_HEAP_FN_ double ascribe_heap_draw_exponential_(int64_t now)
{
	const double ln2 = 0.69314718055994531;
	const uint64_t u = (ascribe_heap_draw_bits_(now) >> 12) + 1; /* 1 .. 2^52 */
	const int shift = 63 - __builtin_clzll(u);
	const double m = (double)u / (double)(1ull << shift); /* [1, 2) */
	const double z = (m - 1) / (m + 1), zz = z * z;	      /* ln m = 2 artanh z */
	double sum = 0;
	for (int k = 17; k >= 1; k -= 2)
		sum = sum * zz + 1.0 / k;
	return (52 - shift) * ln2 - 2 * z * sum;
}

/* 1 - exp(-x), also of very small x. */
ASCRIBE_HEAP_FN_ double ascribe_heap_complement_(double x)
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

ASCRIBE_HEAP_FN_ uint64_t ascribe_heap_weighted_(size_t n)
{
	const double by_mean = (double)n / (double)ascribe_heap_mine_.mean;
	return (uint64_t)((double)n / ascribe_heap_complement_(by_mean) + 0.5);
}

ASCRIBE_HEAP_FN_ void ascribe_heap_draw_(int64_t now)
{
	ascribe_heap_mine_.left = 1 + (uint64_t)(ascribe_heap_draw_exponential_(now) *
						 (double)ascribe_heap_mine_.mean);
}

ASCRIBE_HEAP_FN_ void ascribe_heap_begin_(int64_t now)
{
	ascribe_heap_mine_.mean = ASCRIBE_HEAP_MEAN;
	ascribe_heap_mine_.due_ns = INT64_MIN;
	ascribe_heap_draw_(now);
}

struct ascribe_heap_sample_ {
	void *p;
	size_t n;
	uint64_t weighted; /* bytes that it stands for; 0: no sample, or nobody listens */
	bool kept;	   /* in the table */
};

/* n bytes at p were allocated, and `left` does not reach. */
ASCRIBE_HEAP_COLD_ struct ascribe_heap_sample_ ascribe_heap_take_(void *p, size_t n)
{
	struct ascribe_heap_sample_ s = { p, n, 0, true };
	const int64_t now = ascribe_heap_now_();
	if (!p)
		return s;
	if (!ascribe_heap_mine_.left) {
		ascribe_heap_begin_(now);
		if (n < ascribe_heap_mine_.left) {
			ascribe_heap_mine_.left -= n;
			return s;
		}
	}
	if (otel_memory_alloc_semaphore)
		s.weighted = ascribe_heap_weighted_(n);
	ascribe_heap_pace_(now);
	ascribe_heap_draw_(now);
	if (!s.weighted)
		return s;
	s.kept = ascribe_heap_table_add_(p);
	if (!s.kept)
		__atomic_fetch_add(&ascribe_heap_untracked, 1, __ATOMIC_RELAXED);
	return s;
}

/* The probe stands in the function that the program called, so that stacks end there. */
ASCRIBE_HEAP_HOT_ void *ascribe_heap_taken_(struct ascribe_heap_sample_ s)
{
	if (s.weighted)
		ascribe_heap_fire_alloc_(s.p, s.n, s.weighted);
	if (!s.kept)
		ascribe_heap_fire_free_(s.p);
	return s.p;
}

/* ---- the interface ---- */

/* The program has n bytes at p, and nobody else knows p yet. p may be NULL. Return p. */
ASCRIBE_HEAP_HOT_ void *ascribe_heap_allocated(void *p, size_t n)
{
	if (__builtin_expect(n >= ascribe_heap_mine_.left, 0))
		return ascribe_heap_taken_(ascribe_heap_take_(p, n));
	ascribe_heap_mine_.left -= n;
	return p;
}

/*
 * The memory of p, or of a whole mapping that begins there, is about to be given up. p may be NULL,
 * and of others.
 */
ASCRIBE_HEAP_HOT_ void ascribe_heap_freed(void *p)
{
	if (ascribe_heap_is_marked_(p) && ascribe_heap_table_remove_(p))
		ascribe_heap_fire_free_(p);
}

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif

#endif
