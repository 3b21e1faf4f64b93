/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recipes: what is refused names file, line and key; patterns against fnmatch(3); accessors against
 * what their code does.
 */
#include "attribute/file_facts.h"
#include "attribute/paths.h"
#include "elf/accessor.h"
#include "labels/recipe.h"
#include "labels/rules.h"
#include "symbols/member.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int parse(struct recipes *r, const char *text, struct err *err)
{
	return recipes_parse(r, text, strlen(text), "t.recipe", err);
}

static void test_whole(void **state)
{
	struct recipes r = { .n = 0 };
	struct err err;
	(void)state;
	assert_int_equal(
		parse(&r,
		      "# a comment\n"
		      "recipe pg\t# another\n"
		      "file postgres\n"
		      "contains \"PostgreSQL 15. \\\"x\\\"\"\n"
		      "let be = symbol MyBEEntry +8 deref -16 # here too\n"
		      "label query_id = be i64 +0x1a8 nonzero\n"
		      "label state = be u32 and 0xff shift 4 names 1=idle \"2=in transaction\"\n"
		      "label app = be deref +240 cstr 63 +1\n"
		      "label s = be text 100 +8 +16\n"
		      "label n = be via f value\n"
		      "env TEAM as team\n"
		      "\n"
		      "recipe other\ntitle \"^(?<a>x)\"",
		      &err),
		0);
	assert_int_equal(r.n, 2);
	const struct recipe *p = r.v[0];
	assert_string_equal(p->text[0], "PostgreSQL 15. \"x\"");
	assert_int_equal(p->n_lines, 6);
	assert_int_equal(p->line[0].is_label, 0);
	assert_int_equal(p->line[0].word[0].imm, 8);
	assert_int_equal(p->line[0].word[1].imm, -16);
	assert_int_equal(p->line[1].word[1].imm, 0x1a8);
	assert_int_equal(p->line[1].line, 6);
	assert_int_equal(p->line[2].n_names, 2);
	assert_string_equal(p->line[2].names[1].name, "in transaction");
	assert_int_equal(p->line[4].word[1].imm2, 16);
	/* One of the same name takes its place. */
	assert_int_equal(parse(&r, "recipe pg\nenv X as y\n", &err), 0);
	assert_int_equal(r.n, 2);
	assert_int_equal(r.v[0]->n_lines, 0);
	recipes_fini(&r);
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "file x", "t.recipe:1: 'file' before the first 'recipe NAME'" },
		{ "recipe", "t.recipe:1: the recipe's name is missing" },
		{ "recipe a\nfile f\nlabel k u8", "t.recipe:3: k: '=' is missing" },
		{ "recipe a\nfile f\nlabel k = symbol",
		  "t.recipe:3: k: the symbol's name is missing" },
		{ "recipe a\nfile f\nlabel k = symbol s cstr 256",
		  "t.recipe:3: k: the number of bytes: 256 is not" },
		{ "recipe a\nfile f\nlabel k = symbol s cstr",
		  "t.recipe:3: k: the number of bytes is missing" },
		{ "recipe a\nfile f\nlabel k = symbol s deref", "t.recipe:3: k: it reads nothing" },
		{ "recipe a\nfile f\nlet k = symbol s u8", "t.recipe:3: k: a let is an address" },
		{ "recipe a\nfile f\nlabel k = deref u8", "t.recipe:3: k: a path begins with" },
		{ "recipe a\nfile f\nlabel k = symbol s symbol t u8",
		  "t.recipe:3: k: a path begins with" },
		{ "recipe a\nfile f\nlabel k = later u8\nlet later = symbol s",
		  "t.recipe:3: k: 'later' is neither" },
		{ "recipe a\nfile f\nlabel k = symbol s u8 deref",
		  "t.recipe:3: k: 'deref' behind a number" },
		{ "recipe a\nfile f\nlabel k = symbol s cstr 9 names 1=a",
		  "t.recipe:3: k: 'names' stands behind" },
		{ "recipe a\nfile f\nlabel k = symbol s u8 names a=1",
		  "t.recipe:3: k: names: 'a' is not a number" },
		{ "recipe a\nfile f\nlabel k = symbol s u8 shift 64",
		  "t.recipe:3: k: shift: 64 is not between" },
		{ "recipe a\nfile f\nlabel k = symbol s require u8 +1",
		  "t.recipe:3: k: what it must be is missing" },
		{ "recipe a\nfile f\nlabel k = symbol s require u4",
		  "t.recipe:3: k: require: 'main', or a number" },
		{ "recipe a\nfile f\nlabel k = symbol s field x u8",
		  "t.recipe:3: k: field x: it is struct.member" },
		{ "recipe a\nlabel k = symbol s u8",
		  "t.recipe:2: a: labels from memory need 'file'" },
		{ "recipe a\n\n\n", "t.recipe:3: a: the recipe has no labels" },
		{ "recipe a\nenv X y", "t.recipe:2: env: env VARIABLE as KEY" },
		{ "recipe a\ntitle \"(?<x\"", "t.recipe:2: title: " },
		{ "recipe a\ntitle \"(x)\"", "t.recipe:2: title: the pattern has no named group" },
		{ "recipe a\nfile \"b", "t.recipe:2: \"b: the quotation mark" },
		{ "recipe a\nfile b c", "t.recipe:2: file: 'c' is too much" },
		{ "recipe a\nwrong b", "t.recipe:2: 'wrong' is no word" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct recipes r = { .n = 0 };
		struct err err = { 0 };
		assert_int_equal(parse(&r, bad[i].text, &err), -EINVAL);
		if (strncmp(err.text, bad[i].says, strlen(bad[i].says)) != 0)
			fail_msg("'%s' says '%s', not '%s'", bad[i].text, err.text, bad[i].says);
		recipes_fini(&r);
	}
}

