/* SPDX-License-Identifier: Apache-2.0 */
/* The work is in a lambda that a std::thread runs. */
#define NO_MAIN
#include "truth.h"

#include <thread>

static NOINLINE void by(part_fn *part, unsigned n)
{
	part(n);
	sink = sink + 1; /* no tail call */
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	std::thread([argv] {
		trials(argv);
		sink = sink + 1;
	}).join();
	return 0;
}
