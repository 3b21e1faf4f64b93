/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For test_unwind_walk_arm64, which steps through scenario() in an emulator: walked FILE writes its
 * mappings and where bare and small are into FILE, and stops by SIGWINCH before and after.
 */
#include <alloca.h>
#include <math.h>
#include <monetary.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile uint64_t sink;

static NOINLINE void leaf(uint64_t x)
{
	for (int i = 0; i < 3; i++)
		sink += x * sink;
}

static int compare(const void *a, const void *b)
{
	leaf(*(const uint64_t *)a);
	return *(const uint64_t *)a < *(const uint64_t *)b ? -1 : 1;
}

static void on_signal(int n)
{
	leaf((uint64_t)n);
}

static NOINLINE void by_qsort(void)
{
	uint64_t v[3] = { 3, 1, 2 };
	qsort(v, 3, sizeof(v[0]), compare);
}

static NOINLINE void by_alloca(uint64_t n)
{
	char *more = alloca(n % 128 + 16);
	more[0] = 2;
	leaf((uint64_t)more[0]);
	sink += (uint64_t)more[0];
}

static NOINLINE void by_signal(void)
{
	raise(SIGUSR1);
	sink++;
}

/* Functions that nothing has called before: each call goes through the dynamic linker. */
static NOINLINE void by_binding(double x)
{
	char text[64];
	sink += (uint64_t)(tgamma(x) + erfc(x));
	sink += (uint64_t)strfmon(text, sizeof(text), "%n", x);
}

static NOINLINE uint64_t by_depth(int n)
{
	uint64_t v = 1;
	if (n)
		v = by_depth(n - 1) * 3;
	else
		leaf(2);
	return v + (uint64_t)n;
}

/*
 * kill_self: a leaf that a signal interrupts, its return address nowhere but in x30. bare: without
 * rules, with a frame; what it calls, small, has rules and no frame.
 */
__asm__(".text\n"
	".globl kill_self, bare, bare_end, small, small_end\n"
	"kill_self: .cfi_startproc\n"
	"      mov x8, #129\n"
	"      svc #0\n"
	"      ret\n"
	"      .cfi_endproc\n"
	"bare: stp x29, x30, [sp, #-32]!\n"
	"      mov x29, sp\n"
	"      str x0, [sp, #16]\n"
	"      bl small\n"
	"      ldp x29, x30, [sp], #32\n"
	"      ret\n"
	"bare_end: nop\n"
	"      nop\n"
	"      nop\n"
	"small: .cfi_startproc\n"
	"      mov x1, #3\n"
	"1:    subs x1, x1, #1\n"
	"      b.ne 1b\n"
	"      ret\n"
	"      .cfi_endproc\n"
	"small_end: nop\n");
void kill_self(long pid, long sig);
void bare(void);
extern const char bare_end[], small[], small_end[];

static NOINLINE void by_bare(void)
{
	bare();
	sink++;
}

static NOINLINE void by_leaf_signal(void)
{
	kill_self(getpid(), SIGUSR1);
	sink++;
}

static NOINLINE void scenario(void)
{
	by_bare();
	by_qsort();
	by_alloca(sink % 100 + 20);
	by_signal();
	by_leaf_signal();
	by_binding(3.5);
	by_depth(9);
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_signal };
	char line[512];
	FILE *in = fopen("/proc/self/maps", "r"), *out = argc > 1 ? fopen(argv[1], "w") : NULL;
	if (!in || !out)
		return 2;
	fprintf(out, "%p %p %p %p\n", (void *)bare, (const void *)bare_end, (const void *)small,
		(const void *)small_end);
	while (fgets(line, sizeof(line), in))
		fputs(line, out);
	fclose(out);
	fclose(in);
	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGWINCH, &sa, NULL); /* the emulator says nothing of what is ignored */
	raise(SIGWINCH);
	scenario();
	raise(SIGWINCH);
	return 0;
}
