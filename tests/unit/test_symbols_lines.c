/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inlined calls and lines against llvm-addr2line, which reads DWARF by code of its own (that of
 * binutils errs where functions are split). They are compared at random addresses of programs that
 * are built here by gcc and clang with and without DWARF 5. Also damaged DWARF. Lines of Go without
 * DWARF against Go's own debug/gosym.
 */
#include "symbols/names.h"
#include "symbols/symbols.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ADDRESSES 3000

static char dir[] = "/tmp/ascribe-lines-XXXXXX";
static struct sandbox *sandbox;
static struct symbolizer *symbolizer;

/* Reads addresses, and prints for each: itself; function and file:line of each frame there. */
#define ADDR2LINE "llvm-addr2line -a -f -i -e"
static const char *reader = ADDR2LINE;

static const char program[] =
	"#include <algorithm>\n#include <map>\n#include <string>\n#include <vector>\n#include <cstdio>\n"
	"struct item { int key; std::string text; bool operator<(const item &o) const { return key < o.key; } };\n"
	"static inline int mix(int a, int b) {\n  a ^= b * 31;\n  return a + (b >> 3);\n}\n"
	"static inline int twice(int a, int b) {\n  int x = mix(a, b);\n  return mix(x, a);\n}\n"
	"template <typename T> __attribute__((noinline)) int sum(const std::vector<T> &v) {\n  int s = 0;\n"
	"  for (auto &i : v)\n    s = twice(s, i.key);\n  return s;\n}\n"
	"int main(int c, char **v) {\n  std::vector<item> items;\n  std::map<std::string, int> m;\n"
	"  for (int i = 0; i < c * 100; i++) {\n    items.push_back({ twice(i, c), std::to_string(i) });\n"
	"    m[items.back().text] += i;\n  }\n  std::sort(items.begin(), items.end());\n"
	"  try { items.at(c * 50).key++; } catch (...) { puts(\"none\"); }\n"
	"  printf(\"%d %zu\\n\", sum(items), m.size());\n  return 0;\n}\n";

static int run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int run(const char *fmt, ...)
{
	char cmd[2048];
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
	struct err err;
	(void)state;
	struct sandbox_config cfg = {
		.ops = symbols_ops, .n_ops = SYMBOLS_OPS, .memory = SYMBOLS_MEMORY, .serves = 64
	};
	if (!mkdtemp(dir) || sandbox_new(&sandbox, &cfg, &err))
		return -1;
	struct symbolizer_config c = { .sandbox = sandbox, .wait = true, .deadline_ms = 20000 };
	snprintf(path, sizeof(path), "%s/p.cc", dir);
	FILE *f = fopen(path, "w");
	if (!f || fputs(program, f) < 0 || fclose(f))
		return -1;
	return symbolizer_new(&symbolizer, &c);
}

static int teardown(void **state)
{
	(void)state;
	symbolizer_free(symbolizer);
	sandbox_free(sandbox);
	return run("rm -rf %s", dir);
}

/* A file of the directory, or anywhere. */
static struct binary *open_named(const char *name)
{
	char path[4200];
	struct binary *b = NULL;
	snprintf(path, sizeof(path), "%s/%s", name[0] == '/' ? "" : dir, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || binary_open_in(&b, symbolizer, fd, path, NULL))
		return NULL;
	close(fd);
	return b;
}

/* "function file:line\n" for each frame, files without their directories. */
struct answers {
	char *text[ADDRESSES];
	size_t inlined;
	struct binary *binary;
	int by_symbol;
	const uint64_t *addrs;
};

static const char *base_of(const char *s, size_t len, size_t *ret)
{
	for (size_t i = len; i-- > 0;)
		if (s[i] == '/') {
			*ret = len - i - 1;
			return s + i + 1;
		}
	*ret = len;
	return s;
}

static void take(void *ctx, size_t i, const struct line_frame *f, size_t n)
{
	struct answers *a = ctx;
	char text[16384] = "", function[4096], shown[4096];
	size_t at = 0, len;
	struct symbol sym;
	for (size_t k = 0; k < n; k++) {
		const char *file = base_of(f[k].file, f[k].file_len, &len);
		snprintf(function, sizeof(function), "%.*s", (int)f[k].function_len, f[k].function);
		/*
		 * Of somebody else's file the recorder takes the symbol: it has the name by which
		 * the function is called.
		 */
		if ((a->by_symbol || !f[k].function_len) && k + 1 == n &&
		    !binary_find(a->binary, a->addrs[i], &sym))
			name_fold_clones(sym.name, function, sizeof(function));
		symbol_demangle(function, shown, sizeof(shown));
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s %.*s:%u\n", shown,
				       (int)len, file, f[k].line);
	}
	a->inlined += n > 1;
	a->text[i] = strdup(text);
}