/* Limits, and the shipped recipes with bytes changed: an error or a recipe, never more. */
static void test_limits(void **state)
{
	struct recipes r = { .n = 0 };
	struct err err;
	char text[70000] = "recipe a\nfile f\n";
	size_t n = strlen(text);
	(void)state;
	for (int i = 0; i <= RECIPE_LINES_MAX; i++)
		n += (size_t)sprintf(text + n, "label k%d = symbol s u8\n", i);
	assert_int_equal(parse(&r, text, &err), -EINVAL);
	recipes_fini(&r);
	n = (size_t)sprintf(text, "recipe a\nfile f\nlabel k = symbol s");
	for (int i = 0; i <= RECIPE_WORDS_MAX; i++)
		n += (size_t)sprintf(text + n, " deref");
	assert_int_equal(parse(&r, text, &err), -EINVAL);
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	assert_int_equal(parse(&r, text, &err), -EINVAL);
	for (int i = 0; i <= RECIPES_MAX; i++) {
		sprintf(text, "recipe r%d\nenv A as b\n", i);
		assert_int_equal(parse(&r, text, &err), i < RECIPES_MAX ? 0 : -EINVAL);
	}
	recipes_fini(&r);
}

static void test_built_in(void **state)
{
	struct recipes r = { .n = 0 };
	struct err err = { 0 };
	unsigned seed = 3;
	(void)state;
	if (recipes_load_built_in(&r, &err))
		fail_msg("%s", err.text);
	assert_true(r.n >= 4);
	recipes_fini(&r);
	FILE *f = fopen("recipes/postgresql-15.recipe", "r");
	char text[4096], copy[4096];
	assert_non_null(f);
	size_t n = fread(text, 1, sizeof(text), f);
	fclose(f);
	for (int turn = 0; turn < 20000; turn++) {
		memcpy(copy, text, n);
		for (int k = 0; k < 3; k++)
			copy[(size_t)rand_r(&seed) % n] = (char)rand_r(&seed);
		char *exact = malloc(n);
		memcpy(exact, copy, n);
		if (recipes_parse(&r, exact, n, "x", &err))
			assert_true(err.text[0] == 'x' && err.text[1] == ':');
		free(exact);
		recipes_fini(&r);
	}
}

static void test_glob(void **state)
{
	unsigned seed = 4;
	(void)state;
	for (int turn = 0; turn < 200000; turn++) {
		char pattern[8] = "", text[8] = "";
		for (int i = 0, n = rand_r(&seed) % 7; i < n; i++)
			pattern[i] = "ab*?/"[rand_r(&seed) % 5];
		for (int i = 0, n = rand_r(&seed) % 7; i < n; i++)
			text[i] = "ab/"[rand_r(&seed) % 3];
		assert_int_equal(recipe_glob(pattern, text), fnmatch(pattern, text, 0) == 0);
	}
}

