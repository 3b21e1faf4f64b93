/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of stripped files from everything that stripping leaves: .gnu_debugdata, debug files by
 * build id and by .gnu_debuglink, .gopclntab. The truth is nm on the file before it was stripped.
 * Everything through the sandbox.
 */
#include "sandbox/sandbox.h"
#include "symbols/symbols.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/ascribe-sources-XXXXXX";
static struct sandbox *sandbox;
static struct symbolizer *symbolizer;

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

static const char program[] =
	"#include <stdio.h>\n"
	"#define F(n) static __attribute__((noinline)) int local_##n(int v) { asm volatile(\"\"); return v + n; }\\\n"
	"__attribute__((noinline)) int global_##n(int v) { asm volatile(\"\"); return local_##n(v) * 3; }\n"
	"F(1) F(2) F(3) F(4) F(5) F(6) F(7)\n"
	"int main(int c, char **v) { (void)v; return global_1(c) + global_2(c) + global_3(c) + global_4(c) + global_5(c)"
	" + global_6(c) + global_7(c) == 12345 && puts(\"x\"); }\n";

static int setup(void **state)
{
	char path[128];
	struct err err;
	(void)state;
	struct sandbox_config cfg = {
		.ops = symbols_ops, .n_ops = SYMBOLS_OPS, .memory = SYMBOLS_MEMORY, .serves = 32
	};
	if (!mkdtemp(dir) || sandbox_new(&sandbox, &cfg, &err))
		return -1;
	struct symbolizer_config c = { .sandbox = sandbox, .wait = true };
	if (symbolizer_new(&symbolizer, &c))
		return -1;
	snprintf(path, sizeof(path), "%s/p.c", dir);
	FILE *f = fopen(path, "w");
	if (!f || fputs(program, f) < 0 || fclose(f))
		return -1;
	return run("${CC:-cc} -O1 -g -Wl,--build-id=sha1 -o full p.c && nm full >truth");
}

static int teardown(void **state)
{
	(void)state;
	symbolizer_free(symbolizer);
	sandbox_free(sandbox);
	return run("rm -rf %s", dir);
}

static int open_at(const char *name)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static const char *in_dir(const char *name)
{
	static char path[256];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static struct binary *open_named(const char *name)
{
	struct err err;
	struct binary *b = NULL;
	char path[256];
	int fd = open_at(name);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (fd < 0 || binary_open_in(&b, symbolizer, fd, path, &err))
		return NULL;
	close(fd);
	return b;
}

/*
 * Every function of the truth whose name begins with prefix, at its first byte; returns how many,
 * and how many were named so.
 */
static int count_named(struct binary *b, const char *truth, const char *prefix, int *ret_right)
{
	char path[256], line[4096], name[4000], type;
	unsigned long addr;
	int n = 0;
	*ret_right = 0;
	snprintf(path, sizeof(path), "%s/%s", dir, truth);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		struct symbol s;
		if (sscanf(line, "%lx %c %3999[^\n]", &addr, &type, name) != 3 ||
		    !strchr("tT", type) || strncmp(name, prefix, strlen(prefix)))
			continue;
		n++;
		char *abi = strstr(name, ".abi0"); /* Go's own tables leave it out */
		if (abi)
			*abi = '\0';
		*ret_right += !binary_find(b, addr, &s) && !strcmp(s.name, name) && s.start == addr;
	}
	fclose(f);
	return n;
}

static void expect_all(struct binary *b, const char *prefix, int want)
{
	int right, n = count_named(b, "truth", prefix, &right);
	assert_int_equal(n, want);
	if (right != n)
		fail_msg("%d of %d %s* named", right, n, prefix);
}

static void expect_none(struct binary *b, const char *prefix)
{
	int right;
	assert_true(count_named(b, "truth", prefix, &right) > 0);
	assert_int_equal(right, 0);
}

static void test_stripped(void **state)
{
	(void)state;
	assert_int_equal(run("cp full bare && strip -s bare"), 0);
	struct binary *b = open_named("full");
	expect_all(b, "local_", 7);
	expect_all(b, "global_", 7);
	assert_false(binary_wants_debug(b));
	binary_free(b);
	b = open_named("bare");
	assert_true(binary_wants_debug(b));
	expect_none(b, "local_");
	expect_none(b, "global_");
	assert_false(binary_refused(b));
	binary_free(b);
}

/* As distributions make it: functions that .dynsym does not have, packed by xz. */
static void test_debugdata(void **state)
{
	(void)state;
	assert_int_equal(
		run("objcopy --only-keep-debug full mini.debug && strip -g mini.debug && xz -kf mini.debug && "
		    "cp full mini && strip -s mini && "
		    "objcopy --add-section .gnu_debugdata=mini.debug.xz mini 2>/dev/null"),
		0);
	struct binary *b = open_named("mini");
	expect_all(b, "local_", 7);
	expect_all(b, "global_", 7);
	binary_free(b);
}

