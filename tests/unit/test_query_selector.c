/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "query/selector.h"

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
	memset(text, '(', 500);
	strcpy(text, "a=~\"");
	memset(text + 4, '(', 500);
	strcpy(text + 504, "\"");
	assert_int_equal(selector_parse(&s, text, NULL, &err), -EINVAL);
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
		selector_free(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matching),
		cmocka_unit_test(syntax_errors),
		cmocka_unit_test(limits),
		cmocka_unit_test(catastrophic),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
