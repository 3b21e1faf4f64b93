/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that do nothing: idle COUNT. They end with the first one. Says how many there are.
 * Linked statically: each is small.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1, made = 0;
	pid_t first = getpid(), child = 1;
	while (made < count && (child = fork()) > 0)
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
