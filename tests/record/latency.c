/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries with phases whose wall-clock time the program logs itself. latency MODE QUERIES WORKERS
 *
 *   queries  two tenants at once, "a" and "b", each with a thread `leader` and WORKERS threads
 *            `worker`. A query runs serial_part alone, then parallel_part in all workers while the
 *            leader waits for them. Then it sleeps in wait_part, or reads a pipe there until a
 *            helper without labels writes. Labels: tenant, query_id, and part, by thread
 *   traces   the same, but the threads of a query have a trace id in common and no query_id
 *   stale    thread `leader`, tenant "a", sleeps in wait_part again and again, while WORKERS
 *            threads `worker` have its label and wait for work that never comes
 *
 * Prints as JSON the seconds of each tenant and phase, by CLOCK_MONOTONIC, and of each query.
 */
#include <ascribe/label.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define WORKERS_MAX 8
#define QUERIES_MAX 4000
#define MS 1e-3

enum phase { SERIAL, PARALLEL, WAIT, PHASES };
static const char *const phase_names[PHASES] = { "serial", "parallel", "wait" };

struct tenant {
	const char *name;
	pthread_t leader, worker[WORKERS_MAX];
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	int query, left, over; /* of the workers' query; workers that are not done */
	int pipe[2], ask[2];
	double phase[PHASES], wall[QUERIES_MAX];
};

/* Not a constant: gcc then looks into the hash of short keys, and warns of what is not so. */
static const char *volatile tenant_key = "tenant", *volatile query_key = "query_id",
			    *volatile part_key = "part";
static int n_queries, n_workers, traces;
static volatile unsigned long sink;

static double clock_s(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double now(void)
{
	return clock_s(CLOCK_MONOTONIC);
}

static void pause_for(double s)
{
	struct timespec t = { 0, (long)(s * 1e9) };
	nanosleep(&t, NULL);
}

/* CPU time of this thread. */
static inline __attribute__((always_inline)) void spin(double s)
{
	double until = clock_s(CLOCK_THREAD_CPUTIME_ID) + s;
	while (clock_s(CLOCK_THREAD_CPUTIME_ID) < until)
		for (int i = 0; i < 1000; i++)
			sink++;
}

static __attribute__((noinline)) void serial_part(void)
{
	spin(3 * MS);
	__asm__ volatile("");
}

static __attribute__((noinline)) void parallel_part(void)
{
	spin(4 * MS);
	__asm__ volatile("");
}

static __attribute__((noinline)) void wait_part(struct tenant *t, int query)
{
	char byte = 0;
	if (query % 2) {
		pause_for(3 * MS);
	} else if (write(t->ask[1], &byte, 1) != 1 || read(t->pipe[0], &byte, 1) != 1) {
		abort();
	}
	__asm__ volatile("");
}

static void label(struct ascribe_label_set *set, const struct tenant *t, int query, int part)
{
	ascribe_set_init(set);
	ascribe_set_add_string(set, tenant_key, t->name);
	int id = (t->name[0] - 'a') * QUERIES_MAX + query;
	if (traces) {
		unsigned char trace[16] = { 1 }, span[8] = { (unsigned char)part, 1 };
		memcpy(trace + 8, &id, sizeof(id));
		ascribe_set_trace(set, trace, span, 1);
	} else {
		ascribe_set_add_int(set, query_key, id);
	}
	ascribe_set_add_int(set, part_key, part);
}

static void *worker(void *arg)
{
	static volatile int parts;
	struct tenant *t = arg;
	struct ascribe_label_set set;
	struct ascribe_scope scope;
	int part = __sync_add_and_fetch(&parts, 1);
	prctl(PR_SET_NAME, "worker");
	for (int seen = 0;;) {
		pthread_mutex_lock(&t->lock);
		while (t->query == seen && !t->over)
			pthread_cond_wait(&t->work, &t->lock);
		seen = t->query;
		pthread_mutex_unlock(&t->lock);
		if (t->over)
			return NULL;
		label(&set, t, seen, part);
		ascribe_attach(&scope, &set);
		parallel_part();
		ascribe_detach(&scope);
		pthread_mutex_lock(&t->lock);
		if (!--t->left)
			pthread_cond_signal(&t->done);
		pthread_mutex_unlock(&t->lock);
	}
}

/* Ends reads of the pipe, 3 ms after it is asked to. */
static void *helper(void *arg)
{
	struct tenant *t = arg;
	char byte;
	prctl(PR_SET_NAME, "helper");
	while (read(t->ask[0], &byte, 1) == 1) {
		pause_for(3 * MS);
		if (write(t->pipe[1], &byte, 1) != 1)
			break;
	}
	return NULL;
}

static void *leader(void *arg)
{
	struct tenant *t = arg;
	struct ascribe_label_set set;
	struct ascribe_scope scope;
	prctl(PR_SET_NAME, "leader");
	for (int q = 1; q <= n_queries; q++) {
		double at[PHASES + 1];
		label(&set, t, q, 0);
		at[0] = now();
		ascribe_attach(&scope, &set);
		serial_part();
		at[1] = now();
		pthread_mutex_lock(&t->lock);
		t->query = q;
		t->left = n_workers;
		pthread_cond_broadcast(&t->work);
		while (t->left)
			pthread_cond_wait(&t->done, &t->lock);
		pthread_mutex_unlock(&t->lock);
		at[2] = now();
		wait_part(t, q);
		ascribe_detach(&scope);
		at[3] = now();
		for (int p = 0; p < PHASES; p++)
			t->phase[p] += at[p + 1] - at[p];
		t->wall[q] = at[PHASES] - at[0];
		pause_for(1 * MS); /* between queries the tenant has none */
	}
	return NULL;
}

static void tenant_begin(struct tenant *t, const char *name)
{
	pthread_t h;
	t->name = name;
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->work, NULL);
	pthread_cond_init(&t->done, NULL);
	if (pipe(t->pipe) || pipe(t->ask) || pthread_create(&h, NULL, helper, t))
		abort();
	pthread_detach(h);
	for (int i = 0; i < n_workers; i++)
		pthread_create(&t->worker[i], NULL, worker, t);
}

