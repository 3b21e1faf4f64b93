/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator of a program's own, which tells of its memory by ascribe/heap.h. With allocates.c
 * (-DARENA), which frees in another file than this one; alone it does nothing.
 */
#include <ascribe/heap.h>

#include <stdlib.h>
#include <sys/mman.h>

#define ROOM ((size_t)4 << 30) /* never given back */

void *arena_allocate(size_t n);
void *arena_allocate(size_t n)
{
	static size_t used;
	static char *room;
	char *at = __atomic_load_n(&room, __ATOMIC_ACQUIRE);
	if (!at) { /* the first call, of the main thread */
		at = mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (at == MAP_FAILED)
			abort();
		__atomic_store_n(&room, at, __ATOMIC_RELEASE);
	}
	const size_t from = __atomic_fetch_add(&used, (n + 63) & ~(size_t)63, __ATOMIC_RELAXED);
	return from + n > ROOM ? NULL : ascribe_heap_allocated(at + from, n);
}

#ifndef ARENA
int main(void)
{
	return 0;
}
#endif