static void test_rules(void **state)
{
	static const char env[] = "A=1\0TEAM=storage\0TEAMS=x\0EMPTY=\0LONG=";
	static struct rule_labels l;
	struct recipes r = { .n = 0 };
	struct rules *rules = NULL;
	struct err err;
	char text[600];
	(void)state;
	assert_int_equal(
		parse(&r,
		      "recipe a\nfile worker\nenv TEAM as team\nenv EMPTY as empty\nenv NONE as none\nenv LONG as long\n"
		      "title \"job-(?<job>[0-9]+)( (?<user>\\\\w+))?\"\n"
		      "recipe b\ncgroup \"^/(?<top>[^/]+)\"\n",
		      &err),
		0);
	assert_int_equal(rules_new(&rules, &r, &err), 0);
	assert_true(rules_want_title(rules, "/usr/bin/worker"));
	assert_false(rules_want_title(rules, "/usr/bin/other"));
	assert_true(rules_want_environment(rules, "worker"));
	size_t n = sizeof(env) - 1;
	memcpy(text, env, n);
	memset(text + n, 'x', 254);
	memcpy(text + n + 254, "\xc3\xa9y", 3); /* the limit is inside of the character */
	rules_environment(rules, "/bin/worker", text, n + 257, &l);
	rules_title(rules, "/bin/worker", "worker: job-42", 14, &l);
	rules_title(rules, "/bin/other", "worker: job-42", 14, &l);
	rules_cgroup(rules, "/bin/other", "/system.slice/x.service", 23, &l);
	assert_int_equal(l.n, 4);
	assert_string_equal(l.v[0].key, "team");
	assert_int_equal(l.v[0].str_len, 7);
	assert_string_equal(l.v[1].key, "long");
	assert_int_equal(l.v[1].str_len, 254);
	assert_string_equal(l.v[2].key, "job");
	assert_memory_equal(l.v[2].str, "42", 2);
	assert_string_equal(l.v[3].key, "top");
	assert_memory_equal(l.v[3].str, "system.slice", 12);
	rules_free(rules);
	recipes_fini(&r);
}

/*
 * ---- functions that give a member: what was decoded, done by hand, gives what the function gives
 * ----
 */

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
struct inner {
	uint64_t pad[5], id;
	uint16_t small;
};
struct outer {
	uint64_t pad[40];
	struct inner *inner;
	uint32_t number;
	struct inner direct;
};

#define PLAIN __attribute__((noinline, noclone, optimize("O2"), used)) static
static struct outer global_outer;
static struct outer *volatile global_pointer = &global_outer;

PLAIN uint64_t get_id(const struct outer *o)
{
	return o->inner->id;
}
PLAIN uint64_t get_number(const struct outer *o)
{
	return o->number;
}
PLAIN uint64_t get_small(const struct outer *o)
{
	return o->inner->small;
}
PLAIN uint64_t get_direct(const struct outer *o)
{
	return (uint64_t)(uintptr_t)&o->direct;
}
PLAIN uint64_t get_checked(const struct outer *o)
{
	return o->inner ? o->inner->id : 0;
}
PLAIN uint64_t get_global(const struct outer *o)
{
	(void)o;
	return (uint64_t)(uintptr_t)global_pointer;
}
PLAIN uint64_t get_sum(const struct outer *o)
{
	return o->number + 1;
}

static uint64_t follow(const struct accessor_step *s, int n, uint64_t at)
{
	for (int i = 0; i < n; i++) {
		uint64_t v = 0;
		if (s[i].op == ACCESSOR_BASE)
			at = (uint64_t)s[i].imm; /* decoded with addresses of this process */
		else if (s[i].op == ACCESSOR_ADD)
			at += (uint64_t)s[i].imm;
		else if (s[i].op == ACCESSOR_LOAD) {
			memcpy(&v, (const void *)(uintptr_t)(at + (uint64_t)s[i].imm), s[i].size);
			at = v;
		}
	}
	return at;
}

static void test_accessors(void **state)
{
	struct inner inner = { .id = 0x1122334455667788ull, .small = 0xabcd };
	struct outer o = { .inner = &inner, .number = 0xfedcba98u };
	uint64_t (*const functions[])(const struct outer *) = {
		get_id, get_number, get_small, get_direct, get_checked, get_global
	};
	struct accessor_step s[ACCESSOR_STEPS_MAX];
	(void)state;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		const uint8_t *code = (const uint8_t *)(uintptr_t)functions[i];
		int n = accessor_decode(code, ACCESSOR_CODE_MAX, (uint64_t)(uintptr_t)code, s);
		if (n <= 0)
			fail_msg("function %zu is not understood: %d", i, n);
		assert_int_equal(follow(s, n, (uint64_t)(uintptr_t)&o), functions[i](&o));
	}
	const uint8_t *code = (const uint8_t *)(uintptr_t)get_sum;
	assert_int_equal(accessor_decode(code, ACCESSOR_CODE_MAX, 0, s), -EBADMSG);
	/* mov rax, [rip + ...]: its displacement is cut off, and no return */
	static const uint8_t cut[] = { 0x48, 0x8b, 0x05, 0xc3 };
	assert_int_equal(accessor_decode(cut, sizeof(cut), 0, s), -EBADMSG);
}
#else
static void test_accessors(void **state)
{
	(void)state;
	skip();
}
#endif

