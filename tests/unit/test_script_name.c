/* SPDX-License-Identifier: Apache-2.0 */
/* Names of script frames, from records that a process may have falsified. */
#include "stacks/script_name.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "perl_wire.h"
#include "luajit_wire.h"
#include "php_wire.h"
#include "ruby_wire.h"

#include <cmocka.h>

static struct wire_script record_of(enum script_language language, uint32_t kind)
{
	return (struct wire_script){ .id = SCRIPT_WORD(0x1234567800ull, language), .kind = kind };
}

static void set(struct wire_script *w, enum script_text which, uint32_t width, const void *text,
		uint32_t bytes)
{
	w->text[which].bytes = bytes;
	w->text[which].width = width;
	memcpy(w->text[which].text, text, bytes);
}

static void expect(const struct wire_script *w, const char *function, const char *file)
{
	struct script_name n = { .function = BUF_INIT };
	assert_int_equal(script_name_read(&n, w), 0);
	assert_string_equal((const char *)n.function.data, function);
	assert_string_equal((const char *)n.file.data, file);
	assert_int_equal(n.function.len, strlen(function) + 1);
	assert_int_equal(n.file.len, strlen(file) + 1);
	script_name_fini(&n);
}

static void test_python(void **state)
{
	(void)state;
	struct wire_script w = record_of(SCRIPT_PYTHON, 0);
	expect(&w, "[unknown]", "");
	set(&w, SCRIPT_NAME, 1, "gr\xf6\xdf\x65", 5);
	set(&w, SCRIPT_FILE, 2, "a\0\x3a\x04", 4);
	expect(&w, "gr\xc3\xb6\xc3\x9f\x65", "a\xd0\xba");
	set(&w, SCRIPT_NAME, 4, "\x48\xf6\x01\0\n\0\0\0\0\xd8\0\0", 12);
	expect(&w, "\xf0\x9f\x99\x88??", "a\xd0\xba");
}

static void test_php(void **state)
{
	(void)state;
	struct wire_script w = record_of(SCRIPT_PHP, PHP_FUNCTION);
	set(&w, SCRIPT_FILE, 0, "/srv/a.php", 10);
	set(&w, SCRIPT_NAME, 0, "gr\xc3\xb6\xc3\x9f\x65", 7);
	expect(&w, "gr\xc3\xb6\xc3\x9f\x65", "/srv/a.php");
	set(&w, SCRIPT_CLASS, 0, "class@anonymous\0/srv/a.php:3$0", 30);
	set(&w, SCRIPT_NAME, 0, "\xff\n", 2);
	expect(&w, "class@anonymous::\xef\xbf\xbd?", "/srv/a.php");
}

static void test_kinds(void **state)
{
	(void)state;
	struct wire_script w = record_of(SCRIPT_PHP, PHP_MAIN);
	set(&w, SCRIPT_FILE, 0, "/srv/a.php", 10);
	expect(&w, "{main}", "/srv/a.php");
	w.kind = PHP_INCLUDE;
	expect(&w, "include(a.php)", "/srv/a.php");
	set(&w, SCRIPT_FILE, 0, "b.php", 5);
	expect(&w, "include(b.php)", "b.php");
	w.kind = PHP_EVAL;
	expect(&w, "{eval}", "b.php");
	w.kind = PHP_FUNCTION;
	expect(&w, "[unknown]", "b.php");
}

