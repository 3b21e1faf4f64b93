/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run an input N times more, each time with another of its requests failing. Those come first that
 * were made from a place where none has failed yet: a place is the functions that led to it. So a
 * corpus tries each place soon, and then, by the input's bytes, the same places in other states.
 * Requests are allocations and system calls: these fail, are interrupted, or find the end of the
 * file or of the room. mk/fuzz.mk gives the program these functions.
 * libFuzzer's targets do so with FUZZ_STARVE=N, which is for make fuzz-coverage.
 */
#include "fuzz/starve.h"

#include <dirent.h>
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

#define CALLERS 8 /* that tell places apart */
#define STACK_MOST (1u << 20)
#define REQUESTS_MOST (1u << 16) /* of an input, whose places are known */
#define PLACES (1u << 18)

enum how { FAILS, INTERRUPTED, AT_END, HOWS };

bool fuzz_starved;
static unsigned fails_at, n_requests;
static enum how how;		       /* a call does not succeed */
static const void *base;	       /* of the stack of a run */
static uint32_t places[REQUESTS_MOST]; /* of the requests of the run without a failure */
static uint8_t tried[PLACES];	       /* by place: how many requests have failed */

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
ssize_t fuzz_pwrite(int fd, const void *p, size_t n, off_t at);
int fuzz_fsync(int fd);
int fuzz_fdatasync(int fd);
int fuzz_ftruncate(int fd, off_t size);
int fuzz_posix_fallocate(int fd, off_t at, off_t len);
int fuzz_renameat(int from_dir, const char *from, int to_dir, const char *to);
int fuzz_mkdirat(int dir, const char *path, mode_t mode);
int fuzz_unlinkat(int dir, const char *path, int flags);
int fuzz_dup(int fd);
DIR *fuzz_fdopendir(int fd);

/*
 * Functions of other libraries may keep no frames: what stands where a frame would is believed only
 * where it lies on the stack, above the one before.
 */
__attribute__((noinline, no_sanitize("address"))) static uint32_t place_of(bool fails_in_ways)
{
	void *const *frame = __builtin_frame_address(0);
	uint64_t h = 0xcbf29ce484222325;
	for (int i = 0; i < CALLERS; i++) {
		void *const *above = frame[0];
		h = (h ^ (uintptr_t)frame[1]) * 0x100000001b3;
		if (above <= frame || (const void *)above >= base ||
		    (uintptr_t)above % sizeof(void *) ||
		    (uintptr_t)base - (uintptr_t)above > STACK_MOST)
			break;
		frame = above;
	}
	return (uint32_t)(h >> 32) << 1 | fails_in_ways;
}

static bool denies(bool in_ways)
{
	const unsigned at = __atomic_add_fetch(&n_requests, 1, __ATOMIC_RELAXED);
	const bool denied = at == fails_at;
	if (!fails_at && at <= REQUESTS_MOST)
		places[at - 1] = place_of(in_ways);
	fuzz_starved |= denied;
	return denied;
}

bool fuzz_denies(void)
{
	return denies(false);
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
	return denies(true) ? denied_read() : read(fd, p, n);
}

ssize_t fuzz_pread(int fd, void *p, size_t n, off_t at)
{
	return denies(true) ? denied_read() : pread(fd, p, n, at);
}

ssize_t fuzz_getrandom(void *p, size_t n, unsigned flags)
{
	return fuzz_denies() ? denied() : getrandom(p, n, flags);
}

ssize_t fuzz_pwrite(int fd, const void *p, size_t n, off_t at)
{
	static const int errors[HOWS] = { EFBIG, EINTR, EDQUOT };
	if (!denies(true))
		return pwrite(fd, p, n, at);
	errno = errors[how];
	return -1;
}

int fuzz_fsync(int fd)
{
	return fuzz_denies() ? denied() : fsync(fd);
}

int fuzz_fdatasync(int fd)
{
	return fuzz_denies() ? denied() : fdatasync(fd);
}

int fuzz_ftruncate(int fd, off_t size)
{
	return fuzz_denies() ? denied() : ftruncate(fd, size);
}

int fuzz_posix_fallocate(int fd, off_t at, off_t len)
{
	return fuzz_denies() ? ENOSPC : posix_fallocate(fd, at, len);
}

int fuzz_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	return fuzz_denies() ? denied() : renameat(from_dir, from, to_dir, to);
}

int fuzz_mkdirat(int dir, const char *path, mode_t mode)
{
	return fuzz_denies() ? denied() : mkdirat(dir, path, mode);
}

int fuzz_unlinkat(int dir, const char *path, int flags)
{
	return fuzz_denies() ? denied() : unlinkat(dir, path, flags);
}

int fuzz_dup(int fd)
{
	return fuzz_denies() ? denied() : dup(fd);
}

DIR *fuzz_fdopendir(int fd)
{
	if (!fuzz_denies())
		return fdopendir(fd);
	errno = ENOMEM;
	return NULL;
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

/* Whether no request from the place of this one has failed yet, in one of the ways. */
static bool is_new(unsigned request)
{
	const uint32_t place = places[request - 1] % PLACES;
	if (tried[place] >= (place & 1 ? HOWS : 1))
		return false;
	how = (enum how)tried[place]++;
	return true;
}

void starve(fuzz_run *run, const uint8_t *data, size_t size, unsigned most)
{
	base = __builtin_frame_address(0);
	run_failing(run, data, size, 0);
	const unsigned all = n_requests, known = all < REQUESTS_MOST ? all : REQUESTS_MOST;
	uint64_t random = hash_of(data, size);
	unsigned n = 0;
	for (unsigned i = 1; i <= known && n < most; i++)
		if (is_new(i) || all <= most) {
			run_failing(run, data, size, i);
			n++;
		}
	for (; n < most && n < all; n++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		how = (enum how)((random >> 20) % HOWS);
		run_failing(run, data, size, 1 + (unsigned)((random >> 33) % all));
	}
	fuzz_starved = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *n = getenv("FUZZ_STARVE");
	starve(fuzz_target, data, size, n ? (unsigned)strtoul(n, NULL, 10) : 0);
	return 0;
}
