/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows what it allocated and what is live. allocates TENANTS MIB HOLD: after half a second thread
 * i, with label tenant=i, allocates (i + 1) * MIB MiB in blocks of many sizes, by every function
 * there is. The main thread, with label tenant=main, then frees every second one of them, and holds
 * the others for HOLD seconds. Prints a line of JSON when it begins to hold: by tenant, the bytes
 * that were allocated and those that are live, and how many blocks. With -DARENA it allocates from
 * heap_arena.c.
 */
#include <ascribe/label.h>

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef ARENA
#include <ascribe/heap.h>

void *arena_allocate(size_t n);
#define malloc arena_allocate
#define free ascribe_heap_freed
#define OWN 1
#else
#define OWN 0
#endif

struct block {
	struct block *next;
	size_t size;
	int mapped;
};

static struct tenant {
	long index;
	size_t goal, allocated, objects, live, live_objects;
	struct block *blocks;
} tenants[64];

static void *mapping(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

__attribute__((noinline)) void *allocate(unsigned kind, size_t n);
void *allocate(unsigned kind, size_t n)
{
	void *p = NULL;
	switch (OWN ? 7 : kind % 8) {
	case 0:
		return calloc(1, n);
	case 1:
		return realloc(NULL, n);
	case 2:
		return posix_memalign(&p, 64, n) ? NULL : p;
	case 3:
		return aligned_alloc(64, n);
	case 4:
		return memalign(64, n);
	case 5:
		return reallocarray(NULL, n, 1);
	default:
		return malloc(n);
	}
}

static void *run(void *arg)
{
	struct tenant *t = arg;
	struct ascribe_scope scope;
	unsigned random = 1 + (unsigned)t->index;
	ascribe_attach_int(&scope, "tenant", t->index);
	while (t->allocated < t->goal) {
		random = random * 1103515245 + 12345;
		const unsigned r = random >> 8;
		size_t n = r % 997 ? 64 + r % 4000 / 64 * 64 : 1 << 20;
		const int mapped = n == 1 << 20 && r & 4096 && !OWN;
		struct block *b = mapped ? mapping(n) : allocate(r >> 4, n);
		if (!b)
			abort();
		*b = (struct block){ t->blocks, n, mapped };
		t->blocks = b;
		t->allocated += n;
		t->objects++;
	}
	ascribe_detach(&scope);
	return NULL;
}

static void free_half(struct tenant *t)
{
	struct block *b = t->blocks;
	t->live = t->allocated;
	t->live_objects = t->objects;
	t->blocks = NULL;
	for (int i = 0; b; i++) {
		struct block *next = b->next;
		if (i & 1) {
			t->live -= b->size;
			t->live_objects--;
			if (b->mapped)
				munmap(b, b->size);
			else
				free(b);
		} else {
			b->next = t->blocks;
			t->blocks = b;
		}
		b = next;
	}
}

int main(int argc, char **argv)
{
	const long n = argc > 3 ? atol(argv[1]) : 0;
	struct ascribe_scope scope;
	pthread_t thread[64];
	if (n < 1 || n > 64)
		return 2;
	void *volatile first = malloc(64 << 20); /* by which a recorder learns of the process */
	free(first);
	usleep(500000);
	for (long i = 0; i < n; i++) {
		tenants[i].index = i;
		tenants[i].goal = (size_t)atol(argv[2]) * (size_t)(i + 1) << 20;
		pthread_create(&thread[i], NULL, run, &tenants[i]);
	}
	for (long i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	ascribe_attach_string(&scope, "tenant", "main");
	for (long i = 0; i < n; i++)
		free_half(&tenants[i]);
	for (long i = 0; i < n; i++)
		printf("%s\"%ld\": {\"allocated\": %zu, \"objects\": %zu, \"live\": %zu, "
		       "\"live_objects\": %zu}",
		       i ? ", " : "{", i, tenants[i].allocated, tenants[i].objects, tenants[i].live,
		       tenants[i].live_objects);
	printf("}\n");
	fflush(stdout);
	usleep((useconds_t)(atof(argv[3]) * 1e6));
	ascribe_detach(&scope);
	return 0;
}