/* ---- members by DWARF: this program's own, against the compiler ---- */

struct dwarf_inner {
	char a;
	uint64_t b;
};
struct dwarf_outer {
	char pad[33];
	struct dwarf_inner inner;
	uint16_t small;
	void *last;
} dwarf_outer;
typedef struct {
	int x[7];
	long named_by_typedef;
} dwarf_anonymous;
dwarf_anonymous dwarf_anonymous_one;
union dwarf_union {
	char first;
	double second;
} dwarf_union;

static void test_members(void **state)
{
	static const struct {
		const char *type, *member;
		uint64_t at;
	} want[] = {
		{ "dwarf_inner", "b", offsetof(struct dwarf_inner, b) },
		{ "dwarf_outer", "pad", 0 },
		{ "dwarf_outer", "inner", offsetof(struct dwarf_outer, inner) },
		{ "dwarf_outer", "small", offsetof(struct dwarf_outer, small) },
		{ "dwarf_outer", "last", offsetof(struct dwarf_outer, last) },
		{ "dwarf_anonymous", "named_by_typedef",
		  offsetof(dwarf_anonymous, named_by_typedef) },
		{ "dwarf_union", "second", 0 },
	};
	uint64_t at;
	(void)state;
	int fd = open("/proc/self/exe", O_RDONLY);
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		at = 12345;
		int rc = member_offset(fd, want[i].type, want[i].member, &at);
		if (rc || at != want[i].at)
			fail_msg("%s.%s: %d, %llu", want[i].type, want[i].member, rc,
				 (unsigned long long)at);
	}
	assert_int_equal(member_offset(fd, "dwarf_outer", "none", &at), -ENOENT);
	assert_int_equal(member_offset(fd, "none", "b", &at), -ENOENT);
	close(fd);
}

/*
 * The same with bytes of the DWARF changed: an end, whichever, as libdw runs in a worker. Mostly it
 * is an answer.
 */