/* addr2line's word for the same; NULL where it does not know the line or the function. */
static char *read_truth(FILE *f, char *line, size_t cap, int *more)
{
	char text[16384] = "", function[4096], shown[4096];
	size_t at = 0, len;
	int known = 1;
	*more = 0;
	while (fgets(line, (int)cap, f)) {
		if (!strncmp(line, "0x", 2)) {
			*more = 1;
			break;
		}
		snprintf(function, sizeof(function), "%.*s", (int)strcspn(line, "\n"), line);
		char *abi = strstr(function, ".abi0"); /* Go's symbols have it, its tables not */
		if (abi && !abi[5])
			*abi = 0;
		/* The symbol's name; DWARF has the source's */
		name_fold_clones(function, function, sizeof(function));
		/* Constructors that are one have two symbols */
		symbol_demangle(function, shown, sizeof(shown));
		if (!fgets(line, (int)cap, f))
			break;
		line[strcspn(line, "\n")] = 0;
		char *note = strstr(line, " (discriminator");
		if (note)
			*note = 0;
		known &= !strstr(line, ":?") && !strstr(line, ":0") && strcmp(function, "??");
		const char *base = base_of(line, strlen(line), &len);
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s %s\n", shown, base);
	}
	return known && at ? strdup(text) : NULL;
}

/* The start of the last line: the function that the others are inlined into. */
static const char *outermost(const char *text)
{
	const char *p = text + strlen(text) - 1;
	while (p > text && p[-1] != '\n')
		p--;
	return p;
}

/* "file:line" of the first frame. */
static void keep_innermost_line(char *text)
{
	char *end = strchr(text, '\n'), *line = end;
	if (!end)
		return;
	*end = 0;
	while (line > text && line[-1] != ' ')
		line--;
	memmove(text, line, (size_t)(end - line) + 1);
}

/*
 * Where the compiler made one function of two that are equal, DWARF has one's name and addr2line
 * takes the other's symbol. They are the same but for the name of the outermost function, and nm
 * has both at one address.
 */
