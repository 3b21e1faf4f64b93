/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unwind tables of real files against libdw, address by address.
 *
 *   test_unwind               some thirty files of this machine, all of arm64 that there are
 *   test_unwind PATH...       these files, and every ELF file of these directories (make
 *                             test-unwind-all)
 */
#include "triplet.h"
#include "unwind/unwind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <dirent.h>
#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct {
	uint64_t files, rows, rules, compared, unequal, followed, refused, bytes, text;
	/* rows whose CFA is in this register: above the leaf only what is followed can be used */
	uint64_t other[32];
	uint64_t none, fp_lost;
	double seconds;
} sum;

static double now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- what libdw says, as a rule ---- */

/* The machine of the file that is compared. */
static struct {
	bool arm;
	int sp, fp, n;
} cpu;

static void choose_machine(uint16_t machine)
{
	cpu.arm = machine == EM_AARCH64;
	cpu.sp = cpu.arm ? UNWIND_ARM_SP : UNWIND_X86_SP;
	cpu.fp = cpu.arm ? UNWIND_ARM_FP : UNWIND_X86_FP;
	cpu.n = cpu.arm ? 32 : 16;
}

static bool is_breg(const Dwarf_Op *op, int64_t *reg, int64_t *off)
{
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
		*reg = op->atom - DW_OP_breg0;
		*off = (int64_t)op->number;
		return true;
	}
	if (op->atom == DW_OP_bregx) {
		*reg = (int64_t)op->number;
		*off = (int64_t)op->number2;
		return true;
	}
	return false;
}

static bool dw_cfa(Dwarf_Frame *f, struct unwind_rule *r)
{
	static const uint8_t plt[] = { DW_OP_lit15, DW_OP_and, 0,	  DW_OP_ge,
				       DW_OP_lit3,  DW_OP_shl, DW_OP_plus };
	Dwarf_Op *ops;
	size_t n;
	int64_t reg, off, add = 0;
	if (dwarf_frame_cfa(f, &ops, &n) || !n || !is_breg(&ops[0], &reg, &off) || reg >= cpu.n)
		return false;
	/* libdw writes "reg + off" also as breg, plus_uconst. */
	if (n == 2 && ops[1].atom == DW_OP_plus_uconst) {
		off += (int64_t)ops[1].number;
		n = 1;
	}
	r->reg = (uint8_t)reg;
	r->cfa_off = (int32_t)off;
	if (off != r->cfa_off)
		return false;
	if (n == 1) {
		r->cfa = UNWIND_CFA_REG;
		return true;
	}
	if (!cpu.arm && n == 9 && reg == 7 && ops[1].atom == DW_OP_breg16) {
		for (size_t i = 0; i < 7; i++)
			if (i != 2 && ops[2 + i].atom != plt[i])
				return false;
		r->cfa = UNWIND_CFA_PLT;
		r->cfa_add = (int16_t)(ops[4].atom - DW_OP_lit0);
		return true;
	}
	r->cfa = UNWIND_CFA_DEREF;
	int64_t index, zero;
	if (!cpu.arm && n > 5 && reg == 7 && is_breg(&ops[1], &index, &zero) && !zero &&
	    index < 16 && ops[2].atom == DW_OP_lit8 && ops[3].atom == DW_OP_mul &&
	    ops[4].atom == DW_OP_plus) {
		r->cfa = UNWIND_CFA_INDEX;
		r->reg = (uint8_t)index;
		ops += 4;
		n -= 4;
	}
	if (ops[1].atom != DW_OP_deref)
		return false;
	if (n == 3 && ops[2].atom == DW_OP_plus_uconst)
		add = (int64_t)ops[2].number;
	else if (n == 4 && ops[2].atom >= DW_OP_lit0 && ops[2].atom <= DW_OP_lit31 &&
		 ops[3].atom == DW_OP_plus)
		add = ops[2].atom - DW_OP_lit0;
	else if (n != 2)
		return false;
	r->cfa_add = (int16_t)add;
	return add == r->cfa_add;
}

enum place { SAME, UNDEFINED, AT_CFA, AT_REG, IN_REG, ELSEWHERE };

