/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenants SECONDS: work for three tenants (t0, t1, t2) in a ratio of 20, 15 and 10, and little for
 * three more. Each has a trace_id of its own.
 */
#include <ascribe/label.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	static const double ms[] = { 20, 15, 10, 1, 1, 1 };
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1);
	while (time(NULL) < end) {
		for (int k = 0; k < 6; k++) {
			struct ascribe_label_set set;
			struct ascribe_scope scope;
			char tenant[8], trace[40];
			snprintf(tenant, sizeof(tenant), "t%d", k);
			snprintf(trace, sizeof(trace), "%032x", 0xabc0 + k);
			ascribe_set_init(&set);
			ascribe_set_add_string(&set, "tenant", tenant);
			ascribe_set_add_string(&set, "trace_id", trace);
			ascribe_attach(&scope, &set);
			for (double until = cpu() + ms[k] / 1e3; cpu() < until;)
				;
			ascribe_detach(&scope);
		}
		usleep(5000);
	}
	return 0;
}
