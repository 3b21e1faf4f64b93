/* SPDX-License-Identifier: Apache-2.0 */
/* The work is in a signal handler; with -DALTERNATE it has a stack of its own. */
#define NO_MAIN
#include "truth.h"

#include <signal.h>

static part_fn *handled;
static unsigned handled_n;

static void handler(int signal)
{
	(void)signal;
	handled(handled_n);
	sink++; /* no tail call */
}

static NOINLINE void by(part_fn *part, unsigned n)
{
	handled = part;
	handled_n = n;
	raise(SIGUSR1);
	sink++;
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = handler };
#ifdef ALTERNATE
	stack_t st = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 };
	sigaltstack(&st, NULL);
	sa.sa_flags = SA_ONSTACK;
#endif
	sigaction(SIGUSR1, &sa, NULL);
	if (argc < 4)
		return 2;
	trials(argv);
	sink++;
	return 0;
}
