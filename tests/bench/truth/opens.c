/* SPDX-License-Identifier: Apache-2.0 */
/* The two functions are in a library, opened.so beside the program, which it opens. */
#define NOINLINE __attribute__((noinline))
#define NO_MAIN
#define THREE opened[0]
#define ONE opened[1]
static void (*opened[2])(unsigned n);
static volatile unsigned long long sink;
#include "truth.h"

#include <dlfcn.h>
#include <libgen.h>

static NOINLINE void by(part_fn *part, unsigned n)
{
	part(n);
	sink++; /* no tail call */
}

int main(int argc, char **argv)
{
	char path[4096], own[4096];
	if (argc < 4)
		return 2;
	snprintf(own, sizeof(own), "%s", argv[0]);
	snprintf(path, sizeof(path), "%s/opened.so", dirname(own));
	void *library = dlopen(path, RTLD_NOW);
	if (!library)
		return 1;
	opened[0] = (part_fn *)dlsym(library, "three");
	opened[1] = (part_fn *)dlsym(library, "one");
	trials(argv);
	sink++;
	return 0;
}