static void tenant_end(struct tenant *t)
{
	pthread_mutex_lock(&t->lock);
	t->over = 1;
	pthread_cond_broadcast(&t->work);
	pthread_mutex_unlock(&t->lock);
	for (int i = 0; i < n_workers; i++)
		pthread_join(t->worker[i], NULL);
}

static void queries(void)
{
	static struct tenant tenants[2];
	for (int i = 0; i < 2; i++)
		tenant_begin(&tenants[i], i ? "b" : "a");
	pause_for(500 * MS); /* until the recorder knows this process */
	for (int i = 0; i < 2; i++)
		pthread_create(&tenants[i].leader, NULL, leader, &tenants[i]);
	for (int i = 0; i < 2; i++) {
		pthread_join(tenants[i].leader, NULL);
		tenant_end(&tenants[i]);
	}
	printf("{\"queries\": {");
	for (int i = 0; i < 2; i++)
		for (int q = 1; q <= n_queries; q++)
			printf("%s\"%d\": %.6f", i || q > 1 ? ", " : "", i * QUERIES_MAX + q,
			       tenants[i].wall[q]);
	printf("}");
	for (int i = 0; i < 2; i++) {
		printf(", \"%s\": {\"wall\": %.6f", tenants[i].name,
		       tenants[i].phase[0] + tenants[i].phase[1] + tenants[i].phase[2]);
		for (int p = 0; p < PHASES; p++)
			printf(", \"%s\": %.6f", phase_names[p], tenants[i].phase[p]);
		printf("}");
	}
	printf("}\n");
}

static void *stale_worker(void *arg)
{
	struct tenant *t = arg;
	struct ascribe_label_set set;
	struct ascribe_scope scope;
	prctl(PR_SET_NAME, "worker");
	label(&set, t, 1, 1);
	ascribe_attach(&scope, &set);
	pthread_mutex_lock(&t->lock);
	while (!t->over)
		pthread_cond_wait(&t->work, &t->lock);
	pthread_mutex_unlock(&t->lock);
	ascribe_detach(&scope);
	return NULL;
}

static void stale(void)
{
	static struct tenant t = { .name = "a",
				   .lock = PTHREAD_MUTEX_INITIALIZER,
				   .work = PTHREAD_COND_INITIALIZER };
	struct ascribe_label_set set;
	struct ascribe_scope scope;
	pause_for(500 * MS);
	for (int i = 0; i < n_workers; i++)
		pthread_create(&t.worker[i], NULL, stale_worker, &t);
	prctl(PR_SET_NAME, "leader");
	label(&set, &t, 1, 0);
	double begin = now();
	ascribe_attach(&scope, &set);
	for (int q = 0; q < n_queries; q++)
		wait_part(&t, 1);
	ascribe_detach(&scope);
	double end = now();
	tenant_end(&t);
	printf("{\"a\": {\"wall\": %.6f}}\n", end - begin);
}

int main(int argc, char **argv)
{
	n_queries = argc > 2 ? atoi(argv[2]) : 0;
	n_workers = argc > 3 ? atoi(argv[3]) : 0;
	if (n_queries < 1 || n_queries >= QUERIES_MAX || n_workers < 1 || n_workers > WORKERS_MAX)
		return 2;
	traces = !strcmp(argv[1], "traces");
	if (traces || !strcmp(argv[1], "queries"))
		queries();
	else if (!strcmp(argv[1], "stale"))
		stale();
	else
		return 2;
	return 0;
}