static enum place dw_register(Dwarf_Frame *f, int regno, int64_t *reg, int64_t *off)
{
	Dwarf_Op mem[3], *ops;
	size_t n;
	*reg = *off = 0;
	if (dwarf_frame_register(f, regno, mem, &ops, &n))
		return ELSEWHERE;
	if (!n)
		return ops ? UNDEFINED : SAME;
	if (ops[0].atom == DW_OP_call_frame_cfa && n == 1)
		return AT_CFA;
	if (ops[0].atom == DW_OP_call_frame_cfa && n == 2 && ops[1].atom == DW_OP_plus_uconst) {
		*off = (int64_t)ops[1].number;
		return AT_CFA;
	}
	if (ops[0].atom == DW_OP_call_frame_cfa) {
		/* Where an expression begins with: breg does not look at it */
		ops++;
		n--;
	}
	if (ops[0].atom == DW_OP_regx && n == 1) {
		*reg = (int64_t)ops[0].number;
		return IN_REG;
	}
	return n == 1 && is_breg(&ops[0], reg, off) ? AT_REG : ELSEWHERE;
}

/* cfa 0 when it cannot be said as a rule. */
static struct unwind_rule dw_rule(Dwarf_Frame *f)
{
	struct unwind_rule r = { 0 }, none = { 0 };
	int64_t reg, off;
	bool signal;
	int ra = dwarf_frame_info(f, NULL, NULL, &signal);
	enum place saved = dw_register(f, ra, &reg, &off);
	if (saved == UNDEFINED && cpu.arm && ra != UNWIND_ARM_LR)
		/*
		 * libdw says "undefined" where nothing is said: rawmemchr keeps its return address
		 * in x15
		 */
		saved = SAME;
	switch (saved) {
	case UNDEFINED:
		return (struct unwind_rule){ .cfa = UNWIND_CFA_REG, .reg = (uint8_t)cpu.sp };
	case SAME:
		if (!cpu.arm)
			return none;
		r.ra = UNWIND_RA_REG;
		off = ra;
		break;
	case AT_CFA:
		r.ra = UNWIND_RA_CFA;
		break;
	case AT_REG:
		if (reg != cpu.fp && reg != cpu.sp)
			return none;
		r.ra = reg == cpu.sp ? UNWIND_RA_AT_SP : UNWIND_RA_AT_FP;
		break;
	case IN_REG:
		r.ra = UNWIND_RA_REG;
		off = reg;
		break;
	default:
		return none;
	}
	r.ra_off = (int16_t)off;
	if (off != r.ra_off || !dw_cfa(f, &r))
		return none;
	if (signal)
		r.ra |= UNWIND_RA_SIGNAL;
	if (r.cfa == UNWIND_CFA_REG && !cpu.arm) {
		enum place bx = dw_register(f, UNWIND_X86_BX, &reg, &off);
		/*
		 * libdw says "undefined" where nothing is said: it means to know that rbx is kept,
		 * but names rax.
		 */
		if (bx == UNDEFINED)
			bx = SAME;
		bool kept = bx == AT_CFA && off == (int16_t)off && off != UNWIND_BX_SAME;
		r.cfa_add = (int16_t)(bx == SAME ? UNWIND_BX_SAME : kept ? off : UNWIND_BX_LOST);
	}
	enum place fp = dw_register(f, cpu.fp, &reg, &off);
	if (fp == AT_CFA)
		r.fp = UNWIND_FP_CFA;
	else if (fp == AT_REG && (reg == cpu.fp || reg == cpu.sp))
		r.fp = reg == cpu.sp ? UNWIND_FP_AT_SP : UNWIND_FP_AT_FP;
	else
		r.fp = fp == SAME ? UNWIND_FP_SAME : UNWIND_FP_LOST;
	if (r.fp != UNWIND_FP_SAME && r.fp != UNWIND_FP_LOST)
		r.fp_off = (int32_t)off;
	return r;
}

/* ---- one file ---- */

static void tell(const char *path, uint64_t at, const struct unwind_rule *a,
		 const struct unwind_rule *b)
{
	if (sum.unequal++ >= 20)
		return;
	printf("%s: 0x%" PRIx64
	       ": ours cfa %d reg %d %+d %+d fp %d %+d ra %d %+d, libdw's %d %d %+d %+d %d %+d %d %+d\n",
	       path, at, a->cfa, a->reg, a->cfa_off, a->cfa_add, a->fp, a->fp_off, a->ra, a->ra_off,
	       b->cfa, b->reg, b->cfa_off, b->cfa_add, b->fp, b->fp_off, b->ra, b->ra_off);
}

static void compare_at(const struct unwind_table *t, const char *path, uint64_t at,
		       const struct unwind_rule *want)
{
	static const struct unwind_rule none;
	const struct unwind_rule *got = unwind_table_find(t, at);
	got = got ? got : &none;
	sum.compared++;
	sum.followed += want->cfa != 0;
	if (memcmp(got, want, sizeof(*got)))
		tell(path, at, got, want);
}

