/* SPDX-License-Identifier: Apache-2.0 */
/* A 32-bit program that needs no library, with frame pointers: there are no rules for such code. */
#include "parts.h"

typedef unsigned int u32;
typedef void part_fn(unsigned n);

static u32 call(u32 number, u32 a, u32 b, u32 c)
{
	u32 ret;
	__asm__ volatile("int $0x80" : "=a"(ret) : "0"(number), "b"(a), "c"(b), "d"(c) : "memory");
	return ret;
}

/* Microseconds: 71 minutes of them. */
static u32 cpu(void)
{
	u32 t[2] = { 0, 0 };
	call(265, 3, (u32)(unsigned long)t, 0); /* clock_gettime(CLOCK_THREAD_CPUTIME_ID) */
	return t[0] * 1000000 + t[1] / 1000;
}

static void name(const char *text)
{
	call(172, 15, (u32)(unsigned long)text, 0); /* prctl(PR_SET_NAME) */
}

static char *put(char *to, u32 n, u32 digits)
{
	u32 power = 1;
	for (u32 i = 1; i < digits || (!digits && n / power > 9); i++)
		power *= 10;
	for (; power; power /= 10)
		*to++ = (char)('0' + n / power % 10);
	return to;
}

static char *put_seconds(char *to, u32 us)
{
	*to++ = ' ';
	to = put(to, us / 1000000, 0);
	*to++ = '.';
	return put(to, us % 1000000, 6);
}

static u32 number(const char *s)
{
	u32 n = 0;
	while (*s)
		n = n * 10 + (u32)(*s++ - '0');
	return n;
}

static NOINLINE void by(part_fn *part, unsigned n)
{
	part(n);
	sink++; /* no tail call */
}

static NOINLINE void run(u32 *took, unsigned n)
{
	u32 begin = cpu();
	by(three, 3 * n); /* calls three */
	took[0] += cpu() - begin;
	begin = cpu();
	by(one, n); /* calls one */
	took[1] += cpu() - begin;
}

static NOINLINE void trials(char **argv)
{
	const u32 n = number(argv[1]), first = number(argv[3]);
	u32 state = first + 1;
	for (u32 i = first; i < first + n; i++) {
		static char text[80] = "truth.";
		char *end = put(text + 6, i, 0);
		u32 took[2] = { 0, 0 };
		*end = 0;
		name(text);
		const u32 begin = cpu();
		while (cpu() - begin < 1000 * number(argv[2])) {
			state = state * 1664525 + 1013904223;
			run(took, 20 + (state >> 16) % 80);
		}
		const u32 all = cpu() - begin;
		name("rest");
		end = put_seconds(put_seconds(put_seconds(end, took[0]), took[1]), all);
		*end++ = '\n';
		call(4, 1, (u32)(unsigned long)text, (u32)(end - text)); /* write */
	}
}

int main(int argc, char **argv);
NOINLINE int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	trials(argv);
	sink++;
	return 0;
}

/* The outermost frame has no frame pointer above it. */
__asm__(".globl _start\n.type _start, @function\n_start: xor %ebp, %ebp\nmov %esp, %eax\n"
	"lea 4(%eax), %ecx\nand $-16, %esp\nsub $8, %esp\npush %ecx\npush (%eax)\ncall main\n"
	"mov %eax, %ebx\nmov $1, %eax\nint $0x80\n.size _start, . - _start");
