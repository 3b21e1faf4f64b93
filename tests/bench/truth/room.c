/* SPDX-License-Identifier: Apache-2.0 */
/* A frame of changing size, in which objects are aligned to 64 bytes. */
#include "truth.h"

#include <alloca.h>
#include <string.h>

static NOINLINE void by(part_fn *part, unsigned n)
{
	volatile char __attribute__((aligned(64))) aligned[128];
	char *room = alloca(16 + n % 512);
	memset(room, 1, 16);
	aligned[n % 128] = room[n % 16];
	part(n);
	sink += (unsigned long long)(aligned[n % 128] + room[3]);
}
