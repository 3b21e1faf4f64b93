/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "query/selector.h"
#include "util/buf.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STR(k, v) \
	{ .key = (k), \
	  .str = (v), \
	  .key_len = sizeof(k) - 1, \
	  .str_len = sizeof(v) - 1, \
	  .type = LABEL_STRING }

static const struct label labels[] = {
	STR("comm", "sh"),
	STR("odd key", "q\"\n"),
	{ .key = "query_id", .num = -42, .key_len = 8, .type = LABEL_INT },
	STR("tenant", "acme"),
};

static bool matches(const char *text)
{
	struct selector *s;
	struct err err = { 0 };
	bool yes = false;
	if (selector_parse(&s, text, NULL, &err))
		fail_msg("%s", err.text);
	assert_int_equal(selector_match(s, labels, 4, &yes, &err), 0);
	selector_free(s);
	return yes;
}

static void matching(void **state)
{
	(void)state;
	static const char *const yes[] = {
		"",
		" ",
		"{}",
		"{ }",
		"tenant=\"acme\"",
		"{tenant=\"acme\"}",
		" { tenant = 'acme' , comm != `bash` , } ",
		"query_id=\"-42\"",
		"query_id=~\"-4.*\"",
		"query_id!~\"4.*\"",
		"none=\"\"",
		"none=~\"\"",
		"none=~\".*\"",
		"none!=\"x\"",
		"none!~\".+\"",
		"tenant!=\"\"",
		"tenant=~\"a.*e\"",
		"tenant=~\"x|acme\"",
		"tenant!~\"acm\"",
		"tenant!~\"cme\"",
		"\"odd key\"=\"q\\\"\\n\"",
		"\"odd key\"=~\"q..\"",
		"tenant=\"\\x61cme\"",
		"tenant=~`\\w+`",
		"tenant=~\"\\\\w+\"",
		"event=\"not of the set\"",
	};
	static const char *const no[] = {
		"tenant=\"acm\"",    "tenant=\"acme \"",
		"tenant=~\"acm\"",   "tenant=~\"cme\"",
		"tenant=\"\"",	     "tenant!=\"acme\"",
		"query_id=\"42\"",   "query_id=~\"\"",
		"none=\"x\"",	     "none=~\".+\"",
		"none!=\"\"",	     "none!~\"\"",
		"none!~\".*\"",	     "tenant=\"acme\",comm=\"bash\"",
		"Tenant=\"acme\"",   "tenant!~\"a.*\"",
		"tenant=~\"x|acm\"",
	};
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		if (!matches(yes[i]))
			fail_msg("does not match: %s", yes[i]);
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		if (matches(no[i]))
			fail_msg("matches: %s", no[i]);
}

static void syntax_errors(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		size_t at;
		const char *says;
	} v[] = {
		{ "{", 1, "expected , or }" },
		{ "}", 0, "expected ," },
		{ "tenant", 6, "expected = or" },
		{ "tenant=", 7, "quoted value" },
		{ "tenant=a", 7, "quoted value" },
		{ "tenant=\"a", 7, "not closed" },
		{ "tenant=\"a\" comm=\"b\"", 11, "expected ," },
		{ "{tenant=\"a\"} x", 13, "nothing behind }" },
		{ "{tenant=\"a\",,}", 12, "key of a label" },
		{ "tenant==\"a\"", 7, "quoted value" },
		{ "tenant!\"a\"", 6, "expected = or" },
		{ "tenant>\"a\"", 6, "expected = or" },
		{ "tenant=\"\\q\"", 8, "unknown escape" },
		{ "tenant=\"\\x4\"", 8, "unknown escape" },
		{ "tenant=~\"(\"", 8, "regular expression" },
		{ "a=\"b\",tenant=~\"*\"", 14, "regular expression" },
		{ "tenant=~\"(*UTF)a\"", 8, "regular expression" },
		{ "tenant=~\"(((a{999}){999}){999}){99}\"", 8, "regular expression" },
	};
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct selector *s;
		struct err err = { 0 };
		size_t at = 999;
		char column[32];
		assert_int_equal(selector_parse(&s, v[i].text, &at, &err), -EINVAL);
		snprintf(column, sizeof(column), "column %zu:", v[i].at + 1);
		if (at != v[i].at || !strstr(err.text, v[i].says) || !strstr(err.text, column))
			fail_msg("%s: at %zu: %s", v[i].text, at, err.text);
	}
}