/* Every piece of one entry, at its first and its last byte. */
static void compare_fde(const struct unwind_table *t, const char *path, Dwarf_CFI *cfi, uint64_t at,
			uint64_t end)
{
	while (at < end) {
		Dwarf_Frame *f = NULL;
		Dwarf_Addr first, last;
		if (dwarf_cfi_addrframe(cfi, at, &f))
			return; /* libdw cannot: nothing to hold against */
		struct unwind_rule want = dw_rule(f);
		dwarf_frame_info(f, &first, &last, NULL);
		free(f);
		if (last <= at)
			return;
		compare_at(t, path, at, &want);
		compare_at(t, path, (last < end ? last : end) - 1, &want);
		at = last;
	}
}

/* The entries' addresses come from libdw's walk over the section. */
static void compare_section(const struct unwind_table *t, const char *path, Elf *elf,
			    Dwarf_CFI *cfi, Elf_Scn *scn)
{
	GElf_Shdr sh;
	Elf_Data *data = elf_rawdata(scn, NULL);
	const unsigned char *ident = (const unsigned char *)elf_getident(elf, NULL);
	Dwarf_Off at = 0, next;
	Dwarf_CFI_Entry e;
	gelf_getshdr(scn, &sh);
	for (; data && dwarf_next_cfi(ident, data, true, at, &next, &e) == 0; at = next) {
		if (dwarf_cfi_cie_p(&e))
			continue;
		/* Compilers and linkers of both machines write these pointers as pcrel sdata4. */
		int32_t rel;
		uint32_t len;
		uint64_t field =
			sh.sh_addr + (uint64_t)(e.fde.start - (const uint8_t *)data->d_buf);
		memcpy(&rel, e.fde.start, 4);
		memcpy(&len, e.fde.start + 4, 4);
		uint64_t begin = field + (uint64_t)(int64_t)rel;
		compare_fde(t, path, cfi, begin, begin + len);
	}
}

static Elf_Scn *find_section(Elf *elf, const char *name)
{
	size_t names;
	GElf_Shdr sh;
	if (elf_getshdrstrndx(elf, &names))
		return NULL;
	for (Elf_Scn *s = elf_nextscn(elf, NULL); s; s = elf_nextscn(elf, s)) {
		const char *got = gelf_getshdr(s, &sh) ? elf_strptr(elf, names, sh.sh_name) : NULL;
		if (got && !strcmp(got, name) && sh.sh_type != SHT_NOBITS)
			return s;
	}
	return NULL;
}

/* What rows there are that the program cannot follow everywhere. */
static void count_rows(const struct unwind_table *t)
{
	for (uint32_t p = 0; p < t->n_pages; p++) {
		for (uint32_t i = t->page_at[p]; i < t->page_at[p + 1]; i++) {
			const struct unwind_rule *r = &t->rules[t->rows[i] & UNWIND_RULE_MASK];
			sum.none += !r->cfa;
			if (!r->cfa)
				continue;
			sum.fp_lost += r->fp == UNWIND_FP_LOST;
			sum.other[r->reg & 31] += r->reg != cpu.sp && r->reg != cpu.fp;
		}
	}
}

/* False: not a file of ours. */
static bool compare_file(const char *path)
{
	struct elf_image img;
	struct unwind_table *t = NULL;
	struct err err = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (elf_image_open(&img, fd, path, NULL)) {
		close(fd);
		return false;
	}
	choose_machine(img.machine);
	double begin = now();
	int rc = unwind_compile(&t, &img, path, &err);
	sum.seconds += now() - begin;
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	Elf_Scn *scn = elf ? find_section(elf, ".eh_frame") : NULL;
	Dwarf_CFI *cfi = scn ? dwarf_getcfi_elf(elf) : NULL;
	if (rc && rc != -ENOENT && rc != -EPROTONOSUPPORT)
		printf("%s: %s\n", path, err.text);
	if (rc == -E2BIG || rc == -EBADMSG)
		sum.unequal++;
	if (t && cfi) {
		uint64_t before = sum.unequal;
		sum.files++;
		sum.rows += t->n_rows;
		sum.rules += t->n_rules;
		sum.refused += t->refused;
		sum.bytes += unwind_table_memory(t);
		count_rows(t);
		compare_section(t, path, elf, cfi, scn);
		if (t->refused || before != sum.unequal)
			printf("%s: %" PRIu64 " entries refused, %" PRIu64 " pieces unequal\n",
			       path, t->refused, sum.unequal - before);
		for (uint32_t p = 0; p < t->n_pages; p++)
			if (t->page_at[p + 1] - t->page_at[p] > UNWIND_PAGE_ROWS_MAX)
				printf("%s: page %u has %u rows\n", path, p,
				       t->page_at[p + 1] - t->page_at[p]);
	}
	unwind_table_free(t);
	if (cfi)
		dwarf_cfi_end(cfi);
	elf_end(elf);
	elf_image_fini(&img);
	close(fd);
	return true;
}