static void refuse_debugdata(const char *make)
{
	struct symbolizer_stats before, after;
	symbolizer_stats(symbolizer, &before);
	assert_int_equal(run("cp full lie && strip -s lie && %s && "
			     "objcopy --add-section .gnu_debugdata=lie.xz lie 2>/dev/null",
			     make),
			 0);
	struct binary *b = open_named("lie");
	expect_none(b, "local_");
	assert_true(binary_refused(b));
	expect_none(b, "global_");
	symbolizer_stats(symbolizer, &after);
	assert_int_equal(after.refused, before.refused + 1); /* counted once, remembered */
	binary_free(b);
}

static void test_debugdata_lies(void **state)
{
	(void)state;
	refuse_debugdata("head -c 400M /dev/zero | xz -c >lie.xz"); /* a bomb */
	refuse_debugdata("xz -c mini.debug | head -c 300 >lie.xz"); /* cut */
	refuse_debugdata("head -c 5000 /dev/urandom >lie.xz");	    /* noise */
	/* Needs 1 GiB */
	refuse_debugdata("xz -c --lzma2=dict=1GiB mini.debug >lie.xz");
	refuse_debugdata("xz -c p.c >lie.xz"); /* not ELF */
}

static int offer(struct binary *b, const char *name)
{
	struct stat st;
	int fd = open_at(name);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	const struct symbols_file which = { st.st_dev, st.st_ino, (uint64_t)st.st_size,
					    (uint64_t)st.st_mtim.tv_sec * 1000000000u +
						    (uint64_t)st.st_mtim.tv_nsec };
	int rc = binary_offer_debug(b, fd, &which);
	close(fd);
	return rc;
}

static void test_build_id(void **state)
{
	char path[512], want[512];
	const uint8_t *id;
	(void)state;
	assert_int_equal(
		run("objcopy --only-keep-debug full full.debug && cp full bare && strip -s bare && "
		    "sed s/12345/54321/ p.c >q.c && ${CC:-cc} -O1 -g -Wl,--build-id=sha1 -o other q.c && "
		    "objcopy --only-keep-debug other other.debug"),
		0);
	struct binary *b = open_named("bare");
	assert_int_equal(binary_build_id(b, &id), 20);
	assert_int_equal(binary_debug_path(b, "/opt/x/bare", 0, path, sizeof(path)), 0);
	int n = snprintf(want, sizeof(want), "/usr/lib/debug/.build-id/%02x/", id[0]);
	for (int i = 1; i < 20; i++)
		n += snprintf(want + n, sizeof(want) - (size_t)n, "%02x", id[i]);
	snprintf(want + n, sizeof(want) - (size_t)n, ".debug");
	assert_string_equal(path, want);
	assert_int_equal(offer(b, "other.debug"), -ENOENT); /* of another build */
	assert_int_equal(offer(b, "p.c"), -ENOENT);	    /* not ELF */
	assert_int_equal(offer(b, "bare"), -ENOENT);	    /* has nothing more */
	assert_int_equal(offer(b, "full.debug"), 0);
	expect_all(b, "local_", 7);
	expect_all(b, "global_", 7);
	binary_free(b);
}