static void limits(void **state)
{
	(void)state;
	char text[8000];
	struct selector *s;
	struct err err = { 0 };
	strcpy(text, "a=~\"");
	memset(text + 4, 'x', 5000);
	strcpy(text + 5004, "\"");
	assert_int_equal(selector_parse(&s, text, NULL, &err), -EINVAL);
	text[0] = 0;
	for (int i = 0; i < 65; i++)
		strcat(text, "a=\"\",");
	assert_int_equal(selector_parse(&s, text, NULL, &err), -EINVAL);
	assert_non_null(strstr(err.text, "64"));
	text[64 * 5] = 0;
	assert_int_equal(selector_parse(&s, text, NULL, &err), 0);
	selector_free(s);
	memset(text, '(', 500);
	strcpy(text, "a=~\"");
	memset(text + 4, '(', 500);
	strcpy(text + 504, "\"");
	assert_int_equal(selector_parse(&s, text, NULL, &err), -EINVAL);
	/* Parentheses a hundred deep, and one more; a pattern as long as may be, and a byte more */
	for (int deep = 100; deep <= 101; deep++) {
		memset(text + 4, '(', (size_t)deep);
		memset(text + 4 + deep, ')', (size_t)deep);
		strcpy(text + 4 + 2 * deep, "\"");
		assert_int_equal(selector_parse(&s, text, NULL, &err), deep > 100 ? -EINVAL : 0);
		if (deep == 100)
			selector_free(s);
	}
	for (int len = 4096; len <= 4097; len++) {
		memset(text + 4, 'x', (size_t)len);
		strcpy(text + 4 + len, "\"");
		assert_int_equal(selector_parse(&s, text, NULL, &err), len > 4096 ? -EINVAL : 0);
		if (len == 4096)
			selector_free(s);
	}
}

/* Each byte: as a key, and by its number in an escape, in upper and in lower case. */
static void bytes(void **state)
{
	(void)state;
	for (int c = 1; c < 256; c++) {
		char text[40], value[2] = { (char)c, 0 };
		const struct label l = { .key = "k", .key_len = 1, .str = value, .str_len = 1 };
		bool may = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			   (c >= '0' && c <= '9') || strchr("_:.-/", c);
		struct selector *s;
		struct err err = { 0 };
		for (int upper = 0; upper < 2; upper++) {
			bool yes = false;
			snprintf(text, sizeof(text), upper ? "k=\"\\x%02X\"" : "k=\"\\x%02x\"", c);
			assert_int_equal(selector_parse(&s, text, NULL, &err), 0);
			assert_int_equal(selector_match(s, &l, 1, &yes, &err), 0);
			assert_true(yes);
			selector_free(s);
		}
		snprintf(text, sizeof(text), "a%c=\"v\"", c);
		bool before = strchr(" \t\n\v\f\r!", c) != NULL; /* of the operator */
		bool ok = !selector_parse(&s, text, NULL, &err);
		if (ok != (may || before))
			fail_msg("byte %d in a key", c);
		if (ok)
			selector_free(s);
		/* One that is no digit, in either place of an escape; a known escape */
		for (int place = 0; place < 2; place++) {
			snprintf(text, sizeof(text),
				 place ? "k=`a`,k=\"\\x1%c\"" : "k=`a`,k=\"\\x%c1\"", c);
			ok = !selector_parse(&s, text, NULL, &err);
			assert_int_equal(ok, isxdigit(c) != 0);
			if (ok)
				selector_free(s);
		}
		if (c == 'x')
			continue;
		snprintf(text, sizeof(text), "k=\"\\%c\"", c);
		ok = !selector_parse(&s, text, NULL, &err);
		assert_int_equal(ok, strchr("ntr\\\"'", c) != NULL);
		if (ok)
			selector_free(s);
	}
}

/* What a selector says of its matchers, and whether it names an event or a class of waits. */
static void parts(void **state)
{
	static const char text[] =
		"a=\"1\",event=\"e\",b!=\"2\",wait=~\"l.*\",c=\"\",d!~\"4\",a=\"5\"";
	static const struct selector_matcher want[] = {
		{ .key = "a", .value = "1" },
		{ .key = "event", .value = "e" },
		{ .key = "b", .value = "2", .negated = true },
		{ .key = "wait", .value = "l.*", .regex = true },
		{ .key = "c", .value = "" },
		{ .key = "d", .value = "4", .regex = true, .negated = true },
		{ .key = "a", .value = "5" },
	};
	static const char *const keys[] = { "a", "b", "c", "d", "a" };
	const char *got[8] = { NULL }, *key, *value;
	struct selector_matcher m;
	struct selector *s;
	struct err err = { 0 };
	size_t len;
	bool yes;
	(void)state;
	assert_int_equal(selector_parse(&s, text, NULL, &err), 0);
	for (size_t i = 0; i < 7; i++) {
		assert_true(selector_matcher(s, i, &m));
		assert_string_equal(m.key, want[i].key);
		assert_int_equal(m.value_len, strlen(want[i].value));
		assert_memory_equal(m.value, want[i].value, m.value_len);
		assert_int_equal(m.regex, want[i].regex);
		assert_int_equal(m.negated, want[i].negated);
		/* one value, of a set, and not the empty one */
		bool equal = selector_equal(s, i, &key, &value, &len);
		assert_int_equal(equal, i == 0 || i == 6);
		if (equal) {
			assert_string_equal(key, "a");
			assert_int_equal(len, 1);
			assert_int_equal(*value, i ? '5' : '1');
		}
	}
	assert_false(selector_matcher(s, 7, &m) || selector_equal(s, 7, &key, &value, &len));
	for (size_t cap = 0; cap < 7; cap++) {
		memset(got, 0, sizeof(got));
		assert_int_equal(selector_keys(s, got, cap), 5);
		for (size_t i = 0; i < 5; i++)
			if (i < cap)
				assert_string_equal(got[i], keys[i]);
			else
				assert_null(got[i]);
	}
	assert_true(selector_names_event(s) && selector_names_wait(s));
	assert_int_equal(selector_match_event(s, "e", &yes, &err), 0);
	assert_true(yes);
	assert_int_equal(selector_match_event(s, "lock", &yes, &err), 0);
	assert_false(yes);
	assert_int_equal(selector_match_wait(s, "lock", &yes, &err), 0);
	assert_true(yes);
	assert_int_equal(selector_match_wait(s, "e", &yes, &err), 0);
	assert_false(yes);
	selector_free(s);
	/* Names that are nearly those, and keys with bytes besides */
	assert_int_equal(
		selector_parse(&s, "events=\"e\",wai=\"e\",eventx=\"\",WAIT=\"\"", NULL, &err), 0);
	assert_false(selector_names_event(s) || selector_names_wait(s));
	selector_free(s);
	selector_free(NULL);
}