static bool is_alias(const char *name, const char *a, const char *b)
{
	const char *x = outermost(a), *y = outermost(b), *x_end = strchr(x, ' '),
		   *y_end = strchr(y, ' ');
	char cmd[12000];
	if (x - a != y - b || memcmp(a, b, (size_t)(x - a)) || !x_end || !y_end ||
	    strcmp(x_end, y_end))
		return false;
	if (strchr(x, '\'') || strchr(y, '\''))
		return false;
	snprintf(
		cmd, sizeof(cmd),
		"cd %s && { [ -e nm ] || nm %s | sed 's/@.*//' >nm; } && awk -v a='%.*s' -v b='%.*s' '$3 == a { x[$1] } $3 == b { y[$1] }"
		" END { for (at in x) if (at in y) exit 0; exit 1 }' nm",
		dir, name, (int)(x_end - x), x, (int)(y_end - y), y);
	return system(cmd) == 0;
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/*
 * The number of addresses that addr2line knows of `oracle`, which is the same code as `name`.
 * Without `inlined` the innermost line counts, and no name: addr2line finds the other half of split
 * units. `allowed`: how many may differ.
 */
static int check_against(const char *name, const char *oracle, bool inlined, int allowed)
{
	static uint64_t addrs[ADDRESSES];
	static struct answers a;
	char cmd[5000], line[8192];
	unsigned long text = 0, size = 0;
	uint64_t seed = 99;
	memset(&a, 0, sizeof(a));
	snprintf(
		cmd, sizeof(cmd),
		"cd %s && readelf -SW %s | sed -n 's/.* \\.text *[A-Z]*BITS *\\([0-9a-f]*\\) [0-9a-f]* \\([0-9a-f]*\\).*/\\1 \\2/p'",
		dir, name);
	FILE *f = popen(cmd, "r");
	assert_int_equal(fscanf(f, "%lx %lx", &text, &size), 2);
	pclose(f);
	snprintf(cmd, sizeof(cmd), "%s/addrs", dir);
	f = fopen(cmd, "w");
	for (int i = 0; i < ADDRESSES; i++) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		addrs[i] = text + (seed >> 33) % size;
	}
	qsort(addrs, ADDRESSES, sizeof(addrs[0]), ascending);
	for (int i = 0; i < ADDRESSES; i++)
		fprintf(f, "0x%lx\n", addrs[i]);
	fclose(f);
	struct binary *b = open_named(name);
	assert_non_null(b);
	assert_true(binary_has_lines(b));
	a.binary = b;
	a.by_symbol = name[0] == '/';
	a.addrs = addrs;
	int rc = binary_lines(b, addrs, ADDRESSES, take, &a);
	if (rc && name[0] == '/') { /* beyond the limits of a worker: an answer, too */
		print_message("%s: given up, %s\n", name, strerror(-rc));
		binary_free(b);
		return 0;
	}
	assert_int_equal(rc, 0);
	binary_free(b);
	snprintf(cmd, sizeof(cmd), "cd %s && %s %s <addrs", dir, reader, oracle);
	f = popen(cmd, "r");
	run("rm -f nm");
	int more = fgets(line, sizeof(line), f) != NULL, known = 0, wrong = 0;
	for (int i = 0; i < ADDRESSES && more; i++) {
		char *want = read_truth(f, line, sizeof(line), &more);
		known += want != NULL;
		if (!inlined && want)
			keep_innermost_line(want), keep_innermost_line(a.text[i]);
		if (want && strcmp(want, a.text[i]) && !is_alias(name, want, a.text[i]) &&
		    wrong++ < 3)
			print_message("%s 0x%lx: ours\n%sbut the oracle\n%s", name, addrs[i],
				      a.text[i], want);
		free(want);
	}
	for (int i = 0; i < ADDRESSES; i++)
		free(a.text[i]);
	pclose(f);
	print_message("%s: %d addresses known to addr2line, %zu with inlined calls, %d wrong\n",
		      name, known, a.inlined, wrong);
	assert_true(known > (name[0] == '/' ? 0 : ADDRESSES / 3));
	assert_true(name[0] == '/' || !inlined || a.inlined > ADDRESSES / 10);
	assert_true(wrong <= allowed);
	return known;
}

static int check(const char *name)
{
	return check_against(name, name, true, 0);
}

/*
 * make bench-symbols: every program of this machine that has DWARF, and the debug file of its libc.
 */
static void test_real(void **state)
{
	char path[4096];
	int known = 0, files = 0;
	(void)state;
	if (!getenv("ASCRIBE_SYMBOLS_FULL"))
		skip();
	FILE *f = popen(
		"{ ls -d ~/.pyenv/versions/*/lib/libpython3.*.so.1.0 /opt/*/bin/* /usr/local/bin/* 2>/dev/null; readlink -f /proc/$PPID/exe;"
		"i=$(readelf -n /lib/x86_64-linux-gnu/libc.so.6 | sed -n 's/.*Build ID: //p');"
		"echo /usr/lib/debug/.build-id/$(echo $i | cut -c 1-2)/$(echo $i | cut -c 3-).debug; } | while read p; do"
		"  readelf -SW $p 2>/dev/null | grep -q '\\.debug_info' && ! readelf -SW $p | grep -q gopclntab && readlink -f $p; done",
		"r");
	while (fgets(path, sizeof(path), f)) {
		path[strcspn(path, "\n")] = 0;
		known += check(path);
		files++;
	}
	pclose(f);
	print_message("%d files, %d addresses known to addr2line\n", files, known);
	assert_true(files > 0);
}

static void test_gcc(void **state)
{
	(void)state;
	assert_int_equal(
		run("g++ -O2 -g -gdwarf-5 -o gcc5 p.cc && g++ -O2 -g -gdwarf-4 -o gcc4 p.cc"), 0);
	check("gcc5");
	check("gcc4");
}

static void test_compressed(void **state)
{
	(void)state;
	assert_int_equal(run("objcopy --compress-debug-sections=zlib gcc5 packed"), 0);
	check("packed");
}

/* One unit has no address ranges of its own, as clang's have none. */
static void test_aranges(void **state)
{
	(void)state;
	assert_int_equal(
		run("g++ -O2 -g -c -o one.o p.cc && g++ -O2 -g -c -Dmain=other -o two.o p.cc"), 0);
	assert_int_equal(run("objcopy -R .debug_aranges -R .rela.debug_aranges two.o"), 0);
	assert_int_equal(run("g++ -o mixed one.o two.o"), 0);
	check("mixed");
}

