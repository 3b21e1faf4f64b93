/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk that the BPF program makes, compiled for user space, over recorded stacks.
 *
 * A child is stepped instruction by instruction through signals, vfork, realigned stacks, calls
 * that are bound when they are first made, qsort's calls back. Registers and a copy of the stack
 * are recorded at each step. What the walk finds there is held against libdw's unwinding of the
 * same bytes. Then memory that is cut, wrong or malicious.
 */
#include "walked_code.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <alloca.h>
#include <elfutils/libdwfl.h>
#include <inttypes.h>
#include <math.h>
#include <monetary.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define STACK_MAX (1u << 15)
#define STEPS_MAX 200000

/* ---- what the child does ---- */

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

static NOINLINE void by_signal(void)
{
	raise(SIGUSR1);
	sink++;
}

static NOINLINE void by_realign(uint64_t x)
{
	volatile char __attribute__((aligned(64))) room[128];
	char *more = alloca(x % 128 + 16);
	room[x % 128] = 1;
	more[0] = 2;
	leaf((uint64_t)room[x % 128] + (uint64_t)more[0]);
	sink += (uint64_t)room[5] + (uint64_t)more[0];
}

static NOINLINE void by_vfork(void)
{
	if (!vfork())
		_exit(0);
}

/* Functions that nothing has called before: each call goes through the dynamic linker. */
static NOINLINE void by_binding(double x)
{
	char text[64];
	sink += (uint64_t)(tgamma(x) + erfc(x));
	sink += (uint64_t)strfmon(text, sizeof(text), "%n", x);
	sink += strcspn(text, "x");
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
 * Code without rules that keeps frame pointers (bare), and what it calls: a function with rules
 * that, like memcpy, makes no frame (small). By frame pointers alone small would hide bare, and
 * each of their ends its caller.
 */
__asm__(".text\n"
	"bare: push %rbp\n"
	"      mov %rsp, %rbp\n"
	"      sub $16, %rsp\n"
	"      call small\n"
	"      leave\n"
	"      ret\n"
	"bare_end: nop\n"
	"small: .cfi_startproc\n"
	"      mov $3, %ecx\n"
	"1:    dec %ecx\n"
	"      jnz 1b\n"
	"      push %rbx\n"
	"      .cfi_adjust_cfa_offset 8\n"
	"      xor %ebx, %ebx\n"
	"      pop %rbx\n"
	"      .cfi_adjust_cfa_offset -8\n"
	"      ret\n"
	"      .cfi_endproc\n"
	"small_end: nop\n");
void bare(void);
extern const char bare_end[], small[], small_end[];

static NOINLINE void by_bare(void)
{
	bare();
	sink++;
}

static NOINLINE void scenario(void)
{
	by_bare();
	by_qsort();
	by_realign(sink % 100 + 20);
	by_signal();
	by_vfork();
	by_binding(3.5);
	by_depth(9);
}

static void child(bool altstack)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = altstack ? SA_ONSTACK : 0 };
	stack_t st = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 };
	if (altstack)
		sigaltstack(&st, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	raise(SIGSTOP);
	scenario();
	_exit(0);
}

/* ---- a recorded stack ---- */

static struct recorded {
	struct user_registers regs;
	uint8_t stack[STACK_MAX];
	uint64_t at;
	size_t n;
} rec;

static bool lies_in(uint64_t at, const void *from, const void *to)
{
	return at >= (uintptr_t)from && at < (uintptr_t)to;
}

static bool read_recorded(void *ctx, void *to, size_t n, uint64_t at)
{
	const struct recorded *r = ctx;
	if (lies_in(at, (const void *)bare, bare_end)) { /* the child's code is ours */
		memcpy(to, (const void *)(uintptr_t)at, n);
		return true;
	}
	if (at < r->at || at - r->at > r->n || n > r->n - (at - r->at))
		return false;
	memcpy(to, r->stack + (at - r->at), n);
	return true;
}

static const struct unwind_memory recorded = { read_recorded, &rec };