static void print_rows(void)
{
	printf("of the rows: %" PRIu64 " say that there is no rule, %" PRIu64
	       " have lost the frame pointer; CFA in",
	       sum.none, sum.fp_lost);
	for (unsigned i = 0; i < 32; i++)
		if (sum.other[i])
			printf(" register %u: %" PRIu64, i, sum.other[i]);
	printf("\n");
}

static void print_sum(void)
{
	printf("%" PRIu64 " files, %" PRIu64 " rows in %.3f s (%.1fM rows/s), %" PRIu64
	       " pieces compared (%" PRIu64 " with a rule), %" PRIu64 " unequal, %" PRIu64
	       " entries refused, %.1f MB\n",
	       sum.files, sum.rows, sum.seconds, (double)sum.rows / sum.seconds / 1e6,
	       sum.compared / 2, sum.followed / 2, sum.unequal, sum.refused,
	       (double)sum.bytes / 1e6);
}

static void test_real_files(void **state)
{
	static const char *const files[] = {
		"/lib/" TRIPLET "/libc.so.6",
		LINKER,
		"/lib/" TRIPLET "/libm.so.6",
		"/usr/bin/python3",
		"/usr/bin/bash",
		"/usr/bin/openssl",
		"/usr/bin/perl",
		"/usr/bin/git",
		"/usr/bin/gdb",
		"/usr/lib/" TRIPLET "/libcrypto.so.3",
		"/usr/lib/" TRIPLET "/libstdc++.so.6",
		"/usr/lib/" TRIPLET "/libssl.so.3",
		"/usr/lib/" TRIPLET "/libdw.so.1",
		"/usr/lib/" TRIPLET "/libz.so.1",
		"/usr/lib/" TRIPLET "/libzstd.so.1",
		"/usr/lib/" TRIPLET "/libgcc_s.so.1",
		"/usr/bin/make",
		"/usr/bin/awk",
		"/usr/bin/sed",
		"/usr/bin/tar",
		"/usr/bin/cpio",
		"/usr/bin/strace",
		"/usr/bin/jq",
		"/usr/bin/xz",
		"/usr/bin/sort",
		"/usr/bin/ls",
		"/usr/bin/find",
		"/usr/bin/grep",
		"/usr/bin/gcc",
		"/usr/bin/as",
		"/usr/bin/ld",
		"/bin/busybox",
	};
	(void)state;
	memset(&sum, 0, sizeof(sum));
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		compare_file(files[i]);
	print_sum();
	assert_true(sum.files >= 20);
	assert_true(sum.compared > 200000);
	assert_int_equal(sum.unequal, 0);
	assert_int_equal(sum.refused, 0);
}

/* Every file of a tree. */
static void walk(const char *dir, int depth)
{
	char path[4096];
	struct stat st;
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (lstat(path, &st))
			continue;
		if (S_ISDIR(st.st_mode) && depth < 8)
			walk(path, depth + 1);
		else if (S_ISREG(st.st_mode))
			compare_file(path);
	}
	if (d)
		closedir(d);
}

/* What the cross compiler brings: a C library and the compilers' own. */
static void test_arm64_files(void **state)
{
	(void)state;
	memset(&sum, 0, sizeof(sum));
	walk("/usr/aarch64-linux-gnu", 0);
	if (!sum.files)
		skip();
	print_sum();
	print_rows();
	assert_true(sum.files >= 20);
	assert_true(sum.followed > 100000);
	assert_int_equal(sum.unequal, 0);
	assert_int_equal(sum.refused, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_real_files),
		cmocka_unit_test(test_arm64_files),
	};
	elf_version(EV_CURRENT);
	if (argc < 2)
		return cmocka_run_group_tests(tests, NULL, NULL);
	for (int i = 1; i < argc; i++) {
		if (!compare_file(argv[i]))
			walk(argv[i], 0);
	}
	print_sum();
	print_rows();
	return sum.unequal || sum.refused || !sum.files;
}
