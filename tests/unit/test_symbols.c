/* SPDX-License-Identifier: Apache-2.0 */
/*
 * binary_* against nm: real binaries of this machine, a freshly compiled one, our own process, the
 * vdso.
 */
#include "nm_oracle.h"
#include "triplet.h"

#include "symbols/known.h"
#include "symbols/table.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/test_symbols.XXXXXX";

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 24;
}

static struct binary *open_binary(const char *path)
{
	struct binary *b = NULL;
	struct err err = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	int rc = binary_open(&b, fd, path, &err);
	close(fd);
	if (rc)
		assert_int_equal(rc, err.code);
	return rc ? NULL : b;
}

static int has_go_names(const char *path)
{
	char cmd[4200];
	snprintf(cmd, sizeof(cmd), "readelf -SW '%s' 2>/dev/null | grep -q gopclntab", path);
	return !system(cmd);
}

/*
 * Half of the addresses in and around symbols, half anywhere in the file. Returns how many had a
 * name, -1: no ELF.
 */
static int check_binary(const char *path, int n)
{
	struct binary *b = open_binary(path);
	struct stat st;
	uint64_t seed = 42, addr;
	int hits = 0;
	if (!b || stat(path, &st))
		return -1;
	struct truth t = truth_of(path);
	int known = !has_go_names(path); /* nm does not read those: see test_symbols_sources */
	for (size_t i = 0; i < t.n && !known; i++)
		known = !t.v[i].dynamic;
	n = known ? n : 0;
	for (int i = 0; i < n; i++) {
		if (i % 2 && t.n) {
			const struct truth_symbol *s = &t.v[next_random(&seed) % t.n];
			addr = s->addr + next_random(&seed) % (s->size + 2);
		} else {
			uint64_t offset = next_random(&seed) % (uint64_t)st.st_size, bias;
			if (binary_bias(b, offset, offset, &bias))
				continue;
			addr = offset - bias;
		}
		hits += check_addr(b, &t, path, addr);
	}
	struct err err = { 0 };
	if (binary_load(b, &err))
		fail_msg("%s: %s", path, err.text);
	truth_free(&t);
	binary_free(b);
	return hits;
}

static void test_real_binaries(void **state)
{
	(void)state;
	static const char *const always[] = {
		"/proc/self/exe",      "/lib/" TRIPLET "/libc.so.6",
		"/usr/bin/python3",    "/usr/bin/bash",
		"/usr/bin/node",       "/usr/lib/go/bin/go",
		"/usr/bin/prometheus", "/usr/lib/" TRIPLET "/libcrypto.so.3",
	};
	/* ASCRIBE_SYMBOLS_FULL (make bench-symbols): 100,000 addresses of 50 files. */
	bool full = getenv("ASCRIBE_SYMBOLS_FULL") != NULL;
	int checked = 0, hits = 0, files = full ? 50 : 40, each = full ? 4600 : 400;
	glob_t g = { 0 };
	glob("/usr/lib/*-linux-gnu/*.so.*", 0, NULL, &g);
	glob("/usr/bin/*", GLOB_APPEND, NULL, &g);
	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++) {
		char path[4096];
		int n = realpath(always[i], path) ? check_binary(path, each + 200) : -1;
		checked += n >= 0;
		hits += n > 0 ? n : 0;
	}
	for (size_t i = 0; i < g.gl_pathc && checked < files;
	     i += g.gl_pathc / (full ? 300 : 48) + 1) {
		int n = check_binary(g.gl_pathv[i], each);
		checked += full ? n > 0 : n >= 0;
		hits += n > 0 ? n : 0;
	}
	globfree(&g);
	print_message("%d binaries, %d addresses with a name\n", checked, hits);
	assert_true(checked >= 10);
	assert_true(hits >= (full ? 100000 : 1000));
}

/* ---- a program of our own, where every answer is known ---- */

