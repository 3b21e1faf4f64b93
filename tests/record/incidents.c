/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Services in which something goes wrong. incidents MODE: as it should be until SIGUSR1, gone wrong
 * until the next one.
 *   tenants  three threads, tenants "ada", "bob" and "eve", with little to do; gone wrong, eve
 *            computes reports without a pause (render_report)
 *   cache    eight threads read a cache (cache_get) and pause; gone wrong, a ninth holds the
 *            cache's mutex for 50 ms at a time (cache_refresh), and all others wait for it
 */
#include <ascribe/label.h>

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* Functions that are to be seen in stacks. */
#define NO_TAIL_CALL __asm__ volatile("")

static volatile sig_atomic_t wrong;
static pthread_mutex_t cache = PTHREAD_MUTEX_INITIALIZER;

static void toggle(int signal)
{
	(void)signal;
	wrong = !wrong;
}

static double cpu_time(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void burn(double seconds)
{
	for (double end = cpu_time() + seconds; cpu_time() < end;)
		for (volatile int i = 0; i < 2000; i++)
			;
}

static void pause_ms(long ms)
{
	const struct timespec t = { 0, ms * 1000000 };
	nanosleep(&t, NULL);
}

__attribute__((noinline)) static void render_page(void)
{
	burn(0.002);
	NO_TAIL_CALL;
}

__attribute__((noinline)) static void render_report(void)
{
	burn(0.05);
	NO_TAIL_CALL;
}

static void *serve_tenant(void *tenant)
{
	ASCRIBE_LABEL_SCOPE("tenant", (const char *)tenant);
	for (;;) {
		if (wrong && !strcmp(tenant, "eve")) {
			render_report();
			continue;
		}
		render_page();
		pause_ms(60);
	}
	return NULL;
}

__attribute__((noinline)) static void cache_get(void)
{
	pthread_mutex_lock(&cache);
	burn(0.00002);
	pthread_mutex_unlock(&cache);
	NO_TAIL_CALL;
}

__attribute__((noinline)) static void cache_refresh(void)
{
	pthread_mutex_lock(&cache);
	burn(0.001);
	pause_ms(50);
	pthread_mutex_unlock(&cache);
	NO_TAIL_CALL;
}

static void *read_cache(void *unused)
{
	(void)unused;
	for (;;) {
		cache_get();
		pause_ms(5);
	}
	return NULL;
}

static void *refresh_cache(void *unused)
{
	(void)unused;
	for (;;) {
		if (wrong)
			cache_refresh();
		pause_ms(1);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static const char *const tenants[] = { "ada", "bob", "eve" };
	const char *mode = argc > 1 ? argv[1] : "";
	pthread_t t;
	bool cached = !strcmp(mode, "cache");
	if (!cached && strcmp(mode, "tenants"))
		return 2;
	prctl(PR_SET_NAME, mode);
	signal(SIGUSR1, toggle);
	for (int i = 0; i < (cached ? 8 : 3); i++)
		pthread_create(&t, NULL, cached ? read_cache : serve_tenant,
			       cached ? NULL : (void *)tenants[i]);
	if (cached)
		pthread_create(&t, NULL, refresh_cache, NULL);
	for (;;)
		pause();
}
