/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flood SECONDS: work under label sets that never come again, as many as there is time for. Prints
 * how many there were, and its CPU seconds, as JSON.
 */
#include <ascribe/label.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	const time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1);
	uint64_t sets = 0;
	while (time(NULL) < end) {
		struct ascribe_label_set set;
		struct ascribe_scope scope;
		char trace[40];
		snprintf(trace, sizeof(trace), "%032" PRIx64, ++sets);
		ascribe_set_init(&set);
		ascribe_set_add_string(&set, "trace_id", trace);
		ascribe_attach(&scope, &set);
		for (volatile int i = 0; i < 1000; i++)
			;
		ascribe_detach(&scope);
	}
	printf("{\"sets\": %" PRIu64 ", \"cpu\": %.3f}\n", sets, cpu());
	return 0;
}
