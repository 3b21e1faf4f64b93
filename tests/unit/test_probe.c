/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events in the code of programs: their text, and the places that they have in files, against what
 * readelf and nm say. Files that lie or are cut give an error. Meant to run under AddressSanitizer,
 * too.
 */
#include "sampler/probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void test_text(void **state)
{
	struct probe_spec p;
	struct err err;
	(void)state;
	assert_int_equal(probe_parse(&p, "uprobe:/a:b/c:f+0x10", &err), 0);
	assert_string_equal(p.file, "/a:b/c");
	assert_string_equal(p.name, "f");
	assert_int_equal(p.offset, 16);
	assert_int_equal(p.kind, PROBE_FUNCTION);
	assert_int_equal(probe_parse(&p, "uretprobe:/a:b/c:f", &err), 0);
	assert_string_equal(p.file, "/a:b/c");
	assert_string_equal(p.name, "f");
	assert_int_equal(p.kind, PROBE_CALLS);
	assert_int_equal(probe_parse(&p, "uprobe:./x:main.(*T).f", &err), 0);
	assert_string_equal(p.name, "main.(*T).f");
	assert_int_equal(p.offset, 0);
	assert_int_equal(probe_parse(&p, "uprobe:/a:b/c:a::B::f(c::D)+4", &err), 0);
	assert_string_equal(p.file, "/a:b/c");
	assert_string_equal(p.name, "a::B::f(c::D)");
	assert_int_equal(p.offset, 4);
	assert_int_equal(probe_parse(&p, "uprobe:/c:a::B::operator+=(a::B)", &err), 0);
	assert_string_equal(p.file, "/c");
	assert_string_equal(p.name, "a::B::operator+=(a::B)");
	assert_int_equal(p.offset, 0);
	assert_int_equal(probe_parse(&p, "uprobe:/c:a::operator=(a::B):arg2=bytes:arg1=int", &err),
			 0);
	assert_string_equal(p.name, "a::operator=(a::B)");
	assert_int_equal(p.value.arg, 2);
	assert_int_equal(p.n_labels, 1);
	assert_string_equal(probe_symbol("uretprobe:/a:b/c:a::B::f"), "a::B::f");
	assert_string_equal(probe_symbol("uretprobe:/c:f"), "f");
	assert_int_equal(probe_parse(&p, "usdt:/bin/x:one:two__start", &err), 0);
	assert_string_equal(p.file, "/bin/x");
	assert_string_equal(p.provider, "one");
	assert_string_equal(p.name, "two__start");
	assert_int_equal(p.kind, PROBE_STATIC);
	assert_true(probe_is("usdt:x") && probe_is("uretprobe:x") && !probe_is("sched:uprobe"));
	static const char *const bad[] = { "uprobe:",
					   "uprobe:/x",
					   "uprobe:x:f",
					   "uprobe:/x:",
					   "uprobe::f",
					   "uprobe:/x:f+",
					   "uprobe:/x:f+-1",
					   "uprobe:/x:f+1z",
					   "uprobe:/x:+1",
					   "usdt:/x:f",
					   "usdt:/x::f",
					   "usdt:/x:p:",
					   "usdt::p:f",
					   "usdt:x:p:f",
					   "uretprobe:/x:f+4",
					   "uprobe:/x:f+4:arg1=bytes",
					   "uprobe:/x:f:arg0=bytes",
					   "uprobe:/x:f:arg1=",
					   "uprobe:/x:f:arg12=bytes",
					   "uprobe:/x:f:arg1=bytes:",
					   "uprobe:/x:f:arg1=bytes:arg2=count",
					   "uprobe:/x:f:arg1=label:arg1=text",
					   "uprobe:/x:f:arg1=label:arg2=int:arg3=text",
					   "uprobe:/x:f:arg1=label:",
					   "uprobe:/x:f:arg1=label::arg2=int",
					   "uprobe:/x:f:arg1=Bytes",
					   "uprobe:/x:arg1=bytes" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (probe_parse(&p, bad[i], &err) != -EINVAL)
			fail_msg("%s is accepted", bad[i]);
}

/* As a worker does. *ret_n places. */
static int places(const char *event, int fd, struct probe_place *ret, uint64_t *ret_n)
{
	struct probe_spec p;
	struct buf out = BUF_INIT;
	assert_int_equal(probe_parse(&p, event, NULL), 0);
	const struct sandbox_request q = { (const uint8_t *)&p, sizeof(p), &fd, 1 };
	int rc = probe_op(&q, &out);
	if (!rc) {
		memcpy(ret_n, out.data, sizeof(*ret_n));
		memcpy(ret, out.data + out.len - PROBE_PLACES_MAX * sizeof(*ret),
		       *ret_n * sizeof(*ret));
		rc = *ret_n ? 0 : -ENOENT;
	}
	buf_fini(&out);
	return rc;
}

static int places_of(const char *event, const char *path, struct probe_place *ret, uint64_t *ret_n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	int rc = places(event, fd, ret, ret_n);
	close(fd);
	return rc;
}

__attribute__((noinline)) int probed_here(int v);
int probed_here(int v)
{
	__asm__ volatile("" : "+r"(v));
	return 3 * v + 41;
}

/* Functions of C++: two of one name, and a part of one. */
__attribute__((noinline)) int get_int(int v) __asm__("_ZN5store5Cache3getEi");
__attribute__((noinline)) int get_long(int v) __asm__("_ZN5store5Cache3getEl");
__attribute__((noinline)) int get_cold(int v) __asm__("_ZN5store5Cache3getEi.cold");
__attribute__((noinline)) int assign(int v) __asm__("_ZN5store5CacheaSERKS0_");
int get_int(int v)
{
	__asm__ volatile("" : "+r"(v));
	return 5 * v + 1;
}
int get_long(int v)
{
	__asm__ volatile("" : "+r"(v));
	return 6 * v + 2;
}
int get_cold(int v)
{
	__asm__ volatile("" : "+r"(v));
	return 7 * v + 3;
}
int assign(int v)
{
	__asm__ volatile("" : "+r"(v));
	return 9 * v + 4;
}

/* Whether one of the n places has the bytes of this function. */
static bool is_among(int (*function)(int), const struct probe_place *at, uint64_t n)
{
	uint8_t bytes[8];
	bool found = false;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	for (uint64_t i = 0; i < n; i++)
		found |= pread(fd, bytes, sizeof(bytes), (off_t)at[i].offset) == sizeof(bytes) &&
			 !memcmp(bytes, (const uint8_t *)(uintptr_t)function, sizeof(bytes));
	close(fd);
	return found;
}

/* By the names that reports show. */
static void test_shown_names(void **state)
{
	static const char self[] = "/proc/self/exe";
	struct probe_place at[PROBE_PLACES_MAX];
	uint64_t n = 0;
	(void)state;
	assert_int_equal(get_int(1) + get_long(1) + get_cold(1) + assign(1), 37);
	assert_int_equal(places_of("uprobe:/x:store::Cache::get(int)", self, at, &n), 0);
	assert_int_equal(n, 1);
	assert_true(is_among(get_int, at, n));
	assert_int_equal(places_of("uprobe:/x:store::Cache::get", self, at, &n), 0);
	assert_int_equal(n, 2);
	assert_true(is_among(get_int, at, n) && is_among(get_long, at, n));
	assert_int_equal(places_of("uprobe:/x:_ZN5store5Cache3getEl", self, at, &n), 0);
	assert_int_equal(n, 1);
	assert_true(is_among(get_long, at, n));
	assert_int_equal(
		places_of("uprobe:/x:store::Cache::operator=(store::Cache const&)", self, at, &n),
		0);
	assert_int_equal(n, 1);
	assert_true(is_among(assign, at, n));
	assert_int_equal(places_of("uprobe:/x:Cache::get", self, at, &n), -ENOENT);
	assert_int_equal(places_of("uprobe:/x:store::Cache::get(char)", self, at, &n), -ENOENT);
}

/* The bytes at the place in the file are those of the function in memory. */
static void test_function(void **state)
{
	struct probe_place at[PROBE_PLACES_MAX];
	uint64_t n = 0;
	uint8_t bytes[8];
	(void)state;
	assert_int_equal(probed_here(1), 44);
	assert_int_equal(places_of("uprobe:/x:probed_here", "/proc/self/exe", at, &n), 0);
	assert_int_equal(n, 1);
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, bytes, sizeof(bytes), (off_t)at[0].offset), sizeof(bytes));
	close(fd);
	assert_memory_equal(bytes, (const uint8_t *)(uintptr_t)probed_here, sizeof(bytes));
	assert_int_equal(places_of("uprobe:/x:no_such_function", "/proc/self/exe", at, &n),
			 -ENOENT);
	assert_int_equal(places_of("uprobe:/x:probed_here+99999", "/proc/self/exe", at, &n),
			 -ERANGE);
	assert_int_equal(places_of("usdt:/x:no:probe", "/proc/self/exe", at, &n), -ENOENT);
}