/* One that comes when the symbols were read already: names are anew, and so are their tags. */
static void test_late(void **state)
{
	struct symbol sym;
	unsigned long start = 0;
	char line[256];
	(void)state;
	assert_int_equal(run("grep ' local_3$' truth >late.truth"), 0);
	FILE *f = fopen(in_dir("late.truth"), "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	fclose(f);
	assert_int_equal(sscanf(line, "%lx", &start), 1);
	struct binary *b = open_named("bare");
	binary_expect_debug(b, true);
	expect_none(b, "local_");
	assert_int_equal(offer(b, "other.debug"), -ENOENT); /* it stays expected */
	assert_int_equal(offer(b, "full.debug"), 0);
	expect_all(b, "local_", 7);
	expect_all(b, "global_", 7);
	assert_int_equal(binary_find(b, start, &sym), 0);
	assert_string_equal(sym.name, "local_3");
	assert_int_equal(*sym.tag, 0);
	assert_true(binary_has_lines(b));
	assert_int_equal(offer(b, "full.debug"), -ENOENT); /* it has one */
	binary_free(b);
	b = open_named("bare");
	binary_expect_debug(b, true);
	expect_none(b, "local_");
	binary_expect_debug(b, false); /* nobody has it */
	assert_int_equal(offer(b, "full.debug"), -ENOENT);
	expect_none(b, "local_");
	binary_free(b);
}

static void test_debuglink(void **state)
{
	static const char *const want[] = { "", "/opt/x/link.debug", "/opt/x/.debug/link.debug",
					    "/usr/lib/debug/opt/x/link.debug" };
	char path[512];
	(void)state;
	assert_int_equal(
		run("${CC:-cc} -O1 -g -Wl,--build-id=none -o link p.c && nm link >truth.link && "
		    "objcopy --only-keep-debug link link.debug && strip -s link && "
		    "objcopy --add-gnu-debuglink=link.debug link && cp link.debug wrong.debug && "
		    "printf x >>wrong.debug"),
		0);
	struct binary *b = open_named("link");
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(binary_debug_path(b, "/opt/x/link", i, path, sizeof(path)), 0);
		assert_string_equal(path, want[i]);
	}
	assert_int_equal(binary_debug_path(b, "/opt/x/link", 4, path, sizeof(path)), -ENOENT);
	assert_int_equal(offer(b, "wrong.debug"), -ENOENT);
	assert_int_equal(offer(b, "link.debug"), 0);
	int right, n = count_named(b, "truth.link", "local_", &right);
	assert_int_equal(n, 7);
	assert_int_equal(right, 7);
	binary_free(b);
	/* A name that leads elsewhere is no name. */
	assert_int_equal(run("printf '../../etc/x\\0\\1\\2\\3\\4' >bad.link && cp link evil && "
			     "objcopy --remove-section .gnu_debuglink evil && "
			     "objcopy --add-section .gnu_debuglink=bad.link evil 2>/dev/null"),
			 0);
	b = open_named("evil");
	assert_false(binary_wants_debug(b));
	binary_free(b);
}

static uint64_t requests(void)
{
	struct sandbox_stats st;
	sandbox_stats(sandbox, &st);
	return st.calls;
}

/* What many files link to is read in whole once, and again when it has changed. */
static void test_crc_kept(void **state)
{
	enum { MANY = 12 };
	struct binary *b;
	(void)state;
	assert_int_equal(
		run("${CC:-cc} -O1 -g -Wl,--build-id=none -o many p.c && nm many >truth.many && "
		    "objcopy --only-keep-debug many many.debug && strip -s many && "
		    "objcopy --add-gnu-debuglink=many.debug many && cp many.debug huge.debug && "
		    "truncate -s 50M huge.debug && cp many.debug larger.debug && truncate -s 65M larger.debug"),
		0);
	for (int i = 0; i < MANY; i++) {
		b = open_named("many");
		uint64_t before = requests();
		assert_int_equal(offer(b, "huge.debug"), -ENOENT);
		assert_int_equal(requests() - before, i ? 1 : 2); /* what it has; its CRC */
		binary_free(b);
	}
	b = open_named("many");
	uint64_t before = requests();
	assert_int_equal(offer(b, "larger.debug"), -ENOENT);
	assert_int_equal(requests() - before, 1); /* what it has */
	binary_free(b);
	assert_int_equal(run("cp many.debug huge.debug"), 0);
	for (int i = 0; i < 2; i++) {
		b = open_named("many");
		assert_int_equal(offer(b, "huge.debug"), 0);
		expect_all(b, "local_", 7);
		binary_free(b);
	}
}

static const char go_program[] =
	"package main\nimport (\"fmt\"; \"os\"; \"sort\")\n"
	"type Cart struct { n int }\n"
	"//go:noinline\nfunc (c *Cart) Total(k int) int { return c.n * k }\n"
	"//go:noinline\nfunc work(n int) int { s := 0; for i := 0; i < n; i++ { s += i * s }; return s }\n"
	"func main() { c := &Cart{len(os.Args)}; x := []int{3, 1, 2}; sort.Ints(x); fmt.Println(c.Total(work(10)), x) }\n";

static void check_go(const char *flags)
{
	int right;
	assert_int_equal(
		run("HOME=%s GOFLAGS=-mod=mod GO111MODULE=off CGO_ENABLED=0 go build %s -o gofull go.go && "
		    "nm gofull >truth.go && cp gofull gobare && strip -s gobare",
		    dir, flags),
		0);
	struct binary *b = open_named("gobare");
	assert_non_null(b);
	int n = count_named(b, "truth.go", "main.", &right);
	assert_true(n >= 3);
	assert_int_equal(right, n);
	n = count_named(b, "truth.go", "fmt.", &right);
	assert_true(n >= 30);
	assert_int_equal(right, n);
	n = count_named(b, "truth.go", "runtime.", &right);
	print_message("go %s: %d of %d functions of the runtime\n", flags, right, n);
	/* the linker's own marks (runtime.text, ...) are no functions */
	assert_true(right * 100 >= n * 99);
	binary_free(b);
}