static const char program[] =
	"#include <cstdio>\n#include <string>\n"
	"namespace shop { struct cart { int n; cart(int k); int total(const std::string &s) const; };\n"
	"__attribute__((noinline)) cart::cart(int k) : n(k) { puts(\"made\"); }\n"
	"__attribute__((noinline)) int cart::total(const std::string &s) const { return n + (int)s.size(); } }\n"
	"template <typename T> __attribute__((noinline)) T twice(T v) { asm volatile(\"\"); return v + v; }\n"
	"extern \"C\" { __attribute__((noinline)) int plain_name(int v) { asm volatile(\"\"); return v; }\n"
	"int __reserved(int) __attribute__((alias(\"plain_name\")));\n"
	"__attribute__((noinline)) int global_name(int v) { asm volatile(\"\"); return v + 1; }\n"
	"int weak(int) __attribute__((weak, alias(\"global_name\"))); }\n"
	"static __attribute__((noinline)) int local_one(int v) { asm volatile(\"\"); return v * 3; }\n"
	"asm(\".text\\n.p2align 4\\n.globl bare_label\\nbare_label:\\n.fill 16,1,0x90\\n\"\n"
	"    \".type outer,%function\\nouter:\\n.fill 8,1,0x90\\n\"\n"
	"    \".type inner,%function\\ninner:\\n.fill 8,1,0x90\\n.size inner,8\\n\"\n"
	"    \"hidden_label:\\n.fill 8,1,0x90\\n.size outer,24\\n\"\n"
	"    \".type unsized,%function\\nunsized:\\n.fill 16,1,0x90\\n\"\n"
	"    \".type behind,%function\\nbehind:\\n.fill 4,1,0x90\\n.size behind,4\\n.fill 12,1,0x90\\n\");\n"
	"asm(\".section .note.ascribe,\\\"a\\\",%note\\n.balign 4\\n.long 8,16,1\\n.asciz \\\"ascribe\\\"\\n.long 1,0\\n\"\n"
	"    \"1: .quad the_descriptor - 1b\\n.data\\n.globl the_descriptor\\n.balign 8\\n\"\n"
	"    \"the_descriptor: .fill 24,1,1\\n.text\\n\");\n"
	"int main(int c, char **) { shop::cart k(c); return k.total(\"x\") + twice(c) + (int)twice(1.5) + plain_name(c)"
	" + global_name(c) + local_one(c); }\n";

static char built[64];

static int setup(void **state)
{
	char cmd[256];
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(built, sizeof(built), "%s/prog", dir);
	snprintf(cmd, sizeof(cmd), "${CXX:-c++} -O1 -Wl,--build-id=sha1 -x c++ -o %s -", built);
	FILE *f = popen(cmd, "w");
	if (!f)
		return -1;
	fputs(program, f);
	/*
	 * wide holds 100 entry points, more than one block of the table, and 8 bytes behind them.
	 */
	fputs("asm(\".text\\n.type wide,%function\\nwide:\\n.fill 1,1,0x90\\n\"\n", f);
	for (int i = 0; i < 100; i++)
		fprintf(f,
			"\".type entry_%d,%%function\\nentry_%d:\\n.fill 1,1,0x90\\n.size entry_%d,1\\n\"\n",
			i, i, i);
	fputs("\".fill 8,1,0x90\\n.size wide,109\\n\");\n", f);
	return pclose(f);
}

