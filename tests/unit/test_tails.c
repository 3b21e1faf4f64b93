/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that a stripped file does not name, by what ends in them. Programs are built by cc, so
 * who jumps where is known; the truth about the C library that is here is objdump's.
 */
#include "symbols/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[] = "/tmp/ascribe-tails-XXXXXX";

/*
 * A static function is what its name says. `far` ones are out of reach of a short jump. Nothing may
 * be inlined or cloned, and calls in tail position are jumps.
 */
static const char program[] =
	"#define S static __attribute__((noinline, noclone, used)) long\n"
	"#define X __attribute__((visibility(\"default\"), noinline)) long\n"
	"#define W(n) asm volatile(\".rept 60\\n\\tnop\\n\\tnop\\n\\tnop\\n\\t.endr\" : : \"r\"(n))\n"
	"S of_one(long v) { W(v); return v * 3; }\n"
	"S of_two(long v) { W(v); return v * 5; }\n"
	"S called_too(long v) { W(v); return v * 7; }\n"
	"S only_called(long v) { W(v); return v * 11; }\n"
	"S in_data(long v) { W(v); return v * 13; }\n"
	"S taken(long v) { W(v); return v * 17; }\n"
	"S last_of_chain(long v) { W(v); return v * 19; }\n"
	"S first_of_chain(long v) { W(v); return last_of_chain(v ^ 5); }\n"
	"S of_four(long v) { W(v); return v * 23; }\n"
	"S of_unnamed(long v) { W(v); return v * 29; }\n"
	"S not_named(long v) { W(v); return of_unnamed(v - 1); }\n"
	"S near(long v) { return v * 31; }\n"
	"X one(long v) { return v & 1 ? of_one(v) : v; }\n"
	"X two_a(long v) { return of_two(v + 1); }\n"
	"X near_a(long v) { return near(v + 2); }\n"
	"X two_b(long v) { return of_two(v + 2); }\n"
	"X jumps(long v) { return called_too(v); }\n"
	"X calls(long v) { return called_too(v) + only_called(v) + not_named(v); }\n"
	"long (*table[])(long) = { in_data };\n"
	"X data(long v) { return in_data(v); }\n"
	"X address(long v, long (**to)(long)) { *to = taken; return taken(v); }\n"
	"X chain(long v) { return first_of_chain(v); }\n"
	"X four_a(long v) { return of_four(v + 1); }\n"
	"X four_b(long v) { return of_four(v + 2); }\n"
	"X four_c(long v) { return of_four(v + 3); }\n"
	"X four_d(long v) { return of_four(v + 4); }\n"
	"int main(void) { return 0; }\n";

static const struct {
	const char *function, *name;
} wanted[] = { { "of_one", "one" },
	       { "of_two", "two_a|two_b" },
	       { "called_too", "" },
	       { "only_called", "" },
	       { "in_data", "" },
	       { "taken", "" },
	       { "last_of_chain", "chain" },
	       { "first_of_chain", "chain" },
	       { "of_four", "" },
	       { "of_unnamed", "" },
	       { "not_named", "" },
	       { "near", "near_a" } };
#define WANTED (sizeof(wanted) / sizeof(wanted[0]))

static int run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int run(const char *fmt, ...)
{
	char cmd[4096];
	va_list ap;
	va_start(ap, fmt);
	int n = snprintf(cmd, sizeof(cmd), "cd %s && ", dir);
	vsnprintf(cmd + n, sizeof(cmd) - (size_t)n, fmt, ap);
	va_end(ap);
	return system(cmd);
}

static int setup(void **state)
{
	char path[128];
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/p.c", dir);
	FILE *f = fopen(path, "w");
	if (!f || fputs(program, f) < 0 || fclose(f))
		return -1;
	return run(
		"${CC:-cc} -O2 -fno-toplevel-reorder -fvisibility=hidden -fPIC -shared -w -o full p.c && "
		"strip -o bare full && nm full >truth");
}

static int teardown(void **state)
{
	(void)state;
	return run("rm -rf %s", dir);
}

static void read_table_of(const char *name, struct table *ret)
{
	char path[256];
	struct elf_image img;
	const struct elf_image *images[] = { &img };
	struct err err = { 0 };
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(elf_image_open(&img, fd, name, &err), 0);
	assert_int_equal(table_read(ret, images, 1, name, &err), 0);
	elf_image_fini(&img);
	close(fd);
}

static uint64_t address_of(const char *function)
{
	char path[256], line[512], name[400], type;
	unsigned long addr, found = 0;
	snprintf(path, sizeof(path), "%s/truth", dir);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx %c %399s", &addr, &type, name) == 3 &&
		    !strcmp(name, function))
			found = addr;
	fclose(f);
	assert_true(found);
	return found;
}

/* Each function by who jumps to it; with a name of its own where the file has that. */
static void names(void **state)
{
	struct table bare, full;
	(void)state;
	read_table_of("bare", &bare);
	read_table_of("full", &full);
	for (size_t i = 0; i < WANTED; i++) {
		uint64_t at = address_of(wanted[i].function);
		int64_t in_bare = table_find(&bare, at + 3), in_full = table_find(&full, at + 3);
		assert_true(in_bare >= 0 && in_full >= 0);
		const struct table_entry *e = &bare.entries[in_bare];
		assert_int_equal(bare.base + e->addr, at);
		if (strcmp(bare.names + e->name, wanted[i].name) != 0)
			fail_msg("%s is \"%s\", not \"%s\"", wanted[i].function,
				 bare.names + e->name, wanted[i].name);
		assert_string_equal(full.names + full.entries[in_full].name, wanted[i].function);
	}
	table_fini(&bare);
	table_fini(&full);
}

/* A program that is linked to its place has addresses of 32 bits in its code. */
static void absolute(void **state)
{
	struct table t;
	(void)state;
	assert_int_equal(
		run("${CC:-cc} -O2 -fno-pie -no-pie -fno-toplevel-reorder -rdynamic -w -o full p.c && "
		    "strip -o bare full && nm full >truth"),
		0);
	read_table_of("bare", &t);
	int64_t i = table_find(&t, address_of("taken"));
	assert_true(i >= 0);
	assert_string_equal(t.names + t.entries[i].name, "");
	i = table_find(&t, address_of("of_two"));
	assert_true(i >= 0);
	assert_string_equal(t.names + t.entries[i].name, "two_a|two_b");
	table_fini(&t);
}

int main(void)
{
#ifndef __x86_64__
	return 77; /* the code that is read is x86-64's */
#endif
	const struct CMUnitTest tests[] = { cmocka_unit_test(names), cmocka_unit_test(absolute) };
	return cmocka_run_group_tests(tests, setup, teardown);
}