static void test_ruby(void **state)
{
	(void)state;
	struct wire_script w = record_of(SCRIPT_RUBY, RUBY_OF_INSTANCES);
	expect(&w, "[unknown]", "");
	set(&w, SCRIPT_FILE, 0, "/srv/a.rb", 9);
	set(&w, SCRIPT_NAME, 0, "gr\xc3\xb6\xc3\x9f\x65", 7);
	expect(&w, "gr\xc3\xb6\xc3\x9f\x65", "/srv/a.rb");
	set(&w, SCRIPT_NAME, 0, "block (2 levels) in run", 23);
	expect(&w, "block (2 levels) in run", "/srv/a.rb");
	set(&w, SCRIPT_CLASS, 0, "App::Walk", 9);
	expect(&w, "block (2 levels) in App::Walk#run", "/srv/a.rb");
	w.kind = RUBY_OF_CLASS;
	set(&w, SCRIPT_NAME, 0, "<=>", 3);
	expect(&w, "App::Walk.<=>", "/srv/a.rb");
	set(&w, SCRIPT_NAME, 0, "block in <class:Walk>", 21);
	expect(&w, "block in <class:Walk>", "/srv/a.rb");
	set(&w, SCRIPT_NAME, 0, " in ", 4);
	expect(&w, " in App::Walk.", "/srv/a.rb");
}

static void test_perl(void **state)
{
	(void)state;
	struct wire_script w = record_of(SCRIPT_PERL, PERL_SUB);
	expect(&w, "[unknown]", "");
	set(&w, SCRIPT_FILE, 0, "/srv/a.pm", 9);
	set(&w, SCRIPT_NAME, 1, "gr\xf6\xdf\x65", 5);
	expect(&w, "gr\xc3\xb6\xc3\x9f\x65", "/srv/a.pm");
	set(&w, SCRIPT_CLASS, 1, "App::Walk", 9);
	set(&w, SCRIPT_NAME, 1, "__ANON__", 8);
	expect(&w, "App::Walk::__ANON__", "/srv/a.pm");
	w = record_of(SCRIPT_PERL, PERL_FILE);
	set(&w, SCRIPT_FILE, 0, "/srv/a.pm", 9);
	expect(&w, "require(a.pm)", "/srv/a.pm");
	static const char *const names[] = { [PERL_MAIN] = "{main}",
					     [PERL_EVAL] = "{eval}",
					     [PERL_SORT] = "{sort}",
					     [PERL_REGEX] = "{regex}" };
	for (w.kind = PERL_EVAL; w.kind <= PERL_REGEX; w.kind++)
		expect(&w, names[w.kind], "/srv/a.pm");
	w.kind = PERL_MAIN;
	expect(&w, names[w.kind], "/srv/a.pm");
}

/* What LuaJIT 2.1.0-beta3 has for f in: local upper, lower; local function f(a, b) */
static const char upvalues[] = "upper\0lower";
static const char locals[] = "a\0\x00\x19"
			     "b\0\x00\x19"
			     "c\0\x04\x15"
			     "\x01\x03\x08\x02\x00\x08\x03\x00\x08"
			     "i\0\x01\x06"
			     "d\0\x01\x05"
			     "\x04\x09\x06\x05\x00\x06\x06\x00\x06"
			     "k\0\x01\x03"
			     "v\0\x00\x03";

static void expect_local(uint32_t slot, uint32_t position, const char *name)
{
	struct wire_script w = record_of(SCRIPT_LUAJIT, LUAJIT_KIND(LUAJIT_LOCAL, LUAJIT_LUA, 0));
	set(&w, SCRIPT_FILE, LUAJIT_FILE_WIDTH('@', 2), "/srv/v.lua", 10);
	/* Cut in the middle of a name: the rest is in the other text */
	set(&w, SCRIPT_NAME, slot, locals, 5);
	set(&w, SCRIPT_CLASS, position, locals + 5, sizeof(locals) - 5);
	expect(&w, name, "/srv/v.lua");
}

