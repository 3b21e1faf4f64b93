/* SPDX-License-Identifier: Apache-2.0 */
/* Starve a process: it shares a CPU with a busy loop, at a low priority. */
#ifndef ASCRIBE_TEST_STARVE_H
#define ASCRIBE_TEST_STARVE_H

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* nice: above our own. Return the busy loop, for starve_end; 0: not permitted. */
static inline pid_t starve(pid_t victim, int nice)
{
	cpu_set_t all, one;
	int cpu = 0;
	if (sched_getaffinity(0, sizeof(all), &all))
		return 0;
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(victim, sizeof(one), &one) ||
	    setpriority(PRIO_PROCESS, (id_t)victim, getpriority(PRIO_PROCESS, 0) + nice))
		return 0;
	pid_t loop = fork();
	if (loop == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sched_setaffinity(0, sizeof(one), &one);
		for (volatile int forever = 1; forever;)
			;
	}
	return loop;
}

static inline void starve_end(pid_t loop)
{
	kill(loop, SIGKILL);
	waitpid(loop, NULL, 0);
}

#endif
