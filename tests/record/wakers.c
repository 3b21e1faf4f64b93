/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that wake each other. wakers MODE SECONDS CPU; prints as JSON what the threads themselves
 * say: seconds by their clocks.
 *
 *   kinds  thread `victim`, tenant "v", is blocked for some milliseconds at a time by a semaphore,
 *          a pipe, a mutex and a local socket, which thread `giver`, tenant "g", lets go of in a
 *          function for each; thread `sleeper`, tenant "s", sleeps on a CPU on which `spinner`,
 *          tenant "b", runs all the time
 *   short  threads `ping`, tenant "p", and `pong`, tenant "q": waits of microseconds for a byte of
 *          the other in a pipe
 *   many   thread `giver`, under each of 128 labels "step" in turn, wakes 64 threads `victim` with
 *          labels of their own: more pairs than are kept
 *   pool   thread `boss`, tenant "d", gives work to 3 threads `worker`, tenant "w", which wait for
 *          it by a condition variable: one of them some milliseconds each, one 10,000 times per
 *          second; 3 threads `clerk`, tenant "c", wait for a mutex that one of them always holds
 */
#include <ascribe/label.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Not a constant: gcc then looks into the hash of short keys, and warns of what is not so. */
static const char *volatile tenant_key = "tenant";
static double seconds;
static int cpu;
static volatile int over;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void pause_for(double s)
{
	struct timespec t = { (time_t)s, (long)((s - (double)(time_t)s) * 1e9) };
	nanosleep(&t, NULL);
}

static void be(const char *name, int on)
{
	cpu_set_t set;
	prctl(PR_SET_NAME, name);
	CPU_ZERO(&set);
	CPU_SET((unsigned)on, &set);
	if (on >= 0)
		sched_setaffinity(0, sizeof(set), &set);
}

static pthread_t start(void *(*run)(void *), void *arg)
{
	pthread_t t;
	if (pthread_create(&t, NULL, run, arg))
		exit(2);
	return t;
}

static void put_byte(int fd)
{
	char c = 0;
	if (write(fd, &c, 1) != 1)
		exit(2);
}

static void take_byte(int fd)
{
	char c;
	if (read(fd, &c, 1) != 1)
		exit(2);
}

/* ---- kinds ---- */

enum { SEMAPHORE, PIPE, MUTEX, SOCKET, KINDS };

static sem_t ready, given;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int ends[2], from_socket, to_socket;

static void connect_socket(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
	to_socket = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&at, &len) ||
	    connect(to_socket, (struct sockaddr *)&at, len) ||
	    setsockopt(to_socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		exit(2);
	from_socket = accept(listener, NULL, NULL);
	if (from_socket < 0)
		exit(2);
}

#define FUNCTION(name, what) \
	__attribute__((noinline)) void name(void); \
	void name(void) \
	{ \
		what; \
		__asm__ volatile(""); /* no tail call */ \
	}

FUNCTION(give_semaphore, sem_post(&given))
FUNCTION(give_pipe, put_byte(ends[1]))
FUNCTION(give_mutex, pthread_mutex_unlock(&mutex))
FUNCTION(give_socket, put_byte(to_socket))

/* Each round: wait until the victim is about to wait, and for some time more. */
static void *giver(void *arg)
{
	static void (*const give[KINDS])(void) = { give_semaphore, give_pipe, give_mutex,
						   give_socket };
	struct ascribe_scope scope;
	be("giver", -1);
	pthread_mutex_lock(&mutex);
	ascribe_attach_string(&scope, tenant_key, "g");
	for (unsigned i = 0; !over; i++) {
		sem_wait(&ready);
		pause_for(0.005);
		give[i % KINDS]();
		if (i % KINDS != MUTEX)
			continue;
		sem_wait(&ready);
		pthread_mutex_lock(&mutex);
	}
	ascribe_detach(&scope);
	return arg;
}

static void take(unsigned kind)
{
	switch (kind) {
	case SEMAPHORE:
		sem_wait(&given);
		break;
	case PIPE:
		take_byte(ends[0]);
		break;
	case MUTEX:
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
		sem_post(&ready);
		break;
	default:
		take_byte(from_socket);
	}
}

static void *sleeper(void *arg)
{
	struct ascribe_scope scope;
	be("sleeper", cpu);
	ascribe_attach_string(&scope, tenant_key, "s");
	while (!over)
		pause_for(0.004);
	ascribe_detach(&scope);
	return arg;
}

static void *spinner(void *arg)
{
	struct ascribe_scope scope;
	be("spinner", cpu);
	ascribe_attach_string(&scope, tenant_key, "b");
	while (!over)
		;
	ascribe_detach(&scope);
	return arg;
}

