/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that do nothing: idle COUNT; or threads: idle COUNT threads. They end with the first
 * one. Says how many there are. Linked statically: each is small.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void *nothing(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static int begin_thread(void)
{
	static pthread_attr_t small;
	static int ready;
	pthread_t t;
	if (!ready) {
		pthread_attr_init(&small);
		pthread_attr_setstacksize(&small, 16384);
		pthread_attr_setguardsize(&small, 0);
		ready = 1;
	}
	return pthread_create(&t, &small, nothing, NULL) == 0;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1, made = 0;
	pid_t first = getpid(), child = 1;
	int threads = argc > 2 && !strcmp(argv[2], "threads");
	while (made < count && (threads ? begin_thread() : (child = fork()) > 0))
		made++;
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == first) /* it may have ended before the prctl */
			pause();
		return 0;
	}
	printf("%d\n", made);
	fflush(stdout);
	pause();
	return 0;
}
