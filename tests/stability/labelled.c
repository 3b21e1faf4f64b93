/* SPDX-License-Identifier: Apache-2.0 */
/*
 * labelled SECONDS: work under three sets of labels, in turn, and print as JSON the CPU seconds of
 * each by the thread's own clock. README.md says with which headers it was compiled.
 */
#include <ascribe/label.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double burn(double seconds)
{
	double begin = cpu_seconds(), now = begin;
	while (now < begin + seconds) {
		for (volatile int i = 0; i < 2000; i++)
			;
		now = cpu_seconds();
	}
	return now - begin;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1, outer = 0, inner = 0, none = 0;
	struct ascribe_label_set tenant, query;
	struct ascribe_scope scope, nested;
	ascribe_set_init(&tenant);
	ascribe_set_add_string(&tenant, "tenant", "acme");
	ascribe_set_init(&query);
	ascribe_set_add_int(&query, "query_id", -42);
	for (int i = 0; i < 10; i++) {
		ascribe_attach(&scope, &tenant);
		outer += burn(seconds * 0.05);
		ascribe_attach(&nested, &query);
		inner += burn(seconds * 0.03);
		ascribe_detach(&nested);
		ascribe_detach(&scope);
		none += burn(seconds * 0.02);
	}
	printf("{\"acme\": %.6f, \"acme -42\": %.6f, \"none\": %.6f}\n", outer, inner, none);
	return 0;
}
