/* SPDX-License-Identifier: Apache-2.0 */
/* Variables by address, in this very program: the compiler knows where they are. */
#include "elf/variable_at.h"
#include "symbols/variables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct entry {
	long before;
	int at;
};

int test_global = 7;
struct entry test_entries[3];
static long test_static = 9;
/* As C++ calls a member of a class */
int mangled __asm__("_ZN5Cache4lockE") = 3;

static int first_base(struct dl_phdr_info *info, size_t size, void *ret)
{
	(void)size;
	*(uint64_t *)ret = info->dlpi_addr;
	return 1; /* the program itself is the first */
}

static uint64_t vaddr_of(const void *p)
{
	uint64_t base = 0;
	dl_iterate_phdr(first_base, &base);
	return (uint64_t)(uintptr_t)p - base;
}

static int ask(const uint64_t *vaddr, size_t n, struct variable_name *ret)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct buf reply = BUF_INIT;
	const struct sandbox_request q = {
		.bytes = (const uint8_t *)vaddr, .len = n * sizeof(*vaddr), .fds = &fd, .n_fds = 1
	};
	int rc = variables_op(&q, &reply);
	rc = rc ? rc : variables_decode(ret, n, &reply);
	buf_fini(&reply);
	close(fd);
	return rc;
}

static void of_this_program(void **state)
{
	const uint64_t vaddr[] = { vaddr_of(&test_global),
				   vaddr_of(&test_entries[2].at),
				   vaddr_of(&test_static),
				   vaddr_of(&mangled),
				   vaddr_of((void *)(uintptr_t)ask),
				   0,
				   vaddr_of(test_entries) + sizeof(test_entries) - 1 };
	static const char *const name[] = {
		"test_global", "test_entries", "test_static", "Cache::lock", "", "", "test_entries"
	};
	struct variable_name v[7];
	(void)state;
	assert_int_equal(test_static + mangled, 12); /* they are kept */
	assert_int_equal(ask(vaddr, 7, v), 0);
	for (size_t i = 0; i < 7; i++)
		assert_string_equal(v[i].name, name[i]);
	assert_int_equal(v[0].offset, 0);
	assert_int_equal(v[0].size, sizeof(test_global));
	assert_int_equal(v[1].offset, 2 * sizeof(struct entry) + offsetof(struct entry, at));
	assert_int_equal(v[1].size, sizeof(test_entries));
	assert_int_equal(v[6].offset, sizeof(test_entries) - 1);
}

static void bad_requests(void **state)
{
	uint64_t vaddr[VARIABLES_MAX + 1] = { 0 };
	struct variable_name v[VARIABLES_MAX + 1], bad;
	struct buf reply = BUF_INIT;
	const struct sandbox_request none = { .bytes = (const uint8_t *)vaddr, .len = 8 };
	(void)state;
	assert_int_equal(ask(vaddr, 0, v), -EINVAL);
	assert_int_equal(ask(vaddr, VARIABLES_MAX + 1, v), -EINVAL);
	assert_int_equal(ask(vaddr, VARIABLES_MAX, v), 0);
	assert_int_equal(variables_op(&none, &reply), -EINVAL);
	memset(&bad, 'x', sizeof(bad)); /* a name without an end */
	assert_int_equal(buf_add(&reply, &bad, sizeof(bad)), 0);
	assert_int_equal(variables_decode(v, 1, &reply), -EBADMSG);
	assert_int_equal(variables_decode(v, 2, &reply), -EBADMSG);
	buf_fini(&reply);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(of_this_program),
					    cmocka_unit_test(bad_requests) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
