/* SPDX-License-Identifier: Apache-2.0 */
/* The program's file is removed while it runs. */
#define NO_MAIN
#include "truth.h"

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
	unlink(argv[0]);
	trials(argv);
	sink++;
	return 0;
}
