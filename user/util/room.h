/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that grows has a capacity beyond what its owner asked for. With AddressSanitizer an access
 * to room that nobody asked for is an error, as it is behind the end of an allocation. Room that
 * was asked for once stays accessible until the memory grows.
 */
#ifndef ASCRIBE_UTIL_ROOM_H
#define ASCRIBE_UTIL_ROOM_H

#include <stddef.h>

/* 1 also for files without a sanitizer in a program that has one: they share memory with others. */
#ifndef ROOM_EXACT
#if defined(__SANITIZE_ADDRESS__)
#define ROOM_EXACT 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ROOM_EXACT 1
#endif
#endif
#endif

#ifdef ROOM_EXACT
#include <sanitizer/asan_interface.h>

/* p is new, of `size` bytes; the first `asked` may be used. */
static inline void room_begin(void *p, size_t asked, size_t size)
{
	__asan_poison_memory_region((char *)p + asked, size - asked);
}

/* The first `asked` bytes of p may be used. The cost is that of those that could not be before. */
static inline void room_ask(void *p, size_t asked)
{
	size_t back = 1;
	if (!asked || !__asan_address_is_poisoned((char *)p + asked - 1))
		return;
	while (back < asked && __asan_address_is_poisoned((char *)p + asked - back))
		back *= 2;
	back = back < asked ? back : asked;
	__asan_unpoison_memory_region((char *)p + asked - back, back);
}
#else
static inline void room_begin(void *p, size_t asked, size_t size)
{
	(void)p, (void)asked, (void)size;
}

static inline void room_ask(void *p, size_t asked)
{
	(void)p, (void)asked;
}
#endif

#endif
