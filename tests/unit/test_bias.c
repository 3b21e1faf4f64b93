/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a process has moved a file, for the layouts of each linker, against what the dynamic
 * linker says (dl_iterate_phdr).
 */
#include "elf/image.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Prints the bias of the program, and the start and the file offset of the mapping of its code. */
static const char source[] =
	"#define _GNU_SOURCE\n"
	"#include <link.h>\n"
	"#include <stdio.h>\n"
	"#include <string.h>\n"
	"static int first(struct dl_phdr_info *i, size_t n, void *out)\n"
	"{ *(unsigned long *)out = i->dlpi_addr; return n > 0; }\n"
	"int main(void)\n"
	"{\n"
	"	unsigned long bias = 1, start, end, pgoff, at = (unsigned long)&main;\n"
	"	char line[5000];\n"
	"	FILE *f = fopen(\"/proc/self/maps\", \"r\");\n"
	"	dl_iterate_phdr(first, &bias);\n"
	"	while (f && fgets(line, sizeof(line), f))\n"
	"		if (sscanf(line, \"%lx-%lx %*s %lx\", &start, &end, &pgoff) == 3 && at >= "
	"start && at < end)\n"
	"			return printf(\"%lx %lx %lx\\n\", bias, start, pgoff) < 0;\n"
	"	return 1;\n"
	"}\n";

/* What must be there for it, and how it is built; the text in `source`, the program in `out`. */
static const struct {
	const char *needs, *build;
} layouts[] = {
	{ "gcc ld.bfd", "gcc -fuse-ld=bfd" },
	{ "gcc ld.bfd", "gcc -fuse-ld=bfd -no-pie -Wl,-z,noseparate-code" },
	{ "gcc ld.bfd", "gcc -fuse-ld=bfd -Wl,-z,max-page-size=0x200000" },
	{ "gcc ld.gold", "gcc -fuse-ld=gold" },
	{ "gcc ld.lld", "gcc -fuse-ld=lld" },
	{ "gcc ld.lld", "gcc -fuse-ld=lld -no-pie" },
	{ "gcc ld.lld", "gcc -fuse-ld=lld -Wl,-z,separate-code" },
	{ "gcc ld.lld", "gcc -fuse-ld=lld -Wl,-z,separate-loadable-segments" },
	{ "gcc ld.lld", "gcc -fuse-ld=lld -Wl,-z,max-page-size=0x10000" },
	{ "gcc ld.lld", "gcc -fuse-ld=lld -Wl,--no-rosegment" },
	{ "clang ld.lld", "clang -fuse-ld=lld -flto=thin" },
	{ "gcc ld.mold", "gcc -fuse-ld=mold" },
};

#define N_LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

static char dir[] = "/tmp/test_bias.XXXXXX";

static int run(const char *format, const char *argument)
{
	char command[512];
	snprintf(command, sizeof(command), format, argument, dir);
	return system(command);
}

static bool has(const char *programs)
{
	return !run("for p in %s; do command -v $p >/dev/null || exit 1; done", programs);
}

static int setup(void **state)
{
	char path[64];
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/source.c", dir);
	FILE *f = fopen(path, "w");
	return !f || fputs(source, f) < 0 || fclose(f) ? -1 : 0;
}

static int teardown(void **state)
{
	(void)state;
	return run("rm -rf %s%s", "");
}

struct truth {
	uint64_t bias, start, pgoff;
};

static void build_and_run(const char *build, struct elf_image *img, struct truth *ret)
{
	char path[64];
	struct err err;
	snprintf(path, sizeof(path), "%s/out", dir);
	if (run("cd %2$s && %1$s -O1 -o out source.c", build))
		fail_msg("%s failed", build);
	FILE *f = popen(path, "re");
	assert_int_equal(
		fscanf(f, "%" SCNx64 "%" SCNx64 "%" SCNx64, &ret->bias, &ret->start, &ret->pgoff),
		3);
	assert_int_equal(pclose(f), 0);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(elf_image_open(img, fd, path, &err), 0);
	close(fd);
}

/* Does the mapping begin with bytes of the segment before its own? Then its file offset alone does
 * not say which one it is. */
static bool begins_inside_a_page(const struct elf_image *img, uint64_t pgoff)
{
	for (size_t i = 0; i < img->n_loads; i++) {
		const struct elf_segment *s = &img->loads[i];
		if (!(s->flags & PF_X) && pgoff >= s->offset && pgoff - s->offset < s->filesz)
			return true;
	}
	return false;
}

static void test_layouts(void **state)
{
	int inside = 0, tried = 0;
	(void)state;
	for (size_t i = 0; i < N_LAYOUTS; i++) {
		struct elf_image img;
		struct truth t;
		uint64_t bias = 0;
		if (!has(layouts[i].needs)) {
			print_message("%s: not here\n", layouts[i].needs);
			assert_null(getenv("CI"));
			continue;
		}
		build_and_run(layouts[i].build, &img, &t);
		int rc = elf_image_bias(&img, t.start, t.pgoff, &bias);
		bool shares = begins_inside_a_page(&img, t.pgoff);
		print_message("%s: moved by %#" PRIx64 ", found %#" PRIx64 "%s\n", layouts[i].build,
			      t.bias, bias, shares ? " (shares a page)" : "");
		assert_int_equal(rc, 0);
		assert_int_equal(bias, t.bias);
		assert_int_equal(elf_image_bias(&img, t.start, 1ull << 62, &bias), -ENOENT);
		elf_image_fini(&img);
		inside += shares;
		tried++;
	}
	if (!tried)
		skip();				   /* no compiler here */
	assert_true(inside > 0 || !has("ld.lld")); /* else this tests nothing */
}

/* A segment that shares its first page with the one before it, on whatever page size this machine
 * has. */
static void test_ranges(void **state)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), bias;
	struct elf_segment loads[] = {
		{ .offset = 0,
		  .filesz = 4 * page + 16,
		  .vaddr = 0,
		  .memsz = 4 * page + 16,
		  .flags = PF_R },
		{ .offset = 4 * page + 16,
		  .filesz = 3 * page,
		  .vaddr = 5 * page + 16,
		  .memsz = 3 * page,
		  .flags = PF_R | PF_X },
		{ .offset = 7 * page + 16,
		  .filesz = page,
		  .vaddr = 9 * page + 16,
		  .memsz = page,
		  .flags = PF_R | PF_W },
		{ .offset = 8 * page + 16,
		  .filesz = page,
		  .vaddr = 11 * page + 16,
		  .memsz = page,
		  .flags = PF_R | PF_W | PF_X },
	};
	struct elf_image img = { .fd = -1, .loads = loads, .n_loads = 4 };
	const struct {
		uint64_t pgoff, vaddr;
	} mapped[] = {
		{ 4 * page, 5 * page }, /* the code, not the end of what stands before it */
		{ 6 * page, 7 * page }, /* a part of it */
		{ 7 * page, 8 * page }, /* its last page, which the data begins in */
		{ 8 * page, 11 * page },
		{ page, page }, /* not code, yet executable: a stack that is executable makes all of
				   it so */
	};
	(void)state;
	for (size_t i = 0; i < sizeof(mapped) / sizeof(mapped[0]); i++) {
		assert_int_equal(elf_image_bias(&img, 1ull << 40, mapped[i].pgoff, &bias), 0);
		assert_int_equal((1ull << 40) - bias, mapped[i].vaddr);
	}
	assert_int_equal(elf_image_bias(&img, 1ull << 40, 10 * page, &bias), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_layouts),
					    cmocka_unit_test(test_ranges) };
	return cmocka_run_group_tests(tests, setup, teardown);
}
