/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between libFuzzer and a target: with FUZZ_STARVE=N each input runs up to N times more, each time
 * with another allocation of the program failing, until all of its allocations have failed once.
 * make fuzz-coverage does that. mk/fuzz.mk gives the program these allocators.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern bool fuzz_starved; /* in this run */
bool fuzz_starved;
static unsigned fails_at, n_allocations;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int fuzz_target(const uint8_t *data, size_t size);
void *fuzz_malloc(size_t size);
void *fuzz_calloc(size_t n, size_t size);
void *fuzz_realloc(void *p, size_t size);
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

char *fuzz_strdup(const char *s)
{
	return is_denied() ? NULL : strdup(s);
}

char *fuzz_strndup(const char *s, size_t n)
{
	return is_denied() ? NULL : strndup(s, n);
}

static int run(const uint8_t *data, size_t size, unsigned fail)
{
	fuzz_starved = false;
	n_allocations = 0;
	fails_at = fail;
	return fuzz_target(data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *n = getenv("FUZZ_STARVE");
	unsigned most = n ? (unsigned)strtoul(n, NULL, 10) : 0;
	int rc = run(data, size, 0);
	for (unsigned i = 1; i <= most && i <= n_allocations; i++)
		run(data, size, i);
	return rc;
}
