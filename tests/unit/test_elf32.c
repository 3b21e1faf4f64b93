/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names, build id and separate debug file of a 32-bit library, against nm and readelf; and such
 * files damaged. Meant to run under AddressSanitizer and UBSan too.
 */
#include "symbols/symbols.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FUNCTIONS 40

static char dir[] = "/tmp/test_elf32.XXXXXX";

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
	snprintf(path, sizeof(path), "%s/code.c", dir);
	FILE *f = fopen(path, "w");
	if (!f)
		return -1;
	for (int i = 0; i < FUNCTIONS; i++)
		fprintf(f,
			"int global_%d(int v) { return v * %d; }\nstatic int __attribute__((used)) "
			"local_%d(void) { return %d; }\n",
			i, i + 3, i, i);
	fclose(f);
	return run("clang -m32 -O1 -g -shared -fPIC -nostdlib -fuse-ld=lld -Wl,--build-id=sha1 "
		   "-o small.so code.c && "
		   "objcopy --only-keep-debug small.so small.debug && objcopy -S small.so "
		   "stripped.so");
}

static int teardown(void **state)
{
	(void)state;
	return run("rm -rf %s", dir);
}

static int open_named(const char *name, struct binary **ret)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	int rc = binary_open(ret, fd, path, NULL);
	close(fd);
	return rc;
}

/* Every function that nm has is found, from its first byte to its last. */
static void expect_names(struct binary *b, const char *file, const char *dynamic, int want)
{
	char command[256], name[64];
	uint64_t addr, size;
	struct symbol s;
	int n = 0;
	snprintf(command, sizeof(command), "nm -S --defined-only %s %s/%s | sed -n 's/ [tT] / /p'",
		 dynamic, dir, file);
	FILE *f = popen(command, "re");
	while (fscanf(f, "%" SCNx64 "%" SCNx64 "%63s", &addr, &size, name) == 3) {
		assert_int_equal(binary_find(b, addr, &s), 0);
		assert_string_equal(s.name, name);
		assert_true(s.start == addr && s.size == size);
		assert_int_equal(binary_find(b, addr + size - 1, &s), 0);
		assert_string_equal(s.name, name);
		n++;
	}
	pclose(f);
	assert_int_equal(n, want);
}

static void test_names(void **state)
{
	struct binary *b;
	(void)state;
	assert_int_equal(open_named("small.so", &b), 0);
	expect_names(b, "small.so", "", 2 * FUNCTIONS);
	assert_false(binary_refused(b));
	binary_free(b);
}

static void test_build_id(void **state)
{
	char command[128], want[64] = "", got[64] = "";
	const uint8_t *id;
	struct binary *b;
	(void)state;
	assert_int_equal(open_named("small.so", &b), 0);
	for (size_t i = 0, n = binary_build_id(b, &id); i < n && i < 30; i++)
		sprintf(got + 2 * i, "%02x", id[i]);
	binary_free(b);
	snprintf(command, sizeof(command), "readelf -n %s/small.so | sed -n 's/.*Build ID: //p'",
		 dir);
	FILE *f = popen(command, "re");
	assert_int_equal(fscanf(f, "%63s", want), 1);
	pclose(f);
	assert_string_equal(got, want);
}

static void test_debug_file(void **state)
{
	char path[128];
	struct binary *b;
	(void)state;
	assert_int_equal(open_named("stripped.so", &b), 0);
	assert_true(binary_wants_debug(b));
	assert_false(binary_has_lines(b));
	snprintf(path, sizeof(path), "%s/small.debug", dir);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(binary_offer_debug(b, fd, NULL), 0);
	close(fd);
	expect_names(b, "small.so", "", 2 * FUNCTIONS);
	assert_true(binary_has_lines(b));
	binary_free(b);
	assert_int_equal(open_named("stripped.so", &b), 0);
	expect_names(b, "small.so", "-D", FUNCTIONS);
	binary_free(b);
}

/* Open, ask, close: whatever the bytes are. */
static int try(const uint8_t *bytes, size_t size)
{
	struct binary *b = NULL;
	struct symbol s;
	uint64_t bias;
	int found = 0;
	if (binary_open_memory(&b, bytes, size, "image", NULL))
		return -1;
	for (uint64_t at = 0; at < size; at += 16)
		if (!binary_bias(b, at, at, &bias) && !binary_find(b, at - bias, &s))
			found = 1;
	binary_free(b);
	return found;
}

static void test_damage(void **state)
{
	char path[128];
	struct stat st;
	uint64_t seed = 32;
	int opened = 0, named = 0;
	(void)state;
	snprintf(path, sizeof(path), "%s/small.so", dir);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	size_t size = (size_t)st.st_size;
	uint8_t *good = malloc(size), *bad = malloc(size);
	assert_int_equal(pread(fd, good, size, 0), size);
	close(fd);
	assert_int_equal(try(good, size), 1);
	for (size_t n = size; n-- > 0;)
		if (n < 512 || n % 61 == 0)
			assert_int_equal(try(good, n), -1); /* the section headers stand last */
	for (int i = 0; i < 3000; i++) {
		memcpy(bad, good, size);
		for (int k = 0; k < 3; k++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			size_t headers = 52 + 10 * 32, tail = 40 * 30, at = (size_t)(seed >> 33);
			at = k == 0 ? at % headers : k == 1 ? size - 1 - at % tail : at % size;
			bad[at] = seed >> 20 & 1 ? (uint8_t)(seed >> 24)
						 : (uint8_t)-(int)(seed >> 21 & 1);
		}
		int rc = try(bad, size);
		opened += rc >= 0;
		named += rc > 0;
	}
	free(good);
	free(bad);
	print_message("%d of 3000 damaged files opened, %d with names\n", opened, named);
	assert_in_range(opened, 100, 2990);
	assert_in_range(named, 50, opened);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_build_id),
		cmocka_unit_test(test_debug_file),
		cmocka_unit_test(test_damage),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
