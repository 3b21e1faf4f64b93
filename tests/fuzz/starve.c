/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run an input again with its first allocation failing, then with its second, up to the N-th.
 * Beyond the 16th some are left out, more of them the later they come. mk/fuzz.mk gives the program
 * these allocators. libFuzzer's targets do so with FUZZ_STARVE=N, which is for make fuzz-coverage.
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

void starve(fuzz_run *run, const uint8_t *data, size_t size, unsigned most)
{
	run_failing(run, data, size, 0);
	for (unsigned i = 1; i <= most; i += 1 + i / 16) {
		run_failing(run, data, size, i);
		if (!fuzz_starved) /* it has fewer allocations */
			break;
	}
	fuzz_starved = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *n = getenv("FUZZ_STARVE");
	starve(fuzz_target, data, size, n ? (unsigned)strtoul(n, NULL, 10) : 0);
	return 0;
}
