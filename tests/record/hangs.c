/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that hang, for SECONDS: hangs SECONDS. Each is blocked in a function of its own.
 *   early   hang_early: before the recording, by a read of a pipe
 *   worker  await_work: before the recording, by a condition variable
 *   locked  hang_locked: before the recording, by a mutex
 *   late    hang_late: after 20,000 short waits at the same place, 2.5 s after the start
 *   many    hang_many: 20 threads, before the recording, one after the other
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MANY 20

static int ends[2], short_ends[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, held = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void take_byte(int fd)
{
	char c;
	if (read(fd, &c, 1) != 1)
		exit(2);
}

#define FUNCTION(name, what) \
	__attribute__((noinline)) void name(void); \
	void name(void) \
	{ \
		what; \
		__asm__ volatile(""); /* no tail call */ \
	}

FUNCTION(hang_early, take_byte(ends[0]))
FUNCTION(hang_many, take_byte(ends[0]))
FUNCTION(await_work, pthread_cond_wait(&work, &mutex))
FUNCTION(hang_locked, pthread_mutex_lock(&held))
FUNCTION(hang_late, take_byte(short_ends[0]))

static void *early(void *arg)
{
	prctl(PR_SET_NAME, "early");
	hang_early();
	return arg;
}

static void *many(void *arg)
{
	prctl(PR_SET_NAME, "many");
	hang_many();
	return arg;
}

static void *worker(void *arg)
{
	prctl(PR_SET_NAME, "worker");
	pthread_mutex_lock(&mutex);
	await_work();
	return arg;
}

static void *locked(void *arg)
{
	prctl(PR_SET_NAME, "locked");
	hang_locked();
	return arg;
}

static void *late(void *arg)
{
	prctl(PR_SET_NAME, "late");
	for (;;)
		hang_late();
	return arg;
}

static void start(void *(*run)(void *))
{
	pthread_t t;
	if (pthread_create(&t, NULL, run, NULL))
		exit(2);
}

int main(int argc, char **argv)
{
	double end = now() + (argc > 1 ? atof(argv[1]) : 1), quiet = now() + 2.5;
	if (pipe(ends) || pipe(short_ends))
		return 2;
	pthread_mutex_lock(&held);
	start(early);
	start(worker);
	start(locked);
	usleep(10000);
	for (int i = 0; i < MANY; i++)
		start(many);
	start(late);
	for (char c = 0; now() < quiet; usleep(50))
		if (write(short_ends[1], &c, 1) != 1)
			return 2;
	while (now() < end)
		usleep(100000);
	return 0;
}