static int teardown(void **state)
{
	char cmd[64];
	(void)state;
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

static uint64_t addr_in(const struct truth *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (!strcmp(t->v[i].name, name))
			return t->v[i].addr;
	fail_msg("nm does not know %s", name);
	return 0;
}

static void expect_name(struct binary *b, uint64_t addr, const char *name, uint64_t size)
{
	struct symbol s;
	assert_int_equal(binary_find(b, addr, &s), 0);
	assert_string_equal(s.name, name);
	assert_null(s.module);
	if (size)
		assert_int_equal(s.size, size);
}

static void test_own_program(void **state)
{
	(void)state;
	struct binary *b = open_binary(built);
	struct truth t = truth_of(built);
	struct symbol s;
	assert_non_null(b);
	assert_true(check_binary(built, 4000) > 1000);
	expect_name(b, addr_in(&t, "_ZN4shop4cartC1Ei"), "shop::cart::cart(int)", 0);
	expect_name(b, addr_in(&t, "_Z5twiceIdET_S0_") + 1, "double twice<double>(double)", 0);
	expect_name(b, addr_in(&t, "_ZL9local_onei"), "local_one(int)", 0);
	expect_name(b, addr_in(&t, "plain_name"), "plain_name", 0);   /* not __reserved */
	expect_name(b, addr_in(&t, "global_name"), "global_name", 0); /* not weak, though shorter */
	expect_name(b, addr_in(&t, "bare_label") + 15, "bare_label", 0);
	uint64_t outer = addr_in(&t, "outer");
	expect_name(b, outer + 7, "outer", 24);
	expect_name(b, outer + 8, "inner", 8);
	expect_name(b, outer + 15, "inner", 8);
	expect_name(b, outer + 16, "outer", 24); /* behind the nested one, and not hidden_label */
	expect_name(b, outer + 23, "outer", 24);
	expect_name(b, outer + 24 + 15, "unsized", 0);
	assert_int_equal(binary_find(b, outer + 24, &s), 0);
	assert_int_equal(s.size, 0);
	expect_name(b, outer + 40 + 3, "behind", 4);
	uint64_t wide = addr_in(&t, "wide");
	expect_name(b, wide, "wide", 109);
	expect_name(b, wide + 1, "entry_0", 1);
	expect_name(b, wide + 100, "entry_99", 1);
	expect_name(b, wide + 101, "wide", 109);
	expect_name(b, wide + 108, "wide", 109);
	assert_int_equal(binary_find(b, outer + 40 + 4, &s), -ENOENT);
	truth_free(&t);
	binary_free(b);
}

static void test_tags_stay(void **state)
{
	(void)state;
	struct binary *b = open_binary("/proc/self/exe");
	char path[4096];
	assert_non_null(realpath("/proc/self/exe", path));
	struct truth t = truth_of(path);
	struct symbol s;
	uint64_t **tags = calloc(t.n, sizeof(*tags));
	size_t n = 0;
	for (size_t i = 0; i < t.n; i++) {
		if (!t.v[i].is_func || binary_find(b, t.v[i].addr, &s) || *s.tag)
			continue;
		*s.tag = ++n;
		tags[n - 1] = s.tag;
	}
	assert_true(n > 50);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(*tags[i], i + 1);
	for (size_t i = 0; i < t.n; i++)
		if (t.v[i].is_func && !binary_find(b, t.v[i].addr, &s))
			assert_in_range(*s.tag, 1, n);
	assert_true(binary_memory(b) > 1000);
	free(tags);
	truth_free(&t);
	binary_free(b);
}

/* ---- notes ---- */

static void read_line(const char *cmd, char *out, size_t cap)
{
	FILE *f = popen(cmd, "r");
	assert_non_null(f);
	if (!fgets(out, (int)cap, f))
		out[0] = '\0';
	pclose(f);
	out[strcspn(out, "\n")] = '\0';
}

static void check_build_id(const char *path)
{
	char cmd[256], want[200], got[200] = "";
	const uint8_t *id = NULL;
	struct binary *b = open_binary(path);
	if (!b)
		return;
	snprintf(cmd, sizeof(cmd),
		 "LC_ALL=C readelf -n %s 2>/dev/null | sed -n 's/.*Build ID: //p'", path);
	read_line(cmd, want, sizeof(want));
	size_t n = binary_build_id(b, &id);
	for (size_t i = 0; i < n; i++)
		snprintf(got + 2 * i, 3, "%02x", id[i]);
	assert_string_equal(got, want);
	binary_free(b);
}

static void test_build_ids(void **state)
{
	(void)state;
	check_build_id(built);
	check_build_id("/lib/" TRIPLET "/libc.so.6");
	check_build_id("/usr/bin/python3");
	check_build_id("/usr/bin/node");
	check_build_id("/bin/ls");
}

/*
 * b: `built` without its names. Each address of a function leads to where nm says that it begins;
 * the start-up code of the C library has no call frame information.
 */
static void check_unnamed(struct binary *b)
{
	struct truth t = truth_of(built);
	size_t n = 0;
	for (size_t i = 0; i < t.n; i++) {
		const struct truth_symbol *f = &t.v[i];
		struct symbol first, last;
		if (!f->is_func || f->dynamic || f->size < 8 || binary_find(b, f->addr, &first))
			continue;
		if (first.start != f->addr)
			continue;
		assert_int_equal(binary_find(b, f->addr + f->size - 1, &last), 0);
		assert_string_equal(first.name, "");
		assert_int_equal(last.start, f->addr);
		assert_ptr_equal(first.tag, last.tag);
		n++;
	}
	assert_true(n >= 2);
	truth_free(&t);
}

static void test_label_note(void **state)
{
	(void)state;
	char cmd[256], want[64], cut[96];
	uint64_t vaddr = 0;
	struct binary *b = open_binary(built);
	snprintf(cmd, sizeof(cmd), "nm %s | sed -n 's/ . the_descriptor//p'", built);
	read_line(cmd, want, sizeof(want));
	assert_int_equal(binary_label_descriptor(b, &vaddr), 0);
	assert_int_equal(vaddr, strtoull(want, NULL, 16));
	binary_free(b);
	/* It must survive strip, and symbols may go missing without harm. */
	snprintf(cut, sizeof(cut), "%s.stripped", built);
	snprintf(cmd, sizeof(cmd), "strip -o %s %s", cut, built);
	assert_int_equal(system(cmd), 0);
	b = open_binary(cut);
	assert_int_equal(binary_label_descriptor(b, &vaddr), 0);
	assert_int_equal(vaddr, strtoull(want, NULL, 16));
	struct symbol s;
	assert_int_equal(binary_find(b, vaddr, &s), -ENOENT);
	assert_int_equal(binary_load(b, NULL), 0);
	check_unnamed(b);
	binary_free(b);
	b = open_binary("/bin/ls");
	vaddr = 7;
	assert_int_equal(binary_label_descriptor(b, &vaddr), -ENOENT);
	assert_int_equal(vaddr, 7);
	binary_free(b);
}

/* ---- our own process: addresses as a profiler meets them ---- */

/* The mapping of addr: its file, its start and file offset. */
static int locate(uint64_t addr, char *path, uint64_t *ret_start, uint64_t *ret_offset)
{
	char line[4600];
	FILE *f = fopen("/proc/self/maps", "r");
	int found = 0;
	while (!found && fgets(line, sizeof(line), f)) {
		unsigned long from, to, off;
		if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %4095s", &from, &to, &off, path) == 4 &&
		    addr >= from && addr < to) {
			*ret_start = from;
			*ret_offset = off;
			found = 1;
		}
	}
	fclose(f);
	return found;
}

