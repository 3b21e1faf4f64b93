/* SPDX-License-Identifier: Apache-2.0 */
/* The two functions are in another language, which has call_three() and call_one() for C. */
#define NOINLINE __attribute__((noinline))
#define NO_MAIN
#define THREE call_three
#define ONE call_one
void call_three(unsigned n);
void call_one(unsigned n);
static volatile unsigned long long sink;
#include "truth.h"

static NOINLINE void by(part_fn *part, unsigned n)
{
	part(n);
	sink++; /* no tail call */
}

#ifdef STARTS /* the language's own run-time library begins here */
void STARTS(void);
#endif
int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
#ifdef STARTS
	STARTS();
#endif
	trials(argv);
	sink++;
	return 0;
}