static bool record(pid_t pid)
{
	struct user_regs_struct r;
	if (ptrace(PTRACE_GETREGS, pid, 0, &r))
		return false;
	rec.regs =
		(struct user_registers){ { r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp,
					   r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15 },
					 r.rip };
	rec.at = r.rsp - COPY_BELOW; /* what has just been popped still counts as saved there */
	/* Page by page: the end of the stack is somewhere behind. */
	for (rec.n = 0; rec.n < STACK_MAX;) {
		size_t n = 4096 - ((rec.at + rec.n) & 4095);
		n = n < STACK_MAX - rec.n ? n : STACK_MAX - rec.n;
		struct iovec to = { rec.stack + rec.n, n },
			     from = { (void *)(uintptr_t)(rec.at + rec.n), n };
		if (process_vm_readv(pid, &to, 1, &from, 1, 0) != (ssize_t)n)
			break;
		rec.n += n;
	}
	return rec.n > 0;
}

/* ---- libdw on the same bytes ---- */

static uint64_t theirs[256];
static bool exact[256];
static unsigned n_theirs;

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread)
{
	(void)dwfl;
	if (*thread)
		return 0;
	*thread = arg;
	return 1;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread)
{
	(void)dwfl;
	(void)tid;
	*thread = arg;
	return true;
}

static bool memory_read(Dwfl *dwfl, Dwarf_Addr at, Dwarf_Word *result, void *arg)
{
	(void)dwfl;
	return read_recorded(arg, result, sizeof(*result), at);
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	const struct recorded *r = arg;
	Dwarf_Word v[17];
	for (unsigned i = 0; i < 16; i++)
		v[i] = r->regs.reg[i];
	v[16] = r->regs.pc;
	return dwfl_thread_state_registers(thread, 0, 17, v);
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
	.next_thread = next_thread,
	.get_thread = get_thread,
	.memory_read = memory_read,
	.set_initial_registers = set_registers,
};

static int on_frame(Dwfl_Frame *f, void *arg)
{
	Dwarf_Addr pc;
	bool activation;
	(void)arg;
	if (!dwfl_frame_pc(f, &pc, &activation) || n_theirs == 256)
		return DWARF_CB_ABORT;
	exact[n_theirs] = activation;
	theirs[n_theirs++] = pc;
	return DWARF_CB_OK;
}

static char *no_debuginfo;
static const Dwfl_Callbacks dwfl_callbacks = {
	.find_elf = dwfl_linux_proc_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
	.debuginfo_path = &no_debuginfo,
};

static Dwfl *open_dwfl(pid_t pid)
{
	no_debuginfo = strdup("-:nowhere");
	Dwfl *d = dwfl_begin(&dwfl_callbacks);
	assert_non_null(d);
	assert_int_equal(dwfl_linux_proc_report(d, pid), 0);
	assert_int_equal(dwfl_report_end(d, NULL, NULL), 0);
	assert_true(dwfl_attach_state(d, NULL, pid, &thread_callbacks, &rec));
	return d;
}

/* ---- stepping ---- */

static struct {
	uint64_t steps, compared, equal, unequal, by_us_alone, bare;
	uint64_t ends[N_COUNTERS];
} sum;

static struct recorded deepest; /* the recorded stack with the most frames */
static unsigned n_deepest;

static uint64_t root; /* the outermost frame of the first step */

static void tell(const uint64_t *ours, unsigned n)
{
	if (sum.unequal++ >= 5)
		return;
	printf("at %" PRIx64 ": ours", (uint64_t)rec.regs.pc);
	for (unsigned i = 0; i < n; i++)
		printf(" %" PRIx64, ours[i]);
	printf("; libdw's");
	for (unsigned i = 0; i < n_theirs; i++)
		printf(" %" PRIx64 "%s", theirs[i], exact[i] ? "!" : "");
	printf("\n");
}

/* Where libdw has no rules: what calls what is written above. False: somewhere else. */
static bool compare_bare(const uint64_t *ours, unsigned n)
{
	bool in_small = lies_in(ours[0], small, small_end);
	if (!in_small && !lies_in(ours[0], (const void *)bare, bare_end))
		return false;
	const uint64_t *caller = ours + 1 + in_small;
	assert_true(n > 4u + in_small &&
		    (!in_small || lies_in(ours[1], (const void *)bare, bare_end)));
	assert_true(lies_in(caller[0], (const void *)by_bare, (const char *)by_bare + 32));
	assert_true(lies_in(caller[1], (const void *)scenario, (const char *)scenario + 32));
	sum.bare++;
	return true;
}

