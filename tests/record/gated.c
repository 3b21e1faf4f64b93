/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gated WORK PERCENT: parse() and render() take half of the time each, in short turns; with
 * PERCENT, parse() has so much more to do. WORK: turns.
 */
#include <stdint.h>
#include <stdlib.h>

static volatile uint64_t sink;

static __attribute__((noinline)) uint64_t parse(uint64_t x, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	return x;
}

static __attribute__((noinline)) uint64_t render(uint64_t x, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		x = (x ^ (x >> 29)) * 6364136223846793005u;
	return x;
}

int main(int argc, char **argv)
{
	unsigned long turns = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
	unsigned more = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	uint64_t x = 1;
	for (unsigned long i = 0; i < turns; i++) {
		x = parse(x, 20000 + 200 * more);
		x = render(x, 14000);
	}
	sink = x;
	return 0;
}