/*
 * binutils 2.40 and llvm-objcopy 16 write it; the oracle may be older: it reads the file from
 * before.
 */
static void test_zstd(void **state)
{
	(void)state;
	assert_int_equal(run("objcopy --compress-debug-sections=zstd gcc5 zstd"), 0);
	assert_int_equal(run("readelf -tW zstd | grep -q ZSTD"), 0);
	check_against("zstd", "gcc5", true, 0);
}

/*
 * Units in two halves: lines are in the program, inlined calls in .dwo files that a worker cannot
 * open.
 */
static void test_split(void **state)
{
	(void)state;
	assert_int_equal(
		run("g++ -O2 -g -gdwarf-5 -gsplit-dwarf -o split5 p.cc && g++ -O2 -g -gdwarf-4 -gsplit-dwarf -o split4 p.cc"),
		0);
	assert_int_equal(run("clang++ -O2 -g -gdwarf-5 -gsplit-dwarf -o split-clang p.cc"), 0);
	check_against("split5", "split5", false, 0);
	check_against("split4", "split4", false, 0);
	check_against("split-clang", "split-clang", false, 0);
}

static void test_clang(void **state)
{
	(void)state;
	if (system("command -v clang++ >/dev/null"))
		skip();
	if (run("clang++ -O2 -g -o clang p.cc 2>/dev/null"))
		skip();
	check("clang");
}

/* A reader that reads itself, stripped. */
static void test_go(void **state)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	(void)state;
	if (system("command -v go >/dev/null"))
		skip();
	self[n > 0 ? n : 0] = 0;
	assert_int_equal(run("tests=$(dirname %s) && CGO_ENABLED=0 GO111MODULE=off "
			     "GOCACHE=$tests/../gocache GOTOOLCHAIN=local "
			     "go build -o golines \"$OLDPWD/tests/unit/golines.go\" && "
			     "strip -s -o gobare golines && strip -g -o gosyms golines",
			     self),
			 0);
	reader = "./golines";
	check_against("gobare", "golines", false, 0);
	check_against("gosyms", "golines", false, 0);
	reader = ADDR2LINE;
	/* DWARF of Go 1.19 leaves out the calls in wrappers. */
	check_against("gobare", "golines", true, ADDRESSES / 100);
}

static void ignore(void *ctx, size_t i, const struct line_frame *f, size_t n)
{
	(void)ctx, (void)i, (void)f, (void)n;
}

/* A worker that dies of it is one file's loss: the next is read as before. */
static void test_damage(void **state)
{
	char path[128];
	uint64_t seed = 5, addrs[64];
	struct sandbox_stats before, after;
	int refused = 0;
	(void)state;
	sandbox_stats(sandbox, &before);
	for (int round = 0; round < 60; round++) {
		assert_int_equal(run("cp %s bad", round % 3 ? "gcc5" : "zstd"), 0);
		snprintf(path, sizeof(path), "%s/bad", dir);
		int fd = open(path, O_RDWR | O_CLOEXEC);
		off_t size = lseek(fd, 0, SEEK_END);
		for (int i = 0; i < 200; i++) { /* behind the code: the DWARF */
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			uint8_t v = (uint8_t)(seed >> 20);
			assert_int_equal(
				pwrite(fd, &v, 1,
				       size / 5 + (off_t)((seed >> 33) % (uint64_t)(size * 3 / 5))),
				1);
		}
		close(fd);
		struct binary *b = open_named("bad");
		for (int i = 0; i < 64; i++)
			addrs[i] = 0x1000 + (uint64_t)i * 0x80;
		if (b && binary_has_lines(b)) {
			refused += binary_lines(b, addrs, 64, ignore, NULL) != 0;
			binary_lines(b, addrs, 64, ignore, NULL);
		}
		binary_free(b);
	}
	sandbox_stats(sandbox, &after);
	print_message("60 damaged files: %d refused, %lu workers died, %lu late\n", refused,
		      after.died - before.died, after.late - before.late);
	check("gcc4");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gcc),	cmocka_unit_test(test_compressed),
		cmocka_unit_test(test_aranges), cmocka_unit_test(test_zstd),
		cmocka_unit_test(test_split),	cmocka_unit_test(test_clang),
		cmocka_unit_test(test_damage),	cmocka_unit_test(test_real),
		cmocka_unit_test(test_go),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
