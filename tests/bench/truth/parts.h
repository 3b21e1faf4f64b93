/* SPDX-License-Identifier: Apache-2.0 */
/* The two functions whose time is known. Their bodies differ, so that no linker makes them one. */
#ifndef PARTS_H
#define PARTS_H

#define NOINLINE __attribute__((noinline))
#define ROUNDS 800 /* of a loop: two microseconds, more without optimization */

#ifndef PART
#define PART static NOINLINE
#endif

static volatile unsigned long long sink;

PART void three(unsigned n) /* <three> */
{
	unsigned long long x = sink + n;
	for (unsigned i = 0; i < n * ROUNDS; i++)
		x = x * 6364136223846793005ull + (x >> 33);
	sink = x;
} /* </three> */

PART void one(unsigned n) /* <one> */
{
	unsigned long long x = sink + n;
	for (unsigned i = 0; i < n * ROUNDS; i++)
		x = x * 3935559000370003845ull + (x >> 31);
	sink = x;
} /* </one> */

#endif