static void test_members_damaged(void **state)
{
	struct stat st;
	unsigned seed = 6, answers = 0, turns = 20;
	uint64_t at;
	(void)state;
	int fd = open("/proc/self/exe", O_RDONLY);
	assert_int_equal(fstat(fd, &st), 0);
	for (unsigned turn = 0; turn < turns; turn++) {
		int status, copy = memfd_create("damaged", MFD_CLOEXEC);
		assert_int_equal(sendfile(copy, fd, &(off_t){ 0 }, (size_t)st.st_size), st.st_size);
		for (int k = 0; k < 64; k++) {
			uint8_t byte = (uint8_t)rand_r(&seed);
			off_t place = st.st_size / 4 + (off_t)rand_r(&seed) % (st.st_size * 3 / 4);
			assert_int_equal(pwrite(copy, &byte, 1, place), 1);
		}
		pid_t pid = fork();
		if (!pid) {
			alarm(20);
			member_offset(copy, "dwarf_outer", "none", &at);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_false(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
		answers += WIFEXITED(status);
		close(copy);
	}
	close(fd);
	assert_true(answers >= turns * 3 / 4);
}

/* ---- what a worker answers about a file ---- */

extern __thread int otel_thread_ctx_v1;
__thread int otel_thread_ctx_v1 = 7;

static struct recipe *one_recipe(struct recipes *all, const char *text)
{
	struct err err;
	assert_int_equal(recipes_parse(all, text, strlen(text), "test", &err), 0);
	return all->v[0];
}

static void test_file_facts(void **state)
{
	struct buf out = BUF_INIT, cut = BUF_INIT;
	static struct file_facts f;
	(void)state;
	int fd = open("/proc/self/exe", O_RDONLY);
	const struct sandbox_request q = { .fds = &fd, .n_fds = 1 };
	assert_int_equal(file_facts_op(&q, &out), 0);
	assert_int_equal(file_facts_decode(&f, &out), 0);
	assert_true(f.executable && !f.musl && !f.go && f.tls_size && f.n == 1);
	assert_string_equal(f.v[0].name, "otel_thread_ctx_v1");
	assert_true(f.v[0].tls);
	/* What a worker that was taken over may answer. */
	static const struct {
		size_t at;
		uint8_t byte;
	} bad[] = {
		{ offsetof(struct file_facts, executable), 2 },
		{ offsetof(struct file_facts, n), ELF_VARIABLES_MAX + 1 },
		{ offsetof(struct file_facts, v[0].access), ELF_ACCESS_MODULE + 1 },
		{ offsetof(struct file_facts, v[0].tls), 255 },
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint8_t was = out.data[bad[i].at];
		out.data[bad[i].at] = bad[i].byte;
		assert_int_equal(file_facts_decode(&f, &out), -EBADMSG);
		out.data[bad[i].at] = was;
	}
	memset(out.data + offsetof(struct file_facts, v[0].name), 'a', ELF_VARIABLE_NAME_MAX);
	assert_int_equal(file_facts_decode(&f, &out), -EBADMSG);
	assert_int_equal(buf_add(&cut, out.data, out.len - 1), 0);
	assert_int_equal(file_facts_decode(&f, &cut), -EBADMSG);
	buf_fini(&cut);
	buf_fini(&out);
	close(fd);
}

static void test_file_path(void **state)
{
	static const char text[] =
		"recipe self\nfile *\nlabel at = symbol otel_thread_ctx_v1 field dwarf_outer.small u32\n";
	struct recipes all = { 0 };
	struct buf request = BUF_INIT, out = BUF_INIT;
	static struct path p;
	(void)state;
	int fd = open("/proc/self/exe", O_RDONLY);
	const struct recipe *r = one_recipe(&all, text);
	assert_int_equal(file_path_request(r, "/some/file", &request), 0);
	const struct sandbox_request q = {
		.bytes = request.data, .len = request.len, .fds = &fd, .n_fds = 1
	};
	assert_int_equal(file_path_op(&q, &out), 0);
	assert_int_equal(file_path_decode(&p, r, &out), 0);
	assert_int_equal(p.n_fields, 1);
	assert_string_equal(p.field[0].key, "at");
	assert_int_equal(p.step[0].op, STEP_FIELD);
	assert_int_equal(p.step[1].op, STEP_TP);
	assert_int_equal(p.step[2].op, STEP_ADD);
	assert_int_equal(p.step[2].imm, offsetof(struct dwarf_outer, small));
	/* Every byte changed: an answer that can be used, or a refusal. */
	unsigned refused = 0;
	for (size_t i = 0; i < out.len; i += 3) {
		out.data[i] ^= 0x5a;
		if (file_path_decode(&p, r, &out))
			refused++;
		else
			assert_true(p.n_steps <= LABEL_PATH_STEPS &&
				    p.start.access <= ELF_ACCESS_MODULE);
		out.data[i] ^= 0x5a;
	}
	assert_true(refused > 0);
	buf_fini(&out);
	buf_fini(&request);
	recipes_fini(&all);
	close(fd);
}

/* Any bytes: an answer, nothing read behind. */
static void test_accessors_random(void **state)
{
	static const uint8_t some[] = { 0x48, 0x8b, 0x8d, 0x05, 0x47, 0x87, 0xc3, 0x66,
					0x64, 0x04, 0x25, 0x0f, 0xb6, 0x85, 0xc0 };
	struct accessor_step s[ACCESSOR_STEPS_MAX];
	unsigned seed = 5;
	int understood = 0;
	(void)state;
	for (int turn = 0; turn < 300000; turn++) {
		size_t n = (size_t)rand_r(&seed) % 24;
		uint8_t *p = malloc(n + !n);
		for (size_t i = 0; i < n; i++)
			p[i] = rand_r(&seed) % 4 ? some[(size_t)rand_r(&seed) % sizeof(some)]
						 : (uint8_t)rand_r(&seed);
		int steps = accessor_decode(p, n, 0x1000, s);
		assert_true(steps == -EBADMSG || (steps > 0 && steps <= ACCESSOR_STEPS_MAX));
		understood += steps > 0;
		free(p);
	}
	assert_true(understood > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),	   cmocka_unit_test(test_refused),
		cmocka_unit_test(test_limits),	   cmocka_unit_test(test_built_in),
		cmocka_unit_test(test_glob),	   cmocka_unit_test(test_rules),
		cmocka_unit_test(test_members),	   cmocka_unit_test(test_members_damaged),
		cmocka_unit_test(test_file_facts), cmocka_unit_test(test_file_path),
		cmocka_unit_test(test_accessors),  cmocka_unit_test(test_accessors_random),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
