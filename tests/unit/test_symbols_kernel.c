/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_symbols_* against a linear scan of the same text: the running kernel's, and texts made up
 * here.
 */
#include "symbols/symbols.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/test_kallsyms.XXXXXX";
static char path[64];

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/kallsyms", dir);
	return 0;
}

static int teardown(void **state)
{
	char cmd[64];
	(void)state;
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

static void write_text(const char *text, size_t len)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static struct kernel_symbols *read_text(const char *text)
{
	struct kernel_symbols *k = NULL;
	struct err err = { 0 };
	write_text(text, strlen(text));
	if (kernel_symbols_read(&k, path, &err))
		fail_msg("%s", err.text);
	return k;
}

/* ---- the running kernel ---- */

struct line {
	uint64_t addr;
	char type;
	char name[520];
	char module[80];
};

struct text {
	struct line *v;
	size_t n;
};

/* Copied first: between two readings of /proc programs come and go. */
static struct text copy_kallsyms(void)
{
	struct text t = { 0 };
	char row[1024];
	FILE *from = fopen("/proc/kallsyms", "r"), *to = fopen(path, "w");
	assert_true(from && to);
	while (fgets(row, sizeof(row), from)) {
		struct line l = { .module = "[kernel]" };
		fputs(row, to);
		if (sscanf(row, "%lx %c %519s %79s", &l.addr, &l.type, l.name, l.module) < 3)
			continue;
		if (!(t.n & (t.n - 1)))
			t.v = realloc(t.v, (t.n ? 2 * t.n : 1) * sizeof(*t.v));
		t.v[t.n++] = l;
	}
	fclose(from);
	fclose(to);
	return t;
}

static int is_function(const struct line *l)
{
	return strchr("tTwW", l->type) != NULL;
}

static void check_addr(struct kernel_symbols *k, const struct text *t, uint64_t addr)
{
	struct symbol got;
	int rc = kernel_symbols_find(k, addr, &got);
	uint64_t nearest = 0, next = UINT64_MAX;
	int named = 0, any_function = 0, better = 0;
	for (size_t i = 0; i < t->n; i++) {
		if (t->v[i].addr <= addr && t->v[i].addr > nearest)
			nearest = t->v[i].addr;
		if (t->v[i].addr > addr && t->v[i].addr < next)
			next = t->v[i].addr;
	}
	for (size_t i = 0; i < t->n; i++) {
		const struct line *l = &t->v[i];
		if (l->addr != nearest || !is_function(l))
			continue;
		any_function = 1;
		if (!rc && !strcmp(l->name, got.name) && !strcmp(l->module, got.module))
			named = l->type;
		better |= l->type == 'T';
	}
	if (rc) {
		if (rc != -ENOENT || (any_function && addr - nearest < 4096))
			fail_msg("%#lx: %d", addr, rc);
		return;
	}
	if (!named || got.start != nearest || got.size)
		fail_msg("%#lx is not %s %s", addr, got.name, got.module);
	if (better && named != 'T')
		fail_msg("%#lx: %s is not global", addr, got.name);
	if (addr - nearest >= 1u << 20)
		fail_msg("%#lx is %#lx behind %s", addr, addr - nearest, got.name);
}

static void test_running_kernel(void **state)
{
	(void)state;
	struct text t = copy_kallsyms();
	struct kernel_symbols *k = NULL;
	struct err err = { 0 };
	uint64_t seed = 7;
	int any = 0;
	for (size_t i = 0; i < t.n; i++)
		any |= t.v[i].addr != 0;
	int rc = kernel_symbols_read(&k, path, &err);
	if (!any) {
		free(t.v);
		assert_int_equal(rc, -EPERM);
		skip();
	}
	assert_int_equal(rc, 0);
	assert_true(kernel_symbols_memory(k) < 8u << 20 || t.n > 200000);
	for (int i = 0; i < 3000; i++) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		const struct line *l = &t.v[(seed >> 24) % t.n];
		check_addr(k, &t, l->addr + (i % 3 ? (seed >> 50) % 64 : 0));
	}
	struct symbol s;
	assert_int_equal(kernel_symbols_find(k, 0, &s), -ENOENT);
	assert_int_equal(kernel_symbols_find(k, UINT64_MAX, &s), -ENOENT);
	assert_int_equal(kernel_symbols_find(k, (uint64_t)(uintptr_t)&s, &s), -ENOENT);
	kernel_symbols_free(k);
	free(t.v);
}