static void test_go(void **state)
{
	char path[256];
	(void)state;
	if (system("command -v go >/dev/null"))
		skip();
	snprintf(path, sizeof(path), "%s/go.go", dir);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(go_program, f);
	fclose(f);
	check_go("");
	check_go("-buildmode=pie");
}

#define NM_MAX 8192

/* Read the functions of a file of nm: the middle of the address of each, from the next one. */
static size_t read_nm(const char *name, uint64_t *out, size_t max)
{
	char path[256], type;
	unsigned long addr;
	size_t n = 0;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	while (n < max && fscanf(f, "%lx %c %*[^\n]", &addr, &type) == 2)
		if (type == 'T' || type == 't')
			out[n++] = addr + 1;
	fclose(f);
	return n;
}

/*
 * Function by function, in a worker that has no room for the table, are the names of the table. The
 * requests are far fewer than the functions.
 */
static void test_go_parts(void **state)
{
	static uint64_t addr[NM_MAX];
	struct sandbox_config cfg = {
		.ops = symbols_ops, .n_ops = SYMBOLS_OPS, .memory = 1 << 20, .serves = 1000
	};
	struct symbolizer_config sc = { 0 };
	struct symbolizer_stats stats;
	struct symbolizer *late;
	struct sandbox_stats ss;
	struct binary *b = NULL, *whole;
	struct err err;
	(void)state;
	if (system("command -v go >/dev/null"))
		skip();
	size_t n = read_nm("truth.go", addr, NM_MAX), left, same = 0;
	assert_true(n > 1000);
	assert_int_equal(sandbox_new(&sc.sandbox, &cfg, &err), 0);
	assert_int_equal(symbolizer_new(&late, &sc), 0);
	int fd = open_at("gobare"), rc = binary_open_in(&b, late, fd, "gobare", &err);
	close(fd);
	for (; rc == -EINPROGRESS; rc = binary_read_head(b, &err))
		sandbox_wait(sc.sandbox, 0);
	assert_int_equal(rc, 0);
	whole = open_named("gobare");
	do {
		left = same = 0;
		for (size_t i = 0; i < n; i++) {
			struct symbol part, all;
			rc = binary_find(b, addr[i], &part);
			left += rc == -EAGAIN;
			int found = binary_find(whole, addr[i], &all);
			same += rc == found &&
				(rc || (!strcmp(part.name, all.name) && part.start == all.start &&
					part.size == all.size));
		}
		sandbox_wait(sc.sandbox, 0);
	} while (left);
	assert_int_equal(same, n);
	assert_false(binary_refused(b));
	symbolizer_stats(late, &stats);
	sandbox_stats(sc.sandbox, &ss);
	print_message("%zu functions in %zu requests\n", n, (size_t)ss.calls);
	assert_int_equal(stats.bytes, 0);
	assert_true(ss.calls < n / 64);
	assert_int_equal(ss.died, 0);
	binary_free(b);
	binary_free(whole);
	symbolizer_free(late);
	sandbox_free(sc.sandbox);
}

/*
 * Every byte of the head of the table, and some behind, to every kind of value: never more than a
 * refusal.
 */
static void test_go_lies(void **state)
{
	static const uint8_t values[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };
	char path[256];
	unsigned long offset = 0;
	(void)state;
	if (system("command -v go >/dev/null"))
		skip();
	assert_int_equal(
		run("readelf -SW gobare | sed -n 's/.*gopclntab *PROGBITS *[0-9a-f]* \\([0-9a-f]*\\).*/\\1/p' >at"),
		0);
	snprintf(path, sizeof(path), "%s/at", dir);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lx", &offset), 1);
	fclose(f);
	snprintf(path, sizeof(path), "%s/gobare", dir);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	for (unsigned at = 0; at < 88; at++) {
		uint8_t old, v = values[at % sizeof(values)];
		struct symbol s;
		assert_int_equal(pread(fd, &old, 1, (off_t)(offset + at)), 1);
		assert_int_equal(pwrite(fd, &v, 1, (off_t)(offset + at)), 1);
		struct binary *b = open_named("gobare");
		binary_find(b, 0x401000, &s);
		binary_free(b);
		assert_int_equal(pwrite(fd, &old, 1, (off_t)(offset + at)), 1);
	}
	close(fd);
	struct sandbox_stats st;
	sandbox_stats(sandbox, &st);
	assert_int_equal(st.late + st.died, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stripped),       cmocka_unit_test(test_debugdata),
		cmocka_unit_test(test_debugdata_lies), cmocka_unit_test(test_build_id),
		cmocka_unit_test(test_late),	       cmocka_unit_test(test_debuglink),
		cmocka_unit_test(test_crc_kept),       cmocka_unit_test(test_go),
		cmocka_unit_test(test_go_parts),       cmocka_unit_test(test_go_lies),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
