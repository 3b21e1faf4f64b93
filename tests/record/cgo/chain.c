/* SPDX-License-Identifier: Apache-2.0 */
/* C that keeps no frame pointers, called from Go. */
#include "_cgo_export.h"

#define NOINLINE __attribute__((noinline, noclone))

unsigned long c_outer(unsigned long x);
unsigned long c_calls_back(unsigned long x);

/* More values than there are other registers: rbp holds one of them. */
static NOINLINE unsigned long leaf(unsigned long x)
{
	unsigned long a = x, b = x + 1, c = x + 2, d = x + 3, e = x + 4, f = x + 5, g = x + 6,
		      h = x + 7, i = x + 8, j = x + 9, k = x + 10, l = x + 11;
	for (unsigned n = 0; n < 20000; n++) {
		a += b * 3;
		b += c * 5;
		c += d * 7;
		d += e * 9;
		e += f * 11;
		f += g * 13;
		g += h * 15;
		h += i * 17;
		i += j * 19;
		j += k * 21;
		k += l * 23;
		l += a * 25;
	}
	return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ i ^ j ^ k ^ l;
}

NOINLINE unsigned long c_outer(unsigned long x)
{
	return leaf(x) * 3 + 1;
}

NOINLINE unsigned long c_calls_back(unsigned long x)
{
	return goBack(x) * 3 + 1;
}