/* Places within a function are those where objdump has an instruction, and no other. */
static void test_instructions(void **state)
{
	struct probe_place at[PROBE_PLACES_MAX];
	uint64_t n = 0, first = 0, vaddr, offset = 1;
	char event[64];
	(void)state;
	FILE *f = popen("objdump -d --disassemble=test_function /proc/$PPID/exe | awk '$1 ~ "
			"/^[0-9a-f]+:$/ && /\t.*\t/ { print $1 }'",
			"r");
	while (fscanf(f, "%" SCNx64 ":", &vaddr) == 1) {
		first = first ? first : vaddr;
		for (; offset <= vaddr - first; offset++) {
			snprintf(event, sizeof(event), "uprobe:/x:test_function+%" PRIu64, offset);
			if (places_of(event, "/proc/self/exe", at, &n) !=
			    (offset == vaddr - first ? 0 : -EILSEQ))
				fail_msg("%s, where an instruction is at %" PRIx64, event, vaddr);
		}
	}
	pclose(f);
	assert_true(offset > 100);
}

static const char *libc_path(void)
{
	static Dl_info info;
	assert_true(dladdr((void *)(uintptr_t)gnu_get_libc_version, &info));
	return info.dli_fname;
}

/* Several functions have the name of one symbol in several versions. */
static void test_versions(void **state)
{
	struct probe_place at[PROBE_PLACES_MAX];
	uint64_t n = 0;
	char cmd[512];
	unsigned long want = 0;
	(void)state;
	snprintf(cmd, sizeof(cmd),
		 "nm -D %s | awk '$3 ~ /^regexec@/ { print $1 }' | sort -u | wc -l", libc_path());
	FILE *f = popen(cmd, "r");
	assert_int_equal(fscanf(f, "%lu", &want), 1);
	pclose(f);
	assert_int_equal(places_of("uprobe:/x:regexec", libc_path(), at, &n), 0);
	assert_int_equal(n, want);
}

