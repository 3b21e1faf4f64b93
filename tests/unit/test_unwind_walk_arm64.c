/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk as it is on arm64, compiled for this machine, over a real arm64 process
 * (arm64/walked.c). An emulator runs it instruction by instruction. What the walk finds at each is
 * held against libdw's unwinding of the same registers and memory. Return addresses are signed
 * (PAC); libdw gets them without.
 */
#define UNWIND_FOR_ARM64
#include "../../user/unwind/walk.c"

#include "walked_code.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIBRARIES "/usr/aarch64-linux-gnu"
#define EMULATOR "/usr/bin/qemu-aarch64"
#define STEPS_MAX 200000

/* ---- the emulator, by gdb's remote protocol ---- */

static char dir[] = "/tmp/ascribe-walk.XXXXXX";
static char program[4096], info[64], address[64];
static pid_t emulator;
static int remote = -1;
static char answer[16384];

static void connect_emulator(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	snprintf(info, sizeof(info), "%s/info", dir);
	snprintf(address, sizeof(address), "%s/gdb", dir);
	emulator = fork();
	assert_true(emulator >= 0);
	if (!emulator) {
		execl(EMULATOR, EMULATOR, "-cpu", "max", "-L", LIBRARIES, "-g", address, program,
		      info, (char *)NULL);
		_exit(127);
	}
	memcpy(a.sun_path, address, sizeof(address));
	remote = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	for (int i = 0; i < 200 && connect(remote, (struct sockaddr *)&a, sizeof(a)); i++)
		usleep(20000);
	struct timeval patience = { .tv_sec = 10 };
	setsockopt(remote, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

static char next_char(void)
{
	static char in[4096];
	static ssize_t n, at;
	if (at == n) {
		n = recv(remote, in, sizeof(in), 0);
		at = 0;
		assert_true(n > 0);
	}
	return in[at++];
}

/* Send a command, and wait for what it answers. */
static const char *ask(const char *command)
{
	char packet[128];
	uint8_t sum = 0;
	size_t n = 0;
	for (const char *c = command; *c; c++)
		sum = (uint8_t)(sum + (uint8_t)*c);
	int len = snprintf(packet, sizeof(packet), "$%s#%02x", command, sum);
	assert_true(send(remote, packet, (size_t)len, 0) == len);
	while (next_char() != '$')
		;
	for (char c; (c = next_char()) != '#' && n + 1 < sizeof(answer);)
		answer[n++] = c;
	next_char();
	next_char();
	assert_true(send(remote, "+", 1, 0) == 1);
	answer[n] = 0;
	return answer;
}

static size_t unhex(const char *from, void *to, size_t max)
{
	size_t n = 0;
	for (unsigned v; n < max && sscanf(from + 2 * n, "%2x", &v) == 1; n++)
		((uint8_t *)to)[n] = (uint8_t)v;
	return n;
}

/* Memory is asked for in lines, which hold until the next step. */
#define LINE 512
static struct {
	uint64_t at;
	size_t n;
	uint8_t bytes[LINE];
} lines[64];

static void forget_lines(void)
{
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		lines[i].at = UINT64_MAX;
}

static bool read_remote(void *ctx, void *to, size_t n, uint64_t at)
{
	char command[64];
	(void)ctx;
	for (size_t done = 0; done < n;) {
		uint64_t line = (at + done) & ~(uint64_t)(LINE - 1), in = at + done - line;
		size_t i = line / LINE % 64, k = LINE - in < n - done ? LINE - in : n - done;
		if (lines[i].at != line) {
			snprintf(command, sizeof(command), "m%" PRIx64 ",%x", line, LINE);
			const char *got = ask(command);
			lines[i].n = got[0] == 'E' ? 0 : unhex(got, lines[i].bytes, LINE);
			lines[i].at = line;
		}
		if (in + k > lines[i].n)
			return false;
		memcpy((uint8_t *)to + done, lines[i].bytes + in, k);
		done += k;
	}
	return true;
}

static const struct unwind_memory memory = { read_remote, NULL };
static struct user_registers regs;

static void read_registers(void)
{
	uint64_t v[33];
	assert_int_equal(unhex(ask("g"), v, sizeof(v)), sizeof(v));
	memcpy(regs.reg, v, sizeof(regs.reg));
	regs.pc = v[32];
	forget_lines();
}

/* ---- its mappings: our tables and libdw's ---- */

static Dwfl *dwfl;
static uint64_t bare, bare_end, small, small_end;
static struct unwind_range own_code;   /* the code of the file that has bare */
static struct unwind_range trampoline; /* code without a file: what signal handlers return to */

static bool lies(uint64_t at, uint64_t from, uint64_t to)
{
	return at >= from && at < to;
}

/* Tell libdw of a file; what has none is the trampoline. */
static void report_mapping(const struct unwind_range *r, uint64_t pgoff, const char *path)
{
	if (*path != '/') {
		trampoline = *r;
		return;
	}
	if (lies(bare, r->start, r->end))
		own_code = *r;
	assert_true(r->n_pages);
	assert_non_null(dwfl_report_elf(dwfl, path, path, -1, r->start - pgoff, false));
}

static pid_t next_thread(Dwfl *d, void *arg, void **thread)
{
	(void)d;
	if (*thread)
		return 0;
	*thread = arg;
	return 1;
}

static bool get_thread(Dwfl *d, pid_t tid, void *arg, void **thread)
{
	(void)d;
	(void)tid;
	*thread = arg;
	return true;
}

static uint64_t n_signed;

/* Without a signature, when it is a signed address of code. */
static uint64_t authenticated(uint64_t v)
{
	uint64_t at = v & 0xffffffffffffull;
	for (unsigned i = 0; v != at && i < tables.n_ranges; i++)
		if (at >= ranges[i].start && at < ranges[i].end) {
			n_signed++;
			return at;
		}
	return v;
}

static bool memory_read(Dwfl *d, Dwarf_Addr at, Dwarf_Word *result, void *arg)
{
	(void)d;
	(void)arg;
	if (!read_remote(NULL, result, sizeof(*result), at))
		return false;
	*result = authenticated(*result);
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	Dwarf_Word v[32];
	(void)arg;
	for (unsigned i = 0; i < 32; i++)
		v[i] = regs.reg[i];
	v[30] = authenticated(v[30]);
	dwfl_thread_state_register_pc(thread, regs.pc);
	return dwfl_thread_state_registers(thread, 0, 32, v);
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
	.next_thread = next_thread,
	.get_thread = get_thread,
	.memory_read = memory_read,
	.set_initial_registers = set_registers,
};

static int find_nothing(Dwfl_Module *m, void **data, const char *name, Dwarf_Addr base,
			const char *file, const char *link, GElf_Word crc, char **ret)
{
	(void)m, (void)data, (void)name, (void)base, (void)file, (void)link, (void)crc, (void)ret;
	return -1;
}
static const Dwfl_Callbacks dwfl_callbacks = { .find_elf = dwfl_build_id_find_elf,
					       .find_debuginfo = find_nothing };

static void make_all_tables(void)
{
	dwfl = dwfl_begin(&dwfl_callbacks);
	assert_non_null(dwfl);
	FILE *f = fopen(info, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64, &bare, &bare_end,
				&small, &small_end),
			 4);
	make_tables(f, report_mapping);
	fclose(f);
	assert_int_equal(dwfl_report_end(dwfl, NULL, NULL), 0);
	assert_true(dwfl_attach_state(dwfl, NULL, 1, &thread_callbacks, &regs));
	assert_true(own_code.end && trampoline.end);
}

/* ---- what libdw finds ---- */

static struct stack {
	uint64_t pc[256];
	unsigned n;
	/* here; where the signal struck; before the last call; before the last one by .plt */
} theirs, interrupted, called, bound;

static int on_frame(Dwfl_Frame *f, void *arg)
{
	Dwarf_Addr pc;
	bool activation;
	(void)arg;
	if (!dwfl_frame_pc(f, &pc, &activation) || theirs.n == 256)
		return DWARF_CB_ABORT;
	theirs.pc[theirs.n++] = pc;
	return DWARF_CB_OK;
}

/* Does libdw have rules for this instruction? */
static bool has_cfi(uint64_t pc)
{
	Dwarf_Addr bias;
	Dwarf_Frame *f = NULL;
	Dwfl_Module *m = dwfl_addrmodule(dwfl, pc);
	Dwarf_CFI *cfi = m ? dwfl_module_eh_cfi(m, &bias) : NULL;
	bool has = cfi && !dwarf_cfi_addrframe(cfi, pc - bias, &f);
	free(f);
	return has;
}

/*
 * Do the rules here speak of a return address outside of the frame? Those of the dynamic linker's
 * trampoline do.
 */
static bool is_trampoline(uint64_t pc)
{
	Dwarf_Addr bias;
	Dwarf_Op mem[3], *ops;
	Dwarf_Frame *f = NULL;
	size_t n;
	Dwfl_Module *m = dwfl_addrmodule(dwfl, pc);
	Dwarf_CFI *cfi = m ? dwfl_module_eh_cfi(m, &bias) : NULL;
	if (!cfi || dwarf_cfi_addrframe(cfi, pc - bias, &f))
		return false;
	bool is = !dwarf_frame_register(f, UNWIND_ARM_LR, mem, &ops, &n) && n &&
		  ops[0].atom == DW_OP_call_frame_cfa && (n == 1 || (int64_t)ops[1].number >= 0);
	free(f);
	return is;
}

/* ---- stepping ---- */

static struct {
	uint64_t steps, compared, equal, unequal, in_plt, in_bare, in_handler, in_binding,
		above_leaf, rooted, entering;
} sum;

static void tell(const uint64_t *ours, unsigned n)
{
	if (sum.unequal++ >= 5)
		return;
	printf("at %" PRIx64 ": ours", (uint64_t)regs.pc);
	for (unsigned i = 0; i < n; i++)
		printf(" %" PRIx64, ours[i]);
	printf("; libdw's");
	for (unsigned i = 0; i < theirs.n; i++)
		printf(" %" PRIx64, theirs.pc[i]);
	printf("\n");
}

static bool same(const uint64_t *ours, const uint64_t *want, unsigned n)
{
	return !memcmp(ours, want, n * sizeof(*ours));
}

/*
 * In a handler: libdw's as far as the trampoline, then what was interrupted, written as one behind
 * it.
 */
static bool compare_handler(const uint64_t *ours, unsigned n, unsigned k)
{
	sum.in_handler++;
	return theirs.n >= k && same(ours, theirs.pc, k) && n - k - 1 == interrupted.n &&
	       ours[k + 1] == interrupted.pc[0] + 1 &&
	       same(ours + k + 2, interrupted.pc + 1, interrupted.n - 1);
}

/*
 * Where libdw has no rules, which takes it a frame too far: as when the call was made, with the
 * place of the call below.
 */
static bool compare_call(const uint64_t *ours, unsigned n)
{
	sum.in_plt++;
	return n == called.n + 1 && ours[1] == called.pc[0] + 4 &&
	       same(ours + 2, called.pc + 1, called.n - 1);
}

/* Below the dynamic linker's trampoline: as when the call was made. */
static bool compare_binding(const uint64_t *ours, unsigned n, unsigned k)
{
	sum.in_binding++;
	return theirs.n > k && same(ours, theirs.pc, k + 1) && n == k + 1 + bound.n &&
	       ours[k + 1] == bound.pc[0] + 4 && same(ours + k + 2, bound.pc + 1, bound.n - 1);
}

static bool compare_bare(const uint64_t *ours, unsigned n)
{
	unsigned in_small = lies(ours[0], small, small_end);
	sum.in_bare++;
	return n == called.n + 1 + in_small && (!in_small || lies(ours[1], bare, bare_end)) &&
	       ours[1 + in_small] == called.pc[0] + 4 &&
	       same(ours + 2 + in_small, called.pc + 1, called.n - 1);
}

/* The first frame at whose place `is` holds; n: none. */
static unsigned find(const uint64_t *ours, unsigned n, bool (*is)(uint64_t pc))
{
	unsigned k = 0;
	while (k < n && !is(ours[k] - (k > 0)))
		k++;
	return k;
}

static bool is_sigreturn_page(uint64_t pc)
{
	return lies(pc + 1, trampoline.start, trampoline.end);
}

static bool in_bare_code(uint64_t pc)
{
	return lies(pc, bare, bare_end) || lies(pc, small, small_end);
}

static bool compare(const uint64_t *ours, unsigned n)
{
	unsigned handler = find(ours, n, is_sigreturn_page), binding = find(ours, n, is_trampoline);
	if (handler < n)
		return compare_handler(ours, n, handler);
	if (binding < n)
		return compare_binding(ours, n, binding);
	if (in_bare_code(regs.pc))
		return compare_bare(ours, n);
	if (!has_cfi(regs.pc))
		return compare_call(ours, n);
	return n == theirs.n && same(ours, theirs.pc, n);
}

static void compare_step(void)
{
	uint64_t ours[USER_FRAMES_MAX];
	enum counter end;
	unsigned n = unwind_walk(&tables, &memory, &regs, ours, &end);
	sum.compared++;
	if (end == COUNTER_rooted)
		sum.rooted++;
	else if (!is_trampoline(regs.pc) && is_trampoline(regs.pc + 4))
		sum.entering++;
	theirs.n = 0;
	dwfl_getthread_frames(dwfl, 1, on_frame, NULL);
	if (compare(ours, n))
		sum.equal++;
	else
		tell(ours, n);
	if (!has_cfi(regs.pc) && !in_bare_code(regs.pc))
		bound = called;
	else if (!in_bare_code(regs.pc))
		called = theirs;
}

#define GDB_SIGWINCH 28
#define GDB_SIGUSR1 30

static int stopped_by(const char *reply)
{
	unsigned sig = 0;
	return (reply[0] == 'T' || reply[0] == 'S') && sscanf(reply + 1, "%2x", &sig) == 1
		       ? (int)sig
		       : 0;
}

/* In the libraries every step looks like the one before: one in 11 of them is enough. */
static bool is_of_interest(uint64_t step)
{
	return lies(regs.pc, own_code.start, own_code.end) || step % 11 == 0 || !has_cfi(regs.pc);
}

static void test_steps(void **state)
{
	int sig = 0;
	(void)state;
	while ((sig = stopped_by(ask("c"))) && sig != GDB_SIGWINCH)
		;
	assert_int_equal(sig, GDB_SIGWINCH);
	make_all_tables();
	sig = stopped_by(ask("s")); /* which drops that signal */
	for (uint64_t i = 0; i < STEPS_MAX && sig && sig != GDB_SIGWINCH; i++) {
		read_registers();
		sum.steps++;
		uint32_t code = 0;
		read_remote(NULL, &code, sizeof(code), regs.pc);
		/* Bl, blr */
		bool calls = (code & 0xfc000000) == 0x94000000 || (code & 0xfffffc1f) == 0xd63f0000;
		if (calls || sig == GDB_SIGUSR1 || is_of_interest(i))
			compare_step();
		if (sig == GDB_SIGUSR1) {
			interrupted = theirs;
			sum.above_leaf +=
				interrupted.n > 1 && regs.reg[UNWIND_ARM_LR] == interrupted.pc[1];
		}
		sig = stopped_by(ask(sig == GDB_SIGUSR1 ? "vCont;S1e" : "s"));
	}
	assert_int_equal(sig, GDB_SIGWINCH);
	printf("%" PRIu64 " steps, %" PRIu64 " compared: %" PRIu64 " equal, %" PRIu64
	       " unequal; %" PRIu64 " in handlers, %" PRIu64 " in .plt and the like, %" PRIu64
	       " in code without rules, %" PRIu64 " being bound; %" PRIu64 " signed addresses\n",
	       sum.steps, sum.compared, sum.equal, sum.unequal, sum.in_handler, sum.in_plt,
	       sum.in_bare, sum.in_binding, n_signed);
	assert_int_equal(sum.unequal, 0);
	/* From glibc 2.41 on, the trampoline's first rule leaves out what .plt has pushed. */
	assert_int_equal(sum.rooted + sum.entering, sum.compared);
	assert_true(sum.entering <= 2);
	assert_true(sum.compared > 1000 && sum.in_handler > 20 && sum.in_plt >= 12 &&
		    sum.in_binding > 20 && n_signed > 100);
	assert_int_equal(sum.in_bare, 6 + 8);
	assert_int_equal(sum.above_leaf, 1);
}

/* ---- memory that is not what it should be ---- */

/* Instructions have four bytes. */
static uint64_t draw_place(void)
{
	return draw_code() & ~3ull;
}

static bool read_random(void *ctx, void *to, size_t n, uint64_t at)
{
	++*(uint64_t *)ctx;
	for (size_t i = 0; i < n; i += 8) {
		uint64_t pick = draw() % 8, v = draw();
		v = pick < 4	? draw_place() | v << 48
		    : pick == 4 ? 0xd4000001d2801168ull
		    : pick == 5 ? at + draw() % 256
		    : pick == 6 ? 0
				: v;
		memcpy((uint8_t *)to + i, &v, n - i < 8 ? n - i : 8);
	}
	return draw() % 50 != 0;
}

static void test_hostile(void **state)
{
	uint64_t got[USER_FRAMES_MAX], seen[N_COUNTERS] = { 0 }, reads;
	struct unwind_memory random = { read_random, &reads };
	enum counter end;
	(void)state;
	for (unsigned round = 0; round < 100000; round++) {
		for (unsigned i = 0; i < 32; i++)
			regs.reg[i] = draw();
		regs.pc = round % 10 ? draw_place() : draw();
		reads = 0;
		unsigned n = unwind_walk(&tables, &random, &regs, got, &end);
		assert_true(n >= 1 && n <= USER_FRAMES_MAX && end < N_COUNTERS);
		assert_true(reads <= 6 * USER_FRAMES_MAX);
		seen[end]++;
	}
	assert_true(seen[COUNTER_rooted] && seen[COUNTER_unwind_fault] &&
		    seen[COUNTER_unwind_no_rule] && seen[COUNTER_unwind_no_mapping]);
}

static int begin(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(dir));
	connect_emulator();
	return 0;
}

static int finish(void **state)
{
	(void)state;
	close(remote);
	kill(emulator, SIGKILL);
	waitpid(emulator, NULL, 0);
	unlink(info);
	unlink(address);
	rmdir(dir);
	if (dwfl)
		dwfl_end(dwfl);
	drop_tables();
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_hostile),
	};
	(void)argc;
	if (snprintf(program, sizeof(program), "%s.walked", argv[0]) >= (int)sizeof(program))
		return 1;
	if (access(program, X_OK) || access(EMULATOR, X_OK) ||
	    access(LIBRARIES "/lib/libc.so.6", R_OK)) {
		printf("no arm64 compiler, libraries or emulator (qemu-user) here\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, begin, finish);
}
