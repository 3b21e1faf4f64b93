/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run an input N times more, each time with another of its allocations failing: all of them where
 * there are so few, else the first N/2 and as many of the others. Which ones depends on the input's
 * bytes, so a corpus tries many. mk/fuzz.mk gives the program these allocators. libFuzzer's targets
 * do so with FUZZ_STARVE=N, which is for make fuzz-coverage.
 */
#include "fuzz/starve.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool fuzz_starved;
static unsigned fails_at, n_allocations;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) fuzz_run fuzz_target;
void *fuzz_malloc(size_t size);
void *fuzz_calloc(size_t n, size_t size);
void *fuzz_realloc(void *p, size_t size);
void *fuzz_reallocarray(void *p, size_t n, size_t size);
char *fuzz_strdup(const char *s);
char *fuzz_strndup(const char *s, size_t n);

static bool is_denied(void)
{
	bool denied = __atomic_add_fetch(&n_allocations, 1, __ATOMIC_RELAXED) == fails_at;
	fuzz_starved |= denied;
	return denied;
}

void *fuzz_malloc(size_t size)
{
	return is_denied() ? NULL : malloc(size);
}

void *fuzz_calloc(size_t n, size_t size)
{
	return is_denied() ? NULL : calloc(n, size);
}

void *fuzz_realloc(void *p, size_t size)
{
	return is_denied() ? NULL : realloc(p, size);
}

void *fuzz_reallocarray(void *p, size_t n, size_t size)
{
	return is_denied() ? NULL : reallocarray(p, n, size);
}

char *fuzz_strdup(const char *s)
{
	return is_denied() ? NULL : strdup(s);
}

char *fuzz_strndup(const char *s, size_t n)
{
	return is_denied() ? NULL : strndup(s, n);
}

static void run_failing(fuzz_run *run, const uint8_t *data, size_t size, unsigned fail)
{
	fuzz_starved = false;
	n_allocations = 0;
	fails_at = fail;
	run(data, size);
}

static uint64_t hash_of(const uint8_t *data, size_t size)
{
	uint64_t h = 0xcbf29ce484222325; /* FNV-1a */
	for (size_t i = 0; i < size; i++)
		h = (h ^ data[i]) * 0x100000001b3;
	return h;
}

void starve(fuzz_run *run, const uint8_t *data, size_t size, unsigned most)
{
	run_failing(run, data, size, 0);
	const unsigned all = n_allocations, first = all > most ? most / 2 : all;
	uint64_t random = hash_of(data, size);
	for (unsigned i = 1; i <= most && i <= all; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		unsigned other = first < all ? first + 1 + (random >> 33) % (all - first) : 0;
		run_failing(run, data, size, i <= first ? i : other);
	}
	fuzz_starved = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *n = getenv("FUZZ_STARVE");
	starve(fuzz_target, data, size, n ? (unsigned)strtoul(n, NULL, 10) : 0);
	return 0;
}