static void compare_step(Dwfl *d)
{
	uint64_t ours[USER_FRAMES_MAX];
	enum counter end;
	unsigned n = unwind_walk(&tables, &recorded, &rec.regs, ours, &end);
	assert_true(n >= 1 && n <= USER_FRAMES_MAX);
	sum.ends[end]++;
	if (end == COUNTER_rooted && n > n_deepest) {
		n_deepest = n;
		deepest = rec;
	}
	if (compare_bare(ours, n))
		return;
	n_theirs = 0;
	dwfl_getthread_frames(d, 1, on_frame, NULL);
	if (!sum.compared++)
		root = theirs[n_theirs - 1];
	bool same = true;
	for (unsigned i = 0; i < n && i < n_theirs; i++)
		/* What a signal interrupted */
		same &= ours[i] == theirs[i] || (i && exact[i] && ours[i] == theirs[i] + 1);
	if (same && n == n_theirs)
		sum.equal++;
	else if (same && n > n_theirs && end == COUNTER_rooted && ours[n - 1] == root)
		sum.by_us_alone++; /* libdw gave up; it does not follow rbx */
	else
		tell(ours, n);
}

/* In libraries every step looks like the one before: one in `sparse` of them is enough. */
static bool in_program(uint64_t pc)
{
	return pc >= ranges[0].start && pc < ranges[0].end;
}

/* The tables stay: they are those of the last process. */
static void step_through(bool altstack, unsigned sparse)
{
	char path[64];
	int status, sig = 0;
	fflush(stdout);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		child(altstack);
	assert_true(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	FILE *maps = fopen(path, "re");
	assert_non_null(maps);
	make_tables(maps, NULL);
	fclose(maps);
	Dwfl *d = open_dwfl(pid);
	for (uint64_t i = 0; i < STEPS_MAX; i++) {
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, 0, sig), 0);
		assert_true(waitpid(pid, &status, 0) == pid);
		if (!WIFSTOPPED(status))
			break;
		sig = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
		sum.steps++;
		if (record(pid) && (in_program(rec.regs.pc) || i % sparse == 0))
			compare_step(d);
	}
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	dwfl_end(d);
	free(no_debuginfo);
}

static void test_steps(void **state)
{
	(void)state;
	step_through(true, 31);
	/* What a handler on a stack of its own interrupted is not in the copy. */
	assert_int_equal(sum.ends[COUNTER_rooted] + sum.ends[COUNTER_unwind_fault],
			 sum.compared + sum.bare);
	uint64_t elsewhere = sum.ends[COUNTER_unwind_fault];
	assert_true(elsewhere > 10 && elsewhere < 200);
	drop_tables();
	step_through(false, 7);
	printf("%" PRIu64 " steps, %" PRIu64 " compared with libdw: %" PRIu64 " equal, %" PRIu64
	       " where libdw gave up, %" PRIu64 " unequal\n",
	       sum.steps, sum.compared, sum.equal, sum.by_us_alone, sum.unequal);
	assert_true(sum.compared > 1500 && sum.by_us_alone);
	assert_int_equal(sum.unequal, 0);
	assert_int_equal(sum.ends[COUNTER_rooted] + elsewhere, sum.compared + sum.bare);
	assert_int_equal(sum.bare, 2 * (6 + 11));
}

/* ---- memory that is not what it should be ---- */

static void test_truncated(void **state)
{
	uint64_t whole[USER_FRAMES_MAX], got[USER_FRAMES_MAX];
	enum counter end;
	(void)state;
	rec = deepest;
	unsigned n = unwind_walk(&tables, &recorded, &rec.regs, whole, &end), last = 0;
	assert_int_equal(n, n_deepest);
	assert_true(n >= 15);
	for (rec.n = 0; rec.n <= deepest.n; rec.n += 8) {
		unsigned k = unwind_walk(&tables, &recorded, &rec.regs, got, &end);
		/* more memory, more frames, and always the same ones */
		assert_true(k >= last && k <= n);
		assert_memory_equal(got, whole, k * sizeof(*got));
		assert_int_equal(end, k == n ? COUNTER_rooted : COUNTER_unwind_fault);
		last = k;
	}
	assert_int_equal(last, n);
}