__attribute__((noinline)) int a_function_of_this_test(int v);
int a_function_of_this_test(int v)
{
	return v + 1;
}

static void expect_own(uintptr_t function, const char *name)
{
	char path[4096];
	uint64_t start = 0, offset = 0, bias;
	assert_true(locate(function, path, &start, &offset));
	struct binary *b = open_binary(path);
	assert_non_null(b);
	assert_int_equal(binary_bias(b, start, offset, &bias), 0);
	expect_name(b, function - bias, name, 0);
	assert_int_equal(binary_bias(b, start, 1ull << 62, &bias), -ENOENT);
	binary_free(b);
}

static void test_own_process(void **state)
{
	(void)state;
	expect_own((uintptr_t)&a_function_of_this_test, "a_function_of_this_test");
	expect_own((uintptr_t)&test_own_process, "test_own_process");
	expect_own((uintptr_t)&getenv, "getenv");
}

static void test_vdso(void **state)
{
	(void)state;
	char line[512], path[96];
	const void *image = (const void *)getauxval(AT_SYSINFO_EHDR);
	unsigned long from = 0, to = 0;
	struct binary *b;
	struct err err;
	FILE *f = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof(line), f))
		if (strstr(line, "[vdso]"))
			sscanf(line, "%lx-%lx", &from, &to);
	fclose(f);
	assert_true(image && from == (unsigned long)image);
	assert_int_equal(binary_open_memory(&b, image, to - from, "[vdso]", &err), 0);
	snprintf(path, sizeof(path), "%s/vdso", dir);
	f = fopen(path, "w");
	assert_int_equal(fwrite(image, 1, to - from, f), to - from);
	fclose(f);
	struct truth t = truth_of(path);
	int hits = 0;
	for (size_t i = 0; i < t.n; i++)
		for (uint64_t k = 0; k < t.v[i].size; k++)
			hits += check_addr(b, &t, "[vdso]", t.v[i].addr + k);
	assert_true(hits > 100);
	truth_free(&t);
	binary_free(b);
}

/*
 * What was asked for is known when the table has gone: in random order, beside the table itself,
 * which is not asked where the answer is known.
 */
static void test_known(void **state)
{
	struct elf_image img;
	struct table t;
	struct known known = { 0 };
	struct cell cells[1] = { { 0 } };
	const struct elf_image *const images[] = { &img };
	unsigned n_known = 0, n_named = 0;
	uint64_t random = 1;
	(void)state;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_int_equal(elf_image_open(&img, fd, "self", NULL), 0);
	table_read(&t, images, 1, "self", NULL);
	assert_true(t.n > 100);
	uint64_t span = t.entries[t.n - 1].addr + 5000;
	for (int i = 0; i < 200000; i++) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		uint64_t vaddr = t.base - 1000 + (random >> 33) % span;
		int64_t want = table_find(&t, vaddr);
		const struct known_piece *k = known_find(&known, vaddr);
		struct known_piece piece = { .cell = want < 0 ? NULL : cells };
		n_named += want >= 0;
		if (k) {
			assert_int_equal(k->cell != NULL, want >= 0);
			assert_int_equal(k->symbol, want < 0 ? 0 : t.base + t.entries[want].addr);
			n_known++;
			continue;
		}
		piece.symbol = want < 0 ? 0 : t.base + t.entries[want].addr;
		if (!table_piece(&t, vaddr, want, &piece.start, &piece.end))
			continue;
		assert_true(piece.start <= vaddr && vaddr < piece.end);
		known_add(&known, &piece);
		assert_true(known.n == KNOWN_MAX || known_find(&known, vaddr));
	}
	assert_true(n_named > 50000 && n_known > 100000);
	assert_true(known.n > 100 && known.n <= KNOWN_MAX);
	known_fini(&known);
	table_fini(&t);
	elf_image_fini(&img);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known),	   cmocka_unit_test(test_own_program),
		cmocka_unit_test(test_tags_stay),  cmocka_unit_test(test_build_ids),
		cmocka_unit_test(test_label_note), cmocka_unit_test(test_own_process),
		cmocka_unit_test(test_vdso),	   cmocka_unit_test(test_real_binaries),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
