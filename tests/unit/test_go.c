/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where Go keeps a goroutine's labels, of programs built for x86-64 and arm64 from
 * tests/record/golabels.go. It is held against `go version`, the DWARF as libdw reads it, and the
 * instructions of the runtime that load g.
 */
#include "elf/go.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *dir(void)
{
	static char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = 0;
	*strrchr(path, '/') = 0;
	return path;
}

static int open_built(const char *name, char path[5000])
{
	snprintf(path, 5000, "%s/%s", dir(), name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		print_message("%s was not built: no Go, or no compiler for arm64\n", path);
		skip();
	}
	return fd;
}

static bool member_in(Dwarf_Die *type, const char *member, Dwarf_Word *ret)
{
	Dwarf_Die m;
	Dwarf_Attribute a;
	if (dwarf_child(type, &m))
		return false;
	do {
		const char *name = dwarf_diename(&m);
		if (name && !strcmp(name, member) && dwarf_attr(&m, DW_AT_data_member_location, &a))
			return !dwarf_formudata(&a, ret);
	} while (!dwarf_siblingof(&m, &m));
	return false;
}

static Dwarf_Word member_offset(int fd, const char *type, const char *member)
{
	Dwarf *d = dwarf_begin(fd, DWARF_C_READ);
	Dwarf_Off at = 0, next;
	Dwarf_Word offset = 0;
	size_t head;
	bool found = false;
	assert_non_null(d);
	while (!found && !dwarf_nextcu(d, at, &next, &head, NULL, NULL, NULL)) {
		Dwarf_Die cu, die;
		bool more = dwarf_offdie(d, at + head, &cu) && !dwarf_child(&cu, &die);
		for (; more && !found; more = !dwarf_siblingof(&die, &die)) {
			const char *name = dwarf_diename(&die);
			found = name && !strcmp(name, type) &&
				dwarf_tag(&die) == DW_TAG_structure_type &&
				member_in(&die, member, &offset);
		}
		at = next;
	}
	dwarf_end(d);
	assert_true(found);
	return offset;
}

/* What `go version FILE` says: 100 * major + minor. */
static unsigned go_version(const char *path)
{
	char command[5100], line[256] = "";
	unsigned minor = 0;
	snprintf(command, sizeof(command), "go version '%s'", path);
	FILE *f = popen(command, "r"); /* NOLINT(cert-env33-c) */
	char *at = f && fgets(line, sizeof(line), f) ? strstr(line, ": go1.") : NULL;
	if (at)
		sscanf(at, ": go1.%u", &minor);
	if (f)
		pclose(f);
	return 100 + minor;
}

static void check(const char *name, bool *ret_tls, int64_t *ret_at)
{
	char path[5000];
	struct elf_image img;
	struct elf_go_layout o;
	int fd = open_built(name, path);
	assert_int_equal(elf_image_open(&img, fd, path, NULL), 0);
	assert_int_equal(elf_go_version(&img), go_version(path));
	assert_true(elf_go_layout(elf_go_version(&img), &o));
	assert_int_equal(o.curg, member_offset(fd, "runtime.m", "curg"));
	assert_int_equal(o.labels, member_offset(fd, "runtime.g", "labels"));
	assert_int_equal(o.gopc, member_offset(fd, "runtime.g", "gopc"));
	*ret_tls = elf_go_tls(&img, ret_at);
	elf_image_fini(&img);
	close(fd);
}

static void test_amd64(void **state)
{
	bool tls;
	int64_t at = 0;
	(void)state;
	check("go.amd64", &tls, &at);
	assert_true(tls);
	assert_int_equal(at, -8); /* runtime.load_g on x86-64 is a load of %fs:-8 */
}

/* Without cgo nothing of arm64's thread-local memory is used. */
static void test_arm64(void **state)
{
	bool tls;
	int64_t at;
	(void)state;
	check("go.arm64", &tls, &at);
	assert_false(tls);
}

/*
 * With cgo: the offset is in the instructions of runtime.load_g: mrs x0, tpidr_el0; mov x27,
 * #OFFSET; ldr x28, [x0, x27]
 */
static void test_arm64_cgo(void **state)
{
	char command[5200], path[5000], line[256];
	long offset = -1;
	bool tls, of_thread = false;
	int64_t at = 0;
	(void)state;
	close(open_built("go-cgo.arm64", path));
	check("go-cgo.arm64", &tls, &at);
	assert_true(tls);
	snprintf(command, sizeof(command),
		 "aarch64-linux-gnu-objdump -d --disassemble=runtime.load_g.abi0 '%s'", path);
	FILE *f = popen(command, "r"); /* NOLINT(cert-env33-c) */
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		const char *mov = strstr(line, "mov\tx27, #");
		of_thread |= strstr(line, "tpidr_el0") != NULL;
		if (mov && offset < 0)
			offset = strtol(mov + 10, NULL, 0);
	}
	pclose(f);
	assert_true(of_thread && offset > 0);
	assert_int_equal(at, offset);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_amd64),
		cmocka_unit_test(test_arm64),
		cmocka_unit_test(test_arm64_cgo),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
