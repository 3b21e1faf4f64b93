/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run an input N times more, each time with another of its requests failing: all of them where
 * there are so few, else the first N/2 and as many of the others. Which ones depends on the input's
 * bytes, so a corpus tries many. Requests are allocations and system calls that read files: these
 * fail, are interrupted, or find the end of the file. mk/fuzz.mk gives the program these functions.
 * libFuzzer's targets do so with FUZZ_STARVE=N, which is for make fuzz-coverage.
 */
#include "fuzz/starve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum how { FAILS, INTERRUPTED, AT_END, HOWS };

bool fuzz_starved;
static unsigned fails_at, n_requests;
static enum how how; /* a read does not succeed */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) fuzz_run fuzz_target;
void *fuzz_calloc(size_t n, size_t size);
void *fuzz_realloc(void *p, size_t size);
void *fuzz_reallocarray(void *p, size_t n, size_t size);
char *fuzz_strdup(const char *s);
char *fuzz_strndup(const char *s, size_t n);
int fuzz_open(const char *path, int flags, ...);
int fuzz_openat(int dir, const char *path, int flags, ...);
int fuzz_fcntl(int fd, int op, ...);
int fuzz_fstat(int fd, struct stat *st);
int fuzz_fstatat(int dir, const char *path, struct stat *st, int flags);
ssize_t fuzz_read(int fd, void *p, size_t n);
ssize_t fuzz_pread(int fd, void *p, size_t n, off_t at);
ssize_t fuzz_getrandom(void *p, size_t n, unsigned flags);

bool fuzz_denies(void)
{
	bool denied = __atomic_add_fetch(&n_requests, 1, __ATOMIC_RELAXED) == fails_at;
	fuzz_starved |= denied;
	return denied;
}

void *fuzz_malloc(size_t size)
{
	return fuzz_denies() ? NULL : malloc(size);
}

void *fuzz_calloc(size_t n, size_t size)
{
	return fuzz_denies() ? NULL : calloc(n, size);
}

void *fuzz_realloc(void *p, size_t size)
{
	return fuzz_denies() ? NULL : realloc(p, size);
}

void *fuzz_reallocarray(void *p, size_t n, size_t size)
{
	return fuzz_denies() ? NULL : reallocarray(p, n, size);
}

char *fuzz_strdup(const char *s)
{
	return fuzz_denies() ? NULL : strdup(s);
}

char *fuzz_strndup(const char *s, size_t n)
{
	return fuzz_denies() ? NULL : strndup(s, n);
}

static int denied(void)
{
	errno = EIO;
	return -1;
}

static ssize_t denied_read(void)
{
	errno = how == INTERRUPTED ? EINTR : EIO;
	return how == AT_END ? 0 : -1;
}

/* The last argument, which stands there with O_CREAT alone. */
static mode_t mode_of(int flags, va_list args)
{
	return flags & O_CREAT ? va_arg(args, mode_t) : 0;
}

int fuzz_open(const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	mode_t mode = mode_of(flags, args);
	va_end(args);
	return fuzz_denies() ? denied() : open(path, flags, mode);
}

int fuzz_openat(int dir, const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	mode_t mode = mode_of(flags, args);
	va_end(args);
	return fuzz_denies() ? denied() : openat(dir, path, flags, mode);
}

int fuzz_fcntl(int fd, int op, ...)
{
	va_list args;
	va_start(args, op);
	void *arg = va_arg(args, void *);
	va_end(args);
	return fuzz_denies() ? denied() : fcntl(fd, op, arg);
}

int fuzz_fstat(int fd, struct stat *st)
{
	return fuzz_denies() ? denied() : fstat(fd, st);
}

int fuzz_fstatat(int dir, const char *path, struct stat *st, int flags)
{
	return fuzz_denies() ? denied() : fstatat(dir, path, st, flags);
}

ssize_t fuzz_read(int fd, void *p, size_t n)
{
	return fuzz_denies() ? denied_read() : read(fd, p, n);
}

ssize_t fuzz_pread(int fd, void *p, size_t n, off_t at)
{
	return fuzz_denies() ? denied_read() : pread(fd, p, n, at);
}

ssize_t fuzz_getrandom(void *p, size_t n, unsigned flags)
{
	return fuzz_denies() ? denied() : getrandom(p, n, flags);
}

static void run_failing(fuzz_run *run, const uint8_t *data, size_t size, unsigned fail)
{
	fuzz_starved = false;
	n_requests = 0;
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
	const unsigned all = n_requests, first = all > most ? most / 2 : all;
	uint64_t random = hash_of(data, size);
	for (unsigned i = 1; i <= most && i <= all; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		unsigned other = first < all ? first + 1 + (random >> 33) % (all - first) : 0;
		how = (enum how)((random >> 20) % HOWS);
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
