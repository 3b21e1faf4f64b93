/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secret SECONDS: a program that attaches what it should not: a token, a header with a credential,
 * and the users that it works for, each by name and number. USERS of them take turns; some CPU time
 * for each. Prints how many there were.
 */
#include <ascribe/label.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define USERS 40

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	double end = now() + (argc > 1 ? atof(argv[1]) : 1);
	for (unsigned int turn = 0; now() < end; turn++) {
		struct ascribe_label_set set;
		struct ascribe_scope scope;
		char name[40];
		double until = now() + 0.004;
		ascribe_set_init(&set);
		ascribe_set_add_string(&set, "tenant", turn % 2 ? "acme" : "globex");
		ascribe_set_add_string(&set, "api_token", "Zq7markerTokenXw");
		ascribe_set_add_string(&set, "api_region", "eu");
		ascribe_set_add_string(&set, "auth", "Bearer Hy8marker.0123456789");
		snprintf(name, sizeof(name), "user.Kp4marker%u", turn % USERS);
		ascribe_set_add_string(&set, "user", name);
		ascribe_set_add_int(&set, "user_id", 774411220000 + turn % USERS);
		ascribe_attach(&scope, &set);
		while (now() < until)
			;
		ascribe_detach(&scope);
	}
	printf("{\"users\": %d}\n", USERS);
	return 0;
}
