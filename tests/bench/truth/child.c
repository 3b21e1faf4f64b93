/* SPDX-License-Identifier: Apache-2.0 */
/* A child does the work: of fork, or with -DCHILD=vfork on the stack of its parent. */
#define NO_MAIN
#include "truth.h"

#include <sys/wait.h>
#include <unistd.h>

static NOINLINE void by(part_fn *part, unsigned n)
{
	part(n);
	sink++; /* no tail call */
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	const pid_t child = CHILD();
	if (!child) {
		trials(argv);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	return 0;
}