/* Every word of memory is ctx's, or random. */
static bool read_same(void *ctx, void *to, size_t n, uint64_t at)
{
	(void)at;
	for (size_t i = 0; i < n; i++)
		((uint8_t *)to)[i] = ((uint8_t *)ctx)[i % 8];
	return true;
}

static bool read_random(void *ctx, void *to, size_t n, uint64_t at)
{
	uint64_t *reads = ctx;
	(void)at;
	++*reads;
	for (size_t i = 0; i < n; i += 8) {
		uint64_t pick = draw() % 8, v = draw();
		v = pick < 5 ? draw_code() : pick == 5 ? at + draw() % 256 : pick == 6 ? 0 : v;
		memcpy((uint8_t *)to + i, &v, n - i < 8 ? n - i : 8);
	}
	return draw() % 50 != 0;
}

/* A chain of frame pointers that leads nowhere, or round and round, in code without rules. */
static void test_cycles(void **state)
{
	static struct unwind_range bare = { .start = 0x10000, .end = 0x20000 };
	struct unwind_tables t = tables;
	struct recorded r = { .at = 0x7000, .n = 4096 };
	struct unwind_memory m = { read_recorded, &r };
	uint64_t got[USER_FRAMES_MAX], *w = (uint64_t *)r.stack;
	enum counter end;
	(void)state;
	t.ranges = &bare;
	t.n_ranges = 1;
	r.regs.pc = 0x10100;
	r.regs.reg[UNWIND_REG_SP] = 0x7010;
	r.regs.reg[UNWIND_REG_FP] = 0x7020;
	w[4] = 0x7020; /* itself */
	w[5] = 0x10200;
	assert_int_equal(unwind_walk(&t, &m, &r.regs, got, &end), 2);
	assert_int_equal(end, COUNTER_unwind_no_rule);
	w[4] = 0x7040;
	w[8] = 0x7020; /* back */
	w[9] = 0x10300;
	assert_int_equal(unwind_walk(&t, &m, &r.regs, got, &end), 3);
	assert_int_equal(end, COUNTER_unwind_no_rule);
	w[8] = 0; /* the outermost frame of a chain */
	assert_int_equal(unwind_walk(&t, &m, &r.regs, got, &end), 3);
	assert_int_equal(end, COUNTER_rooted);
	w[8] = ~7ull; /* where nothing can be read */
	assert_int_equal(unwind_walk(&t, &m, &r.regs, got, &end), 3);
	assert_int_equal(end, COUNTER_unwind_fault);
	w[9] = 0x999999; /* a return address into nothing */
	assert_int_equal(unwind_walk(&t, &m, &r.regs, got, &end), 2);
	assert_int_equal(end, COUNTER_unwind_no_rule);
}

static void test_hostile(void **state)
{
	uint64_t got[USER_FRAMES_MAX], seen[N_COUNTERS] = { 0 }, reads, word;
	struct unwind_memory random = { read_random, &reads }, same = { read_same, &word };
	struct user_registers regs;
	enum counter end;
	unsigned n, longest = 0;
	(void)state;
	for (unsigned round = 0; round < 100000; round++) {
		for (unsigned i = 0; i < 16; i++)
			regs.reg[i] = draw();
		regs.pc = round % 10 ? draw_code() : draw();
		word = draw_code();
		reads = 0;
		n = unwind_walk(&tables, round % 4 ? &random : &same, &regs, got, &end);
		assert_true(n >= 1 && n <= USER_FRAMES_MAX && end < N_COUNTERS);
		assert_true(reads <= 4 * USER_FRAMES_MAX);
		assert_int_equal(got[0], regs.pc >> 56 ? 1 : regs.pc);
		for (unsigned i = 0; i < n; i++)
			assert_false(got[i] >> 56); /* that would be no address */
		seen[end]++;
		longest = n > longest ? n : longest;
	}
	assert_true(seen[COUNTER_rooted] && seen[COUNTER_unwind_fault] &&
		    seen[COUNTER_unwind_no_rule] && seen[COUNTER_unwind_no_mapping] &&
		    seen[COUNTER_truncated]);
	assert_int_equal(longest, USER_FRAMES_MAX);
}

static int drop(void **state)
{
	(void)state;
	drop_tables();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_cycles),
		cmocka_unit_test(test_hostile),
	};
	return cmocka_run_group_tests(tests, NULL, drop);
}
