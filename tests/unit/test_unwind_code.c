/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules made from instructions alone, against the call frame information of the same code. It is
 * that of the C library, which compilers and hands have written, and of assembler that is built
 * here with and without it. And any bytes whatever.
 */
#include "unwind/code.h"
#include "unwind/frame.h"
#include "unwind/unwind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[] = "/tmp/test_code.XXXXXX";

/* Frames of all kinds: none, pushes, a constant, a frame pointer with an aligned stack, an indirect
 * jump, two ways out. */
static const char assembler[] =
	".text\n"
	".macro function name\n.globl \\name\n.type \\name, @function\n.balign "
	"16\n\\name:\nCFI(startproc)\n.endm\n"
	".macro done name\nCFI(endproc)\n.size \\name, . - \\name\n.endm\n"
	"function bare\n1: add %rdi, %rax\ndec %rsi\njnz 1b\nret\ndone bare\n"
	"function pushes\npush %rbx\nCFI(adjust_cfa_offset 8)\nCFI(rel_offset rbx, 0)\npush "
	"%rbp\nCFI(adjust_cfa_offset 8)\nCFI(rel_offset rbp, 0)\n"
	"push %r12\nCFI(adjust_cfa_offset 8)\ntest %rdi, %rdi\njz 2f\nmov %rdi, %rbp\n1: dec "
	"%rbp\njnz 1b\n"
	"pop %r12\nCFI(remember_state)\nCFI(adjust_cfa_offset -8)\npop %rbp\nCFI(adjust_cfa_offset "
	"-8)\nCFI(restore rbp)\npop %rbx\n"
	"CFI(adjust_cfa_offset -8)\nCFI(restore rbx)\nret\nCFI(restore_state)\n2: pop "
	"%r12\nCFI(adjust_cfa_offset -8)\npop %rbp\n"
	"CFI(adjust_cfa_offset -8)\nCFI(restore rbp)\npop %rbx\nCFI(adjust_cfa_offset "
	"-8)\nCFI(restore rbx)\nret\ndone pushes\n"
	"function room\nsub $200, %rsp\nCFI(adjust_cfa_offset 200)\nmov %rbp, "
	"8(%rsp)\nCFI(rel_offset rbp, 8)\nxor %ebp, %ebp\n"
	"mov 8(%rsp), %rbp\nCFI(restore rbp)\nlea 200(%rsp), %rsp\nCFI(adjust_cfa_offset "
	"-200)\nret\ndone room\n"
	"function aligned\npush %rbp\nCFI(adjust_cfa_offset 8)\nCFI(rel_offset rbp, 0)\nmov %rsp, "
	"%rbp\nCFI(def_cfa_register rbp)\n"
	"sub $100, %rsp\nand $-64, %rsp\nmov %rdi, (%rsp)\nleave\nCFI(def_cfa rsp, 8)\nCFI(restore "
	"rbp)\nret\ndone aligned\n"
	"function table\npush %rbx\nCFI(adjust_cfa_offset 8)\nCFI(rel_offset rbx, 0)\nlea "
	"1f(%rip), %rax\nadd %rdi, %rax\njmp *%rax\n"
	"1: nop\n.byte 0x48, 0x89, 0xf3\npop %rbx\nCFI(adjust_cfa_offset -8)\nCFI(restore "
	"rbx)\nret\ndone table\n"
	"function other\nnop\nret\ndone other\n";

static int run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int run(const char *format, ...)
{
	char command[1024];
	va_list ap;
	int n = snprintf(command, sizeof(command), "cd %s && ", dir);
	va_start(ap, format);
	vsnprintf(command + n, sizeof(command) - (size_t)n, format, ap);
	va_end(ap);
	return system(command);
}

static int setup(void **state)
{
	char path[64];
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/code.in", dir);
	FILE *f = fopen(path, "w");
	return !f || fputs(assembler, f) < 0 || fclose(f) ? -1 : 0;
}

static int teardown(void **state)
{
	(void)state;
	return run("rm -rf %s", dir);
}

/* The table by instructions alone, of each function that has a symbol, as though none of them had
 * an entry. */
static struct unwind_table *by_instructions(const struct elf_image *img, const char *path)
{
	struct table_builder out;
	struct unwind_table *t = NULL;
	struct code c;
	char command[256];
	uint64_t begin, size;
	assert_int_equal(table_begin(&out, img, 15), 0);
	assert_int_equal(code_read(&c, img), 0);
	snprintf(command, sizeof(command),
		 "nm -D -S --defined-only %s | sed -n 's/ [tTwWi] .*//p' | sort -u", path);
	FILE *f = popen(command, "re");
	while (fscanf(f, "%" SCNx64 "%" SCNx64, &begin, &size) == 2)
		assert_int_equal(code_add(&c, &out, begin, begin + size), 0);
	pclose(f);
	code_fini(&c);
	assert_int_equal(table_end(&out, &t), 0);
	return t;
}