static void test_luajit_variables(void **state)
{
	(void)state;
	struct wire_script w = record_of(SCRIPT_LUAJIT, LUAJIT_KIND(LUAJIT_UPVALUE, LUAJIT_LUA, 0));
	set(&w, SCRIPT_NAME, 0, upvalues, sizeof(upvalues));
	expect(&w, "upper", "");
	w.text[SCRIPT_NAME].width = 1;
	expect(&w, "lower", "");
	w.text[SCRIPT_NAME].width = UINT32_MAX;
	expect(&w, ":0", "");
	expect_local(0, 2, "a <v.lua:2>");
	expect_local(1, 20, "b <v.lua:2>");
	expect_local(2, 8, "c");
	expect_local(3, 10, "(for index)");
	expect_local(6, 12, "i");
	expect_local(7, 12, "d");
	expect_local(3, 19, "(for generator)");
	expect_local(6, 19, "k");
	expect_local(7, 19, "v");
	expect_local(2, 3, "v.lua:2"); /* c is not there yet */
	expect_local(9, 19, "v.lua:2");
	expect_local(UINT32_MAX, UINT32_MAX, "v.lua:2");
}

static void test_luajit(void **state)
{
	(void)state;
	struct wire_script w = record_of(SCRIPT_LUAJIT, LUAJIT_KIND(0, LUAJIT_CHUNK, 0));
	set(&w, SCRIPT_FILE, LUAJIT_FILE_WIDTH('@', 0), "/srv/v.lua", 10);
	expect(&w, "main chunk", "/srv/v.lua");
	w.kind = LUAJIT_KIND(LUAJIT_NAMED, LUAJIT_LUA, 0);
	set(&w, SCRIPT_NAME, 0, "gr\xc3\xb6\xc3\x9f\x65\n", 8);
	expect(&w, "gr\xc3\xb6\xc3\x9f\x65?", "/srv/v.lua");
	w.kind = LUAJIT_KIND(LUAJIT_METAMETHOD, LUAJIT_LUA, 0);
	set(&w, SCRIPT_NAME, 56, "", 0); /* TGETV */
	expect(&w, "__index", "/srv/v.lua");
	w.text[SCRIPT_NAME].width = 34; /* MULVV */
	expect(&w, "__mul", "/srv/v.lua");
	w.text[SCRIPT_NAME].width = UINT32_MAX;
	set(&w, SCRIPT_FILE, LUAJIT_FILE_WIDTH('l', 7), "ocal a\nb", 8);
	expect(&w, "[string \"local a...\"]:7", "[string \"local a...\"]");
	set(&w, SCRIPT_FILE, LUAJIT_FILE_WIDTH('=', 7), "stdin", 5);
	expect(&w, "stdin:7", "stdin");
	set(&w, SCRIPT_FILE, 0, "", 0);
	w.kind = LUAJIT_KIND(0, LUAJIT_C, 1);
	expect(&w, "[C]", "");
	w.kind = LUAJIT_KIND(0, LUAJIT_BUILTIN, 36);
	expect(&w, "[builtin#36]", "");
}

static void test_wrong(void **state)
{
	(void)state;
	for (int i = 0; i < SCRIPT_LANGUAGES * SCRIPT_TEXTS; i++) {
		struct wire_script w = record_of((enum script_language)(i / SCRIPT_TEXTS), 0);
		const int which = i % SCRIPT_TEXTS;
		struct script_name n = { .function = BUF_INIT };
		memset(w.text[which].text, 'x', SCRIPT_TEXT_MAX);
		w.text[which].bytes = SCRIPT_TEXT_MAX;
		assert_int_equal(script_name_read(&n, &w), 0);
		w.text[which].bytes++;
		assert_int_equal(script_name_read(&n, &w), -EBADMSG);
		if (i / SCRIPT_TEXTS == SCRIPT_LUAJIT)
			w.text[which].bytes = UINT32_MAX; /* any width */
		else
			w.text[which].bytes = 1;
		w.text[which].width = 3;
		assert_int_equal(script_name_read(&n, &w), -EBADMSG);
		script_name_fini(&n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_python),
					    cmocka_unit_test(test_php),
					    cmocka_unit_test(test_kinds),
					    cmocka_unit_test(test_ruby),
					    cmocka_unit_test(test_perl),
					    cmocka_unit_test(test_luajit),
					    cmocka_unit_test(test_luajit_variables),
					    cmocka_unit_test(test_wrong) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