/* Two selectors of which no label set matches both, as far as one matcher of each says so. */
static void excluding(void **state)
{
	static const struct {
		const char *a, *b;
		bool excludes;
	} v[] = {
		{ "k=\"1\"", "k=\"2\"", true },		{ "k=\"1\"", "k=\"1\"", false },
		{ "k=\"1\"", "k!=\"1\"", true },	{ "k=\"1\"", "k!=\"2\"", false },
		{ "k!=\"1\"", "k!=\"1\"", false },	{ "k=\"1\"", "j=\"2\"", false },
		{ "k=\"\"", "k=\"1\"", true },		{ "k=\"\"", "k!=\"\"", true },
		{ "k=\"\"", "k=\"\"", false },		{ "k=~\"1\"", "k=\"2\"", false },
		{ "k=\"1\"", "k!~\"1\"", false },	{ "event=\"1\"", "event=\"2\"", false },
		{ "j=\"1\",k=\"1\"", "k=\"2\"", true }, { "k=\"12\"", "k!=\"1\"", false },
		{ "k=\"1\"", "kk=\"2\"", false },	{ "", "k=\"1\"", false },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct selector *a, *b;
		struct err err = { 0 };
		assert_int_equal(selector_parse(&a, v[i].a, NULL, &err), 0);
		assert_int_equal(selector_parse(&b, v[i].b, NULL, &err), 0);
		if (selector_excludes(a, b) != v[i].excludes ||
		    selector_excludes(b, a) != v[i].excludes)
			fail_msg("%s, %s", v[i].a, v[i].b);
		selector_free(a);
		selector_free(b);
	}
}

static void catastrophic(void **state)
{
	(void)state;
	static const char *const patterns[] = { "v=~\"(a+)+[bc]\"", "v=~\"(a|aa)+[bc]\"",
						"v!~\"(?:a*b?)*[cd]\"",
						"v=~\"(*NO_JIT)(a+)+[bc]\"" };
	char value[2001];
	memset(value, 'a', 2000);
	value[2000] = '!';
	struct label l = { .key = "v", .key_len = 1, .str = value, .str_len = 2001 };
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		struct selector *s;
		struct err err = { 0 };
		bool yes;
		assert_int_equal(selector_parse(&s, patterns[i], NULL, &err), 0);
		assert_int_equal(selector_match(s, &l, 1, &yes, &err), -E2BIG);
		assert_non_null(strstr(err.text, "too many steps"));
		assert_non_null(strstr(err.text, "column 4"));
		/* the pattern, and what fits of the value */
		const char *shown = strstr(err.text, "the value ");
		assert_non_null(shown);
		assert_int_equal(strspn(shown + 10, "a"), 100);
		assert_int_equal(shown[110], ';');
		selector_free(s);
	}
}

/* Matchers of two selectors in one: without braces, blanks around them or a comma at the end. */
static void added(void **state)
{
	static const char *const v[][2] = {
		{ NULL, "" },
		{ "", "" },
		{ " \t", "" },
		{ "{}", "" },
		{ "\n{ }\v", "" },
		{ "a=\"b\"", "a=\"b\"," },
		{ " a=\"b\", ", "a=\"b\"," },
		{ "\r{\fa=\"b\" , c!=\"d\"\v,\n}\t", "a=\"b\" , c!=\"d\"," },
		{ "{\"{\"=\"}\"}", "\"{\"=\"}\"," },
	};
	struct buf b = BUF_INIT;
	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		b.len = 0;
		assert_int_equal(buf_add_u8(&b, '<'), 0);
		assert_int_equal(selector_add_matchers(&b, v[i][0]), 0);
		assert_int_equal(buf_add_u8(&b, 0), 0);
		assert_string_equal((const char *)b.data + 1, v[i][1]);
	}
	buf_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matching),	cmocka_unit_test(syntax_errors),
		cmocka_unit_test(limits),	cmocka_unit_test(bytes),
		cmocka_unit_test(parts),	cmocka_unit_test(excluding),
		cmocka_unit_test(catastrophic), cmocka_unit_test(added),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
