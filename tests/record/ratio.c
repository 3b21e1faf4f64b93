/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two tenants that use the same CPU time, of which one touches ten times as many new pages. At the
 * end it prints the page faults of each for each second of its CPU time, as the kernel counts them.
 */
#include <ascribe/label.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#define PAGE 4096ul
#define TURN 0.05 /* CPU seconds */

static const struct tenant {
	const char *name;
	size_t pages; /* each turn */
} tenants[] = { { "many", 2000 }, { "few", 200 } };

static double cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static long faults(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return u.ru_minflt;
}

static void work(const struct tenant *t)
{
	const double begin = cpu();
	const size_t len = t->pages * PAGE;
	volatile char *p =
		mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		exit(1);
	for (size_t i = 0; i < len; i += PAGE)
		p[i] = 1;
	while (cpu() - begin < TURN)
		;
	munmap((void *)p, len);
}

int main(int argc, char **argv)
{
	double seconds[2] = { 0 };
	long n[2] = { 0 };
	for (int turn = 0; turn < 2 * (argc > 1 ? atoi(argv[1]) : 40); turn++) {
		const int k = turn % 2;
		struct ascribe_label_set set;
		struct ascribe_scope scope;
		ascribe_set_init(&set);
		ascribe_set_add_string(&set, "tenant", tenants[k].name);
		ascribe_attach(&scope, &set);
		const double begin = cpu();
		const long before = faults();
		work(&tenants[k]);
		seconds[k] += cpu() - begin;
		n[k] += faults() - before;
		ascribe_detach(&scope);
	}
	printf("{\"many\": %f, \"few\": %f}\n", (double)n[0] / seconds[0],
	       (double)n[1] / seconds[1]);
	return 0;
}