/* Each static probe of a file that readelf lists, at as many places as it says. */
static void compare(const char *path)
{
	struct probe_place at[PROBE_PLACES_MAX];
	char cmd[512], provider[100], name[100], event[300];
	unsigned long want;
	int n_probes = 0;
	snprintf(cmd, sizeof(cmd),
		 "readelf -n %s 2>/dev/null | awk '$1 == \"Provider:\" { p = $2 } $1 == \"Name:\" "
		 "{ n[p \" \" $2]++ } END { for (k in n) print k, n[k] }'",
		 path);
	FILE *f = popen(cmd, "r");
	while (fscanf(f, "%99s %99s %lu", provider, name, &want) == 3) {
		uint64_t n = 0;
		snprintf(event, sizeof(event), "usdt:/x:%s:%s", provider, name);
		int rc = places_of(event, path, at, &n);
		if (want <= PROBE_PLACES_MAX ? rc || n != want : rc != -E2BIG)
			fail_msg("%s %s: %d, %llu places, %lu by readelf", path, event, rc,
				 (unsigned long long)n, want);
		n_probes++;
	}
	pclose(f);
	printf("%s: %d static probes\n", path, n_probes);
}

static const char *const probed[] = { "/usr/bin/python3.11", "/usr/bin/python3",
				      "/usr/lib/postgresql/15/bin/postgres" };
#define N_PROBED (sizeof(probed) / sizeof(probed[0]))

static void test_static(void **state)
{
	(void)state;
	compare(libc_path());
	for (size_t i = 0; i < N_PROBED; i++)
		if (!access(probed[i], R_OK))
			compare(probed[i]);
}

/* Of a file with probes, if this host has one. */
static const char *probed_file(void)
{
	for (size_t i = 0; i < N_PROBED; i++)
		if (!access(probed[i], R_OK))
			return probed[i];
	return NULL;
}

/* Cut anywhere, and with each byte of its notes changed: an error, or some places. */
static void test_damaged(void **state)
{
	static const uint8_t changes[] = { 0, 1, 0x7f, 0x80, 0xff };
	static const char event[] = "usdt:/x:python:gc__start";
	struct probe_place at[PROBE_PLACES_MAX];
	char own[300];
	uint64_t n;
	(void)state;
	if (!probed_file()) {
		puts("no file with static probes here");
		skip();
	}
	int from = open(probed_file(), O_RDONLY | O_CLOEXEC), fd = memfd_create("damaged", 0);
	off_t size = lseek(from, 0, SEEK_END);
	uint8_t *bytes = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, from, 0);
	assert_true(bytes != MAP_FAILED && fd >= 0);
	assert_int_equal(write(fd, bytes, (size_t)size), size);
	const uint8_t *notes = memmem(bytes, (size_t)size, "stapsdt", 8);
	assert_non_null(notes);
	for (off_t i = notes - bytes - 12; i < notes - bytes + 200; i++)
		for (size_t k = 0; k < sizeof(changes); k++) {
			assert_int_equal(pwrite(fd, &changes[k], 1, i), 1);
			places(event, fd, at, &n);
			assert_int_equal(pwrite(fd, bytes + i, 1, i), 1);
		}
	/* A semaphore where its code is: the kernel counts there. */
	const off_t note = notes - bytes + 8;
	assert_int_equal(pwrite(fd, bytes + note, 8, note + 16), 8);
	snprintf(own, sizeof(own), "usdt:/x:%s:%s", bytes + note + 24,
		 bytes + note + 25 + strlen((const char *)bytes + note + 24));
	assert_int_equal(places(own, fd, at, &n), -EBADMSG);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(ftruncate(fd, size - size * i / 100), 0);
		places(event, fd, at, &n);
		places("uprobe:/x:main", fd, at, &n);
	}
	munmap(bytes, (size_t)size);
	close(from);
	close(fd);
}