static void kinds(void)
{
	double waited[KINDS] = { 0 }, end;
	struct ascribe_scope scope;
	sem_init(&ready, 0, 0);
	sem_init(&given, 0, 0);
	if (pipe(ends))
		exit(2);
	connect_socket();
	pause_for(1); /* the recorder gets to know us */
	pthread_t t[] = { start(giver, NULL), start(sleeper, NULL), start(spinner, NULL) };
	be("victim", -1);
	pause_for(0.05);
	ascribe_attach_string(&scope, tenant_key, "v");
	end = now() + seconds;
	for (unsigned i = 0; now() < end; i++) {
		double at = now();
		if (now() + 0.1 > end && i % KINDS == 0)
			break;
		sem_post(&ready);
		take(i % KINDS);
		waited[i % KINDS] += now() - at;
	}
	ascribe_detach(&scope);
	printf("{\"give_semaphore\":%.6f,\"give_pipe\":%.6f,\"give_mutex\":%.6f,\"give_socket\":%.6f}\n",
	       waited[SEMAPHORE], waited[PIPE], waited[MUTEX], waited[SOCKET]);
	over = 1;
	sem_post(&ready);
	pthread_join(t[1], NULL);
	pthread_join(t[2], NULL);
}

/* ---- short ---- */

#define TURNS_MAX 20000 /* then it is enough */

static int to_ping[2], to_pong[2];

static void *pong(void *arg)
{
	struct ascribe_scope scope;
	be("pong", -1);
	ascribe_attach_string(&scope, tenant_key, "q");
	for (;;) {
		take_byte(to_pong[0]);
		put_byte(to_ping[1]);
	}
	ascribe_detach(&scope);
	return arg;
}

static void ping(void)
{
	struct ascribe_scope scope;
	long turns = 0;
	if (pipe(to_ping) || pipe(to_pong))
		exit(2);
	pause_for(1);
	start(pong, NULL);
	be("ping", -1);
	ascribe_attach_string(&scope, tenant_key, "p");
	for (double end = now() + seconds; now() < end && turns < TURNS_MAX; turns++) {
		put_byte(to_pong[1]);
		take_byte(to_ping[0]);
	}
	/* Labelled until the end, which ends pong's last wait */
	printf("{\"turns\":%ld}\n", turns);
}

/* ---- many ---- */

#define VICTIMS 64
#define STEPS 128

static int to_victim[VICTIMS][2];

static void *one_of_many(void *arg)
{
	struct ascribe_scope scope;
	long i = (long)arg;
	be("victim", -1);
	ascribe_attach_int(&scope, "step", STEPS + i);
	for (;;)
		take_byte(to_victim[i][0]);
	ascribe_detach(&scope);
	return arg;
}

static void wake_many(void)
{
	struct ascribe_scope scope;
	pause_for(1);
	for (long i = 0; i < VICTIMS; i++) {
		if (pipe(to_victim[i]))
			exit(2);
		start(one_of_many, (void *)i);
	}
	be("giver", -1);
	for (double end = now() + seconds; now() < end;)
		for (long step = 0; step < STEPS; step++) {
			ascribe_attach_int(&scope, "step", step);
			pause_for(0.0015); /* what it was before is good enough for a millisecond */
			for (unsigned i = 0; i < VICTIMS; i++)
				put_byte(to_victim[i][1]);
			ascribe_detach(&scope);
		}
}

/* ---- pool ---- */

#define CLERKS 3

static pthread_mutex_t desk = PTHREAD_MUTEX_INITIALIZER;
static struct pool {
	pthread_mutex_t mutex;
	pthread_cond_t work;
	unsigned n;
} pools[2] = { { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 },
	       { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 } };

static void *worker(void *arg)
{
	struct ascribe_scope scope;
	struct pool *p = arg;
	be("worker", -1);
	ascribe_attach_string(&scope, tenant_key, "w");
	pthread_mutex_lock(&p->mutex);
	while (!over) {
		while (!p->n)
			pthread_cond_wait(&p->work, &p->mutex);
		p->n--;
	}
	pthread_mutex_unlock(&p->mutex);
	ascribe_detach(&scope);
	return arg;
}

static void give_work(struct pool *p)
{
	pthread_mutex_lock(&p->mutex);
	p->n = 1;
	pthread_mutex_unlock(&p->mutex);
	pthread_cond_signal(&p->work);
}

static void *clerk(void *arg)
{
	struct ascribe_scope scope;
	be("clerk", -1);
	ascribe_attach_string(&scope, tenant_key, "c");
	while (!over) {
		pthread_mutex_lock(&desk);
		pause_for(0.003);
		pthread_mutex_unlock(&desk);
	}
	ascribe_detach(&scope);
	return arg;
}

static void give_all(void)
{
	struct ascribe_scope scope;
	unsigned turns = 0;
	pause_for(1);
	for (int i = 0; i < CLERKS; i++)
		start(clerk, NULL);
	start(worker, &pools[0]);
	start(worker, &pools[0]);
	start(worker, &pools[1]);
	be("boss", -1);
	ascribe_attach_string(&scope, tenant_key, "d");
	for (double end = now() + seconds, next = now(); now() < end; next += 1e-4) {
		while (now() < next)
			;
		give_work(&pools[1]);
		if (!(turns++ % 50))
			give_work(&pools[0]);
	}
	ascribe_detach(&scope);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	seconds = atof(argv[2]);
	cpu = atoi(argv[3]);
	if (!strcmp(argv[1], "kinds"))
		kinds();
	else if (!strcmp(argv[1], "short"))
		ping();
	else if (!strcmp(argv[1], "many"))
		wake_many();
	else
		give_all();
	fflush(stdout);
	_exit(0);
}