/* ---- made-up texts ---- */

static void expect(struct kernel_symbols *k, uint64_t addr, const char *name, const char *module)
{
	struct symbol s = { 0 };
	int rc = kernel_symbols_find(k, addr, &s);
	if (!name) {
		if (rc != -ENOENT)
			fail_msg("%#lx: %d %s", addr, rc, s.name);
		return;
	}
	assert_int_equal(rc, 0);
	assert_string_equal(s.name, name);
	assert_string_equal(s.module, module);
	assert_int_equal(s.size, 0);
}

static void test_modules_and_gaps(void **state)
{
	(void)state;
	struct kernel_symbols *k =
		read_text("0000000000000000 A fixed_percpu_data\n"
			  "0000000000001000 A gdt_page\n"
			  "ffffffff81000000 T _text\n"
			  "ffffffff81000000 T startup_64\n"
			  "ffffffff81000000 t local_name\n"
			  "ffffffff81000100 t second\n"
			  "ffffffff81000200 D some_data\n"
			  "ffffffff81000300 R more_data\n"
			  "ffffffff81000400 W weak_one\n"
			  "ffffffff81001000 t last_of_kernel\n"
			  "ffffffffc0201000 t ext4_get\t[ext4]\n"
			  "ffffffffc0200000 t ext4_init\t[ext4]\n"
			  "ffffffffc0300000 d ext4_data\t[ext4]\n"
			  "ffffffffc0400000 t xfs_init\t[xfs]\n"
			  "ffffffffc0500000 t bpf_prog_0123456789abcdef_sample\t[bpf]\n"
			  "ffff800000000000 t far_away\t[bpf]\n"
			  "ffffffffc0401000 t ext4_late\t[ext4]\n"
			  "ffffffffc0402000 t _RNvCsbmNqQUJIY6D_4core3bar\n");
	expect(k, 0xffffffff81000000, "startup_64", "[kernel]");
	expect(k, 0xffffffff810000ff, "startup_64", "[kernel]");
	expect(k, 0xffffffff81000100, "second", "[kernel]");
	expect(k, 0xffffffff81000200, NULL, NULL); /* data is not second+0x100 */
	expect(k, 0xffffffff810003ff, NULL, NULL);
	expect(k, 0xffffffff81000404, "weak_one", "[kernel]");
	expect(k, 0xffffffff81001fff, "last_of_kernel", "[kernel]");
	/* Too far behind the last of the kernel */
	expect(k, 0xffffffff81001000 + 0x10000, NULL, NULL);
	expect(k, 0xffffffffc01fffff, NULL, NULL); /* the gap before a module */
	expect(k, 0xffffffffc0200fff, "ext4_init", "[ext4]");
	expect(k, 0xffffffffc0201010, "ext4_get", "[ext4]");
	expect(k, 0xffffffffc0300010, NULL, NULL);
	expect(k, 0xffffffffc0400010, "xfs_init", "[xfs]");
	expect(k, 0xffffffffc0401010, "ext4_late", "[ext4]");
	expect(k, 0xffffffffc0402010, "core::bar", "[kernel]");
	expect(k, 0xffffffffc0500010, "bpf_prog_0123456789abcdef_sample", "[bpf]");
	expect(k, 0xffffffffc0520000, "bpf_prog_0123456789abcdef_sample", "[bpf]");
	expect(k, 0xffffffffc0500000 + (1 << 20), NULL, NULL);
	expect(k, 0xffff800000000010, "far_away", "[bpf]");
	expect(k, 0xffff7fffffffffff, NULL, NULL);
	expect(k, 0x1000, NULL, NULL);
	expect(k, 0, NULL, NULL);
	struct symbol a, b;
	assert_int_equal(kernel_symbols_find(k, 0xffffffffc0201010, &a), 0);
	assert_int_equal(*a.tag, 0);
	*a.tag = 5;
	assert_int_equal(kernel_symbols_find(k, 0xffffffffc0201011, &b), 0);
	assert_ptr_equal(a.tag, b.tag);
	assert_ptr_equal(a.name, b.name);
	kernel_symbols_free(k);
}

