/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers, clocks, memory and sizes of files. */
#include "bench_store.h"

#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct err err;
struct sizes sizes;

void check(int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "bench_store: %s: %s\n", what, err.code ? err.text : strerror(-rc));
	exit(1);
}

void *need(void *p)
{
	if (!p)
		check(-ENOMEM, "memory");
	return p;
}

/* ---- numbers ---- */

static uint64_t state = 88172645463325252ull;

uint64_t draw64(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

uint32_t draw(uint32_t below)
{
	return (uint32_t)((draw64() >> 32) * below >> 32);
}

double wall(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

uint64_t self_number(const char *file, const char *name)
{
	char path[64], line[256];
	uint64_t v = 0;
	snprintf(path, sizeof(path), "/proc/self/%s", file);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)))
			v = strtoull(line + strlen(name), NULL, 10);
	if (f)
		fclose(f);
	return v;
}

double resident_mib(void)
{
	return (double)self_number("status", "VmRSS:") / 1024;
}

double peak_begin(void)
{
	malloc_trim(0);
	FILE *f = fopen("/proc/self/clear_refs", "we");
	if (!f || fputs("5", f) < 0 || fclose(f))
		check(-errno, "/proc/self/clear_refs");
	return resident_mib();
}

double peak_mib(double begun)
{
	return (double)self_number("status", "VmHWM:") / 1024 - begun;
}

uint32_t setting(const char *name, uint32_t otherwise)
{
	const char *v = getenv(name);
	return v && *v ? (uint32_t)strtoul(v, NULL, 10) : otherwise;
}

/* Walker's alias method: one draw, whatever the number of outcomes. */
struct zipf zipf_new(uint32_t n)
{
	struct zipf z = { n, need(calloc(n, sizeof(*z.alias))), need(calloc(n, sizeof(*z.keep))) };
	uint32_t *small = need(calloc(2 * (size_t)n, sizeof(*small))), *large = small + n,
		 n_small = 0, n_large = 0;
	double sum = 0;
	for (uint32_t i = 0; i < n; i++)
		sum += z.keep[i] = pow(i + 1, -ZIPF);
	for (uint32_t i = 0; i < n; i++) {
		z.keep[i] *= n / sum;
		*(z.keep[i] < 1 ? &small[n_small++] : &large[n_large++]) = i;
	}
	while (n_small && n_large) {
		uint32_t s = small[--n_small], l = large[n_large - 1];
		z.alias[s] = l;
		z.keep[l] -= 1 - z.keep[s];
		if (z.keep[l] < 1) {
			n_large--;
			small[n_small++] = l;
		}
	}
	while (n_large)
		z.keep[large[--n_large]] = 1;
	while (n_small)
		z.keep[small[--n_small]] = 1;
	free(small);
	return z;
}

double draw_real(void)
{
	return (double)(draw64() >> 11) * 0x1p-53;
}

uint32_t zipf_draw(const struct zipf *z)
{
	uint32_t i = draw(z->n);
	return draw_real() < z->keep[i] ? i : z->alias[i];
}

/* ---- files ---- */

const char *const level_names[N_LEVELS] = { "10s-", "1m-", "5m-", "20m-", "1h-",
					    "4h-",  "1d-", "1w-", "4w-",  "postings-" };

static int level_of(const char *name)
{
	if (name[0] == 'L' && name[1] >= '0' && name[1] <= '9')
		return name[1] - '0';
	for (int i = 0; i < N_LEVELS; i++)
		if (!strncmp(name, level_names[i], strlen(level_names[i])))
			return i;
	return -1;
}

static int add_size(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	const char *name = path + ftw->base;
	uint64_t n = (uint64_t)st->st_size;
	if (type != FTW_F)
		return 0;
	sizes.all += n;
	if (strstr(path, "/seg/") && level_of(name) >= 0)
		sizes.level[level_of(name)] += n;
	return 0;
}

void measure(const char *dir)
{
	memset(&sizes, 0, sizeof(sizes));
	nftw(dir, add_size, 16, FTW_PHYS);
}
