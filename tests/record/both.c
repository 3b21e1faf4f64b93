/* SPDX-License-Identifier: Apache-2.0 */
/*
 * both: a program with our labels, linked with something like an OpenTelemetry SDK (this file
 * again, with -DSDK), which publishes first. Under the label tenant=acme for a second of CPU time,
 * then without it for half a second, always in the SDK's route. Prints how many seconds each took.
 */
#if defined(SDK)

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct record {
	uint8_t trace[16], span[8], valid, flags;
	uint16_t size;
	uint8_t attrs[64];
} __attribute__((packed));

__thread struct record *otel_thread_ctx_v1;

static uint8_t *put(uint8_t *p, uint8_t tag, const void *bytes, size_t n)
{
	*p++ = tag;
	*p++ = (uint8_t)n;
	memcpy(p, bytes, n);
	return p + n;
}

void sdk_begin(const char *route);
void sdk_begin(const char *route)
{
	static const char key[] = "sdk.route", name[] = "threadlocal.attribute_key_map";
	static uint8_t text[32], array[40], any[48], map[90], message[100];
	static struct record r = { .valid = 1 };
	uint8_t *e = put(text, 1 << 3 | 2, key, sizeof(key) - 1);
	e = put(array, 1 << 3 | 2, text, (size_t)(e - text));
	e = put(any, 5 << 3 | 2, array, (size_t)(e - array));
	uint8_t *m = put(map, 1 << 3 | 2, name, sizeof(name) - 1);
	m = put(m, 2 << 3 | 2, any, (size_t)(e - any));
	m = put(message, 2 << 3 | 2, map, (size_t)(m - map));
	int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 4096))
		abort();
	uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (page == MAP_FAILED)
		abort();
	const uint32_t head[2] = { 2, (uint32_t)(m - message) };
	const uint64_t tail[2] = { 1, (uint64_t)(uintptr_t)message };
	memcpy(page, "OTEL_CTX", 8);
	memcpy(page + 8, head, 8);
	memcpy(page + 16, tail, 16);
	memset(r.span, 0xcd, sizeof(r.span));
	r.size = (uint16_t)(put(r.attrs, 0, route, strlen(route)) - r.attrs);
	otel_thread_ctx_v1 = &r;
}

#else

#include <ascribe/label.h>

#include <stdio.h>
#include <time.h>

void sdk_begin(const char *route) __attribute__((weak));

static double cpu_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double burn(double seconds)
{
	double begin = cpu_s();
	while (cpu_s() < begin + seconds)
		for (volatile int i = 0; i < 10000; i++)
			;
	return cpu_s() - begin;
}

int main(void)
{
	double with, without;
	if (sdk_begin)
		sdk_begin("/sdk");
	{
		ASCRIBE_LABEL_SCOPE("tenant", "acme");
		with = burn(1);
	}
	without = burn(0.5);
	printf("{\"with\": %.6f, \"without\": %.6f}\n", with, without);
	return 0;
}

#endif