static void test_malformed_lines(void **state)
{
	(void)state;
	char *text = malloc(300000);
	strcpy(text,
	       "\n\nnonsense\nffffffff81000000\nffffffff81000000 T\nffffffff81000000 T \n T x\n"
	       "ffffffff81000000ff T too_long_an_address\nffffffff8100000g T not_hex\n"
	       "ffffffff81000010  T two_spaces\nffffffff81000020 TT bad_type\n"
	       "ffffffff81000030 t bad_module\text4\nffffffff81000040 t short_module\t[]\n"
	       "FFFFFFFF81000050 t upper_case\n");
	size_t n = strlen(text);
	n += (size_t)sprintf(text + n, "ffffffff81000060 t ");
	memset(text + n, 'x', 200000); /* longer than the reader's buffer */
	n += 200000;
	strcpy(text + n, "\nffffffff81000070 t after_the_long_one\nffffffff81000080 t no_newline");
	struct kernel_symbols *k = read_text(text);
	expect(k, 0xffffffff81000010, NULL, NULL);
	expect(k, 0xffffffff81000030, NULL, NULL);
	expect(k, 0xffffffff81000040, NULL, NULL);
	expect(k, 0xffffffff81000050, "upper_case", "[kernel]");
	expect(k, 0xffffffff81000060, "upper_case", "[kernel]");
	expect(k, 0xffffffff81000070, "after_the_long_one", "[kernel]");
	expect(k, 0xffffffff81000080, "no_newline", "[kernel]");
	kernel_symbols_free(k);
	free(text);
}

static int error_of(const char *text, size_t len, struct err *err)
{
	struct kernel_symbols *k = NULL;
	write_text(text, len);
	*err = (struct err){ 0 };
	int rc = kernel_symbols_read(&k, path, err);
	assert_null(k);
	assert_int_equal(err->code, rc);
	return rc;
}

static void test_refused(void **state)
{
	(void)state;
	struct err err;
	struct kernel_symbols *k = NULL;
	static const char zero[] =
		"0000000000000000 T startup_64\n0000000000000000 t ext4_init\t[ext4]\n";
	assert_int_equal(error_of(zero, strlen(zero), &err), -EPERM);
	assert_non_null(strstr(err.text, "kernel.kptr_restrict"));
	assert_non_null(strstr(err.text, "CAP_SYSLOG"));
	assert_int_equal(error_of("", 0, &err), -EBADMSG);
	assert_int_equal(error_of("\0\0\0\n\0", 5, &err), -EBADMSG);
	assert_int_equal(error_of("hello\nworld\n", 12, &err), -EBADMSG);
	assert_int_equal(kernel_symbols_read(&k, dir, &err), -EINVAL);
	assert_int_equal(kernel_symbols_read(&k, "/dev/zero", &err), -EINVAL);
	unlink(path);
	assert_int_equal(kernel_symbols_read(&k, path, &err), -ENOENT);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(kernel_symbols_read(&k, path, &err), -EINVAL);
	unlink(path);
	assert_int_equal(symlink(path, path), 0);
	assert_int_equal(kernel_symbols_read(&k, path, &err), -ELOOP);
	unlink(path);
	/* A file without end or newline: bounded, not kept. */
	write_text("x", 1);
	assert_int_equal(truncate(path, 1ll << 40), 0);
	assert_int_equal(kernel_symbols_read(&k, path, &err), -E2BIG);
	unlink(path);
	kernel_symbols_free(NULL);
}

/* As an unprivileged reader sees the real file. */
static void test_unprivileged(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct kernel_symbols *k = NULL;
	if (geteuid())
		skip();
	FILE *f = popen(
		"setpriv --reuid=65534 --bounding-set=-all --inh-caps=-all cat /proc/kallsyms 2>/dev/null",
		"r");
	FILE *to = fopen(path, "w");
	char row[1024];
	size_t n = 0;
	while (fgets(row, sizeof(row), f))
		n += fputs(row, to) >= 0;
	pclose(f);
	fclose(to);
	if (!n)
		skip();
	int rc = kernel_symbols_read(&k, path, &err);
	/* 0: kptr_restrict 0 with a permissive perf_event_paranoid */
	assert_true(rc == -EPERM || rc == 0);
	kernel_symbols_free(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_running_kernel),	cmocka_unit_test(test_modules_and_gaps),
		cmocka_unit_test(test_malformed_lines), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_unprivileged),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