struct sum {
	size_t both, equal, registers, saved, only_entries, wrong;
};

/* Of two rules for the same place: is the CFA the same, as far as that can be told without running
 * the code? */
static void compare(const struct unwind_rule *want, const struct unwind_rule *got, struct sum *sum)
{
	if (want && want->cfa != UNWIND_CFA_REG)
		return;
	if (!got || !want) {
		sum->only_entries += want != NULL;
		return;
	}
	if (want->reg != got->reg) {
		sum->registers++;
		return;
	}
	sum->both++;
	sum->equal += want->cfa_off == got->cfa_off;
	sum->wrong += want->cfa_off != got->cfa_off;
	sum->saved += want->fp == got->fp && want->fp_off == got->fp_off;
}

static struct sum compare_file(const char *path, const char *entries)
{
	struct elf_image img, with;
	struct unwind_table *want, *got;
	struct elf_segment text = { 0 };
	struct sum sum = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC), fd_with = open(entries, O_RDONLY | O_CLOEXEC);
	assert_int_equal(elf_image_open(&img, fd, path, NULL), 0);
	assert_int_equal(elf_image_open(&with, fd_with, entries, NULL), 0);
	assert_int_equal(unwind_compile(&want, &with, entries, NULL), 0);
	got = by_instructions(&img, path);
	for (size_t i = 0; i < img.n_loads; i++)
		if (img.loads[i].flags & PF_X)
			text = img.loads[i];
	for (uint64_t at = text.vaddr; at < text.vaddr + text.memsz; at++)
		compare(unwind_table_find(want, at), unwind_table_find(got, at), &sum);
	print_message("%s: of %zu bytes with both %zu equal, %zu wrong; %zu with the frame "
		      "pointer's place equal; %zu by another register, "
		      "%zu by entries alone\n",
		      path, sum.both, sum.equal, sum.wrong, sum.saved, sum.registers,
		      sum.only_entries);
	unwind_table_free(want);
	unwind_table_free(got);
	elf_image_fini(&img);
	elf_image_fini(&with);
	close(fd);
	close(fd_with);
	return sum;
}

/* Every instruction of these functions, to the byte. */
static void test_assembler(void **state)
{
	char with[64], without[64];
	(void)state;
	assert_int_equal(run("gcc -shared -nostdlib -x assembler-with-cpp '-DCFI(x...)=.cfi_##x' "
			     "-o with.so code.in"),
			 0);
	assert_int_equal(run("gcc -shared -nostdlib -x assembler-with-cpp '-DCFI(x...)=' -o "
			     "without.so code.in"),
			 0);
	assert_int_equal(run("! readelf -wf without.so | grep -q FDE"), 0);
	snprintf(with, sizeof(with), "%s/with.so", dir);
	snprintf(without, sizeof(without), "%s/without.so", dir);
	struct sum s = compare_file(without, with);
	assert_true(s.both > 90);
	assert_int_equal(s.wrong, 0);
	assert_int_equal(s.only_entries, 0);
	assert_true(s.saved >= s.both - 10); /* between a push and what says so */
}

/* Compilers' code goes ways that assembler does not (cold parts, calls that never return): nearly
 * all of it. */
static void test_library(void **state)
{
	static const char *const paths[] = { "/lib/x86_64-linux-gnu/libc.so.6",
					     "/lib64/libc.so.6" };
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		if (access(paths[i], R_OK))
			continue;
		struct sum s = compare_file(paths[i], paths[i]);
		assert_true(s.both > 100000);
		assert_true(s.wrong < s.both / 200);
		return;
	}
	skip();
}

static void test_any_bytes(void **state)
{
	uint8_t bytes[4096];
	uint64_t seed = 7;
	size_t known = 0;
	(void)state;
	for (int round = 0; round < 200; round++) {
		struct frame f = frame_entered();
		struct frame_insn in;
		for (size_t i = 0; i < sizeof(bytes); i++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			bytes[i] = (uint8_t)(seed >> 40);
		}
		for (size_t at = 0; at < sizeof(bytes); at += in.len ? in.len : 1) {
			frame_step(bytes + at, sizeof(bytes) - at, &f, &in);
			assert_true(in.len <= sizeof(bytes) - at && in.len <= 15);
			struct unwind_rule r = frame_rule(&f);
			assert_true(!r.cfa || r.reg == UNWIND_X86_FP || r.cfa_off >= 8);
			known += f.known;
			if (!f.known)
				f = frame_entered();
		}
	}
	assert_true(known > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_assembler),
		cmocka_unit_test(test_library),
		cmocka_unit_test(test_any_bytes),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
