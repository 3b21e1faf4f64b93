/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules for Go from .gopclntab, of the program that test_go is about. Its call frame information is
 * packed, so that none of it is ours. It tells libdw where every function's frame is at each of its
 * instructions. And tables that lie.
 */
#include "unwind/unwind.h"

#include "elf/section.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int open_program(char path[5000])
{
	ssize_t n = readlink("/proc/self/exe", path, 4900);
	path[n > 0 ? n : 0] = 0;
	strcpy(strrchr(path, '/'), "/go.amd64");
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		print_message("%s was not built: no Go\n", path);
		skip();
	}
	return fd;
}

/*
 * The distance of the CFA from the stack pointer; -1: libdw says nothing, or something else, of
 * this place.
 */
static int64_t libdw_depth(Dwarf_CFI *cfi, uint64_t at)
{
	Dwarf_Frame *frame = NULL;
	Dwarf_Op *ops;
	size_t n;
	int64_t off = -1;
	if (dwarf_cfi_addrframe(cfi, at, &frame))
		return -1;
	if (!dwarf_frame_cfa(frame, &ops, &n) && n == 1 && ops->atom == DW_OP_breg7)
		off = (int64_t)ops->number;
	else if (n == 1 && ops->atom == DW_OP_bregx && ops->number == 7)
		off = (int64_t)ops->number2;
	free(frame);
	return off;
}

/*
 * asmcgocall and what wraps it: begin and size. Of these Go's tables, and so libdw, do not say that
 * they go over to another stack.
 */
static size_t read_switches(const char *path, uint64_t at[4][2])
{
	char cmd[5100];
	size_t n = 0;
	snprintf(
		cmd, sizeof(cmd),
		"nm -S %s | sed -nE 's/^([0-9a-f]+ [0-9a-f]+) . runtime\\.asmcgocall(\\.abi0)?$/\\1/p'",
		path);
	FILE *f = popen(cmd, "re");
	while (n < 4 && fscanf(f, "%" SCNx64 "%" SCNx64, &at[n][0], &at[n][1]) == 2)
		n++;
	pclose(f);
	return n;
}

static bool is_switch(uint64_t at[4][2], size_t n, uint64_t vaddr)
{
	for (size_t i = 0; i < n; i++)
		if (vaddr >= at[i][0] && vaddr - at[i][0] < at[i][1])
			return true;
	return false;
}

/*
 * By its stack pointer: the same everywhere. By its frame pointer, where stacks are changed: only
 * where there is a frame.
 */
static void depths(void **state)
{
	(void)state;
	char path[5000];
	struct elf_image img;
	struct unwind_table *t;
	struct err err = { 0 };
	size_t bare = 0, framed = 0, begun = 0, changed = 0, signals = 0;
	int fd = open_program(path);
	if (elf_image_open(&img, fd, path, &err) || unwind_compile(&t, &img, path, &err))
		fail_msg("%s", err.text);
	assert_int_equal(t->fdes, 0);
	Dwarf *d = dwarf_begin(fd, DWARF_C_READ);
	Dwarf_CFI *cfi = d ? dwarf_getcfi(d) : NULL;
	assert_non_null(cfi);
	struct elf_place text;
	uint64_t switches[4][2];
	size_t n_switches = read_switches(path, switches);
	assert_true(n_switches > 0);
	assert_int_equal(elf_section_find(&img, ".text", &text), 0);
	for (uint64_t at = text.vaddr; at < text.vaddr + text.size; at++) {
		const struct unwind_rule *r = unwind_table_find(t, at);
		if (is_switch(switches, n_switches, at)) {
			assert_true(r && r->cfa == UNWIND_CFA_GO && r->reg == UNWIND_X86_FP &&
				    r->cfa_off == 16);
			continue;
		}
		signals += r && r->ra & UNWIND_RA_SIGNAL;
		int64_t depth = r && r->ra != UNWIND_RA_ROOT && !(r->ra & UNWIND_RA_SIGNAL)
					? libdw_depth(cfi, at)
					: -1;
		if (depth < 0)
			continue;
		assert_int_equal(r->cfa, UNWIND_CFA_GO);
		if (r->reg == UNWIND_X86_SP && r->cfa_off != depth)
			fail_msg("0x%lx: the stack pointer is %d below the CFA, libdw says %ld",
				 (unsigned long)at, r->cfa_off, (long)depth);
		if (r->reg != UNWIND_X86_SP && depth <= 8)
			fail_msg("0x%lx: libdw knows of no frame", (unsigned long)at);
		bare += depth <= 8;
		begun += depth > 8 && r->fp == UNWIND_FP_SAME;
		framed += depth > 8 && r->fp == UNWIND_FP_CFA;
		changed += r->reg == UNWIND_X86_FP;
	}
	print_message(
		"%zu bytes of code before and after their frame, %zu while it is made or left, %zu with it, %zu that change stacks: "
		"all as libdw says\n",
		bare, begun, framed, changed);
	assert_true(bare > 20000 && begun > 5000 && framed > 100000 && changed > 100 &&
		    changed < 2000);
	assert_true(signals > 8 && signals < 64); /* mov $15, %rax; syscall; and the byte before */
	dwarf_end(d);
	unwind_table_free(t);
	elf_image_fini(&img);
	close(fd);
}

/*
 * Every byte of what the table says of itself, and some of the rest, changed: an answer or none, in
 * no time, and no read outside.
 */
static void lies(void **state)
{
	(void)state;
	char path[5000];
	struct elf_image img, bad;
	struct elf_place at;
	struct err err = { 0 };
	int fd = open_program(path);
	off_t size = lseek(fd, 0, SEEK_END);
	uint8_t *bytes = malloc((size_t)size);
	assert_int_equal(pread(fd, bytes, (size_t)size, 0), size);
	if (elf_image_open(&img, fd, path, &err))
		fail_msg("%s", err.text);
	assert_int_equal(elf_section_find(&img, ".gopclntab", &at), 0);
	elf_image_fini(&img);
	close(fd);
	uint64_t random = 88172645463325252ull;
	size_t compiled = 0;
	for (unsigned i = 0; i < 300; i++) {
		struct unwind_table *t = NULL;
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		uint64_t place = at.offset + (i < 72 ? i : random % at.size);
		uint8_t was[4];
		memcpy(was, bytes + place, sizeof(was));
		memset(bytes + place, i & 1 ? 0xff : (int)(random >> 40 & 0xff),
		       i < 72 ? 1 : sizeof(was));
		if (!elf_image_open_memory(&bad, bytes, (size_t)size, "a liar", NULL)) {
			if (!unwind_compile(&t, &bad, "a liar", NULL)) {
				compiled++;
				unwind_table_free(t);
			}
			elf_image_fini(&bad);
		}
		memcpy(bytes + place, was, sizeof(was));
	}
	print_message("300 liars, %zu of them compiled\n", compiled);
	assert_true(compiled > 100);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(depths),
		cmocka_unit_test(lies),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
