/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chain of calls of chains.c in a 32-bit program that needs no library: _start -> main -> run
 * -> chain_a -> chain_b -> chain_c -> leaf, for a second. Built with frame pointers: without rules
 * for such code they are all there is.
 */
#define NOINLINE __attribute__((noinline))

typedef unsigned int u32;

static volatile u32 sink;

static u32 call(u32 number, u32 a, u32 b)
{
	u32 ret;
	__asm__ volatile("int $0x80" : "=a"(ret) : "0"(number), "b"(a), "c"(b) : "memory");
	return ret;
}

static inline u32 mix(u32 x)
{
	return x * 1664525u + (x >> 13);
}

static NOINLINE u32 leaf(u32 x)
{
	for (int i = 0; i < 4000; i++)
		x = mix(x);
	sink += x;
	return x;
}

static NOINLINE u32 chain_c(u32 x)
{
	u32 a = x;
	for (int i = 0; i < 16; i++)
		a += leaf(a);
	return a;
}

static NOINLINE u32 chain_b(u32 x)
{
	return chain_c(x) + sink;
}

static NOINLINE u32 chain_a(u32 x)
{
	return chain_b(x + 1) * 5 + x;
}

static NOINLINE void run(u32 x)
{
	sink += chain_a(x);
}

static u32 milliseconds(void)
{
	u32 time[2] = { 0, 0 };
	call(265, 1, (u32)(unsigned long)time); /* clock_gettime(CLOCK_MONOTONIC) */
	return time[0] * 1000 + time[1] / 1000000;
}

int main(void);
NOINLINE int main(void)
{
	u32 begin = milliseconds();
	while (milliseconds() - begin < 1000)
		run(begin);
	return 0;
}

/* The outermost frame has no frame pointer above it. */
__asm__(".globl _start\n.type _start, @function\n_start: xor %ebp, %ebp\ncall main\nmov %eax, "
	"%ebx\nmov $1, %eax\nint $0x80\n"
	".size _start, . - _start");
