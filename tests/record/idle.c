/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that do nothing: idle COUNT. They share one memory, and end with the first one. Says how many there are. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define STACK 4096

static int sleeps(void *none) /* as clone(2) wants it */
{
	(void)none;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (pause() <= 0)
		;
	return 0;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1, made = 0;
	char *stacks = mmap(NULL, (size_t)count * STACK, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (stacks == MAP_FAILED)
		return 1;
	while (made < count && clone(sleeps, stacks + (size_t)(made + 1) * STACK, CLONE_VM | SIGCHLD, NULL) > 0)
		made++;
	printf("%d\n", made);
	fflush(stdout);
	pause();
	return 0;
}