/* Return the argument's parts as one text: kind, size, base, offset, index. */
static const char *argument(const char *note, unsigned n)
{
	static char text[100];
	struct probe_argument c = { 0 };
	int rc = probe_arg_of_note(note, n, &c);
	if (rc)
		return rc == -ERANGE ? "none" : "refused";
	assert_true(probe_arg_is_sound(&c));
	snprintf(text, sizeof(text), "%d %s%d %d%+d %d", c.arg, c.is_signed ? "-" : "", 1 << c.size,
		 c.base, c.offset, c.indexed ? c.index << c.scale : -1);
	return text;
}

static void test_arguments(void **state)
{
	(void)state;
#if defined(__x86_64__)
	/* Words of struct pt_regs: r15 0, rbp 4, rbx 5, rax 10, rdi 14, rsp 19. */
	static const char note[] = "8@%rdi -4@%eax 2@%bx 1@%r15b 4@$5 -4@$-1 8@(%rsp) -8@-16(%rbp) "
				   "4@0x20(%rax,%rbx,8) 8@(%rax,%r15)  8@8(%rax,%rdi,2)";
	static const char *const want[] = { "1 8 14+0 -1", "1 -4 10+0 -1", "1 2 5+0 -1",
					    "1 1 0+0 -1",  "3 4 0+5 -1",   "3 -4 0-1 -1",
					    "2 8 19+0 -1", "2 -8 4-16 -1", "2 4 10+32 40",
					    "2 8 10+0 0",  "2 8 10+8 28",  "none" };
	for (unsigned i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		assert_string_equal(argument(note, i + 1), want[i]);
	assert_string_equal(argument("", 1), "none");
	static const char *const bad[] = {
		"8@",
		"8",
		"@%rdi",
		"3@%rdi",
		"-0@%rdi",
		"16@%rdi",
		"8@%ah",
		"8@%xmm0",
		"8f@%xmm0",
		"8@%rip",
		"8@4(%rip)",
		"8@name(%rip)",
		"8@(%rax,%rbx,3)",
		"8@(%rax,%rbx,-1)",
		"8@(,%rax,8)",
		"8@(%rax",
		"8@%rdi)",
		"4@$",
		"4@$99999999999",
		"8@9999999999(%rax)",
		"4@$5x",
		"8@%rdi%rsi",
		"-8@--16(%rbp)",
		"8@1+2(%rbp)",
		"8@0000000000000000000000000000000000000000000000000000000000000008(%rbp)"
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (strcmp(argument(bad[i], 1), "refused") != 0)
			fail_msg("%s is accepted", bad[i]);
	struct probe_argument forged = { .arg = ARG_REGISTER, .base = 15 }; /* orig_rax */
	assert_false(probe_arg_is_sound(&forged));
	forged =
		(struct probe_argument){ .arg = ARG_MEMORY, .base = 10, .indexed = 1, .index = 30 };
	assert_false(probe_arg_is_sound(&forged));
#endif
	struct probe_spec p;
	assert_int_equal(probe_parse(&p, "usdt:/bin/x:one:two:arg2=bytes", NULL), 0);
	assert_string_equal(p.name, "two");
	assert_int_equal(p.value.arg, 2);
	assert_string_equal(probe_unit(&p), "bytes");
	assert_int_equal(probe_parse(&p, "uprobe:/bin/x:f:arg1=ns", NULL), 0);
	assert_string_equal(probe_unit(&p), "nanoseconds");
	const char *many = "uprobe:/bin/x:f:arg1=label:arg3=bytes:arg2=text";
	assert_int_equal(probe_parse(&p, many, NULL), 0);
	assert_string_equal(p.name, "f");
	assert_string_equal(probe_unit(&p), "bytes");
	assert_int_equal(p.value.arg, 3);
	assert_int_equal(p.n_labels, 2);
	assert_int_equal(p.label[0].arg, 2);
	assert_int_equal(p.label[1].arg, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),	    cmocka_unit_test(test_function),
		cmocka_unit_test(test_shown_names), cmocka_unit_test(test_instructions),
		cmocka_unit_test(test_versions),    cmocka_unit_test(test_static),
		cmocka_unit_test(test_damaged),	    cmocka_unit_test(test_arguments),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
