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
		w.text[which].bytes = 1;
		w.text[which].width = 3;
		assert_int_equal(script_name_read(&n, &w), -EBADMSG);
		script_name_fini(&n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_python), cmocka_unit_test(test_php),
		cmocka_unit_test(test_kinds),  cmocka_unit_test(test_ruby),
		cmocka_unit_test(test_perl),   cmocka_unit_test(test_wrong)
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
