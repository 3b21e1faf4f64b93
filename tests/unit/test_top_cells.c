/* SPDX-License-Identifier: Apache-2.0 */
/* Text in the cells of ascribe top, beside what the C library says of its width. */
#include "unit/store_model.h"

#include "top/cells.h"
#include "util/utf8.h"

#include <locale.h>
#include <wchar.h>

static const struct {
	const char *text;
	size_t width;
	bool utf8;
	const char *shown;
	size_t columns;
} fits[] = {
	{ "plain", 10, true, "plain", 5 },
	{ "plain", 5, true, "plain", 5 },
	{ "plain", 4, true, "pla\xe2\x80\xa6", 4 },
	{ "plain", 4, false, "pla~", 4 },
	{ "plain", 0, true, "", 0 },
	{ "", 3, true, "", 0 },
	{ "a\033[31mb", 20, true, "a\\x1b[31mb", 10 },
	{ "a\nb\tc", 20, true, "a\\x0ab\\x09c", 11 },
	{ "a\xff"
	  "b",
	  20, true, "a\\xffb", 6 },
	{ "a\xc2\x9b"
	  "31m",
	  30, true, "a\\xc2\\x9b31m", 12 },
	/* right-to-left override, zero width space, tags */
	{ "a\xe2\x80\xae"
	  "b",
	  30, true, "a\\xe2\\x80\\xaeb", 14 },
	{ "a\xe2\x80\x8b"
	  "b",
	  30, true, "a\\xe2\\x80\\x8bb", 14 },
	{ "\xf3\xa0\x81\x81", 30, true, "\\xf3\\xa0\\x81\\x81", 16 },
	{ "\xe6\x97\xa5\xe6\x9c\xac", 4, true, "\xe6\x97\xa5\xe6\x9c\xac", 4 },
	{ "\xe6\x97\xa5\xe6\x9c\xac", 3, true, "\xe6\x97\xa5\xe2\x80\xa6", 3 },
	{ "\xe6\x97\xa5\xe6\x9c\xac", 2, true, "\xe2\x80\xa6", 1 },
	{ "\xe6\x97\xa5\xe6\x9c\xac", 4, false, "??", 2 },
	{ "gr\xc3\xbc\xc3\x9f", 4, true, "gr\xc3\xbc\xc3\x9f", 4 },
	/* two marks may stand on a letter, not a third, and none on nothing */
	{ "e\xcc\x81\xcc\x81x", 9, true, "e\xcc\x81\xcc\x81x", 2 },
	{ "e\xcc\x81\xcc\x81\xcc\x81", 30, true, "e\xcc\x81\xcc\x81\\xcc\\x81", 9 },
	{ "\xcc\x81", 30, true, "\\xcc\\x81", 8 },
	/* an escape is not halved */
	{ "ab\x01"
	  "cd",
	  5, true, "ab\xe2\x80\xa6", 3 },
};

static void cells(void **state)
{
	char out[100];
	(void)state;
	for (size_t i = 0; i < sizeof(fits) / sizeof(fits[0]); i++) {
		size_t n = cells_fit(out, sizeof(out), fits[i].text, fits[i].width, fits[i].utf8);
		assert_string_equal(out, fits[i].shown);
		assert_int_equal(n, fits[i].columns);
		if (n < fits[i].width)
			continue;
		assert_true(n <= fits[i].width);
	}
	/* The room ends before the width does. */
	assert_int_equal(cells_fit(out, 8, "abcdefghijkl", 100, true), 5);
	assert_string_equal(out, "abcd\xe2\x80\xa6");
}

static void random_text(struct model *m, char *out, size_t cap)
{
	static const char *const pieces[] = { "a",	  "\033[2J",	  "\xe2\x80\xae",
					      "\xcc\x81", "\xe6\x97\xa5", "\xf0\x9f\x98\x80",
					      "\xff",	  "\xe2\x80",	  "\r",
					      "\x7f",	  "\xc2\x85",	  "x y",
					      "\xd7\x90", "\xe1\x84\x80", "\xf4\x8f\xbf\xbf" };
	size_t n = model_random(m, 20);
	out[0] = 0;
	for (size_t i = 0; i < n; i++) {
		char one[5] = { (char)(1 + model_random(m, 255)) };
		const char *p =
			model_random(m, 3)
				? pieces[model_random(m, sizeof(pieces) / sizeof(pieces[0]))]
				: one;
		if (strlen(out) + strlen(p) < cap)
			strcat(out, p);
	}
}

/*
 * Whatever comes in: what goes out is whole characters that fill as many cells as is said, no more
 * than there are.
 */
static void any_bytes(void **state)
{
	struct model m = { .random = 4711 };
	(void)state;
	for (int i = 0; i < 50000; i++) {
		char text[200], out[100];
		wchar_t wide[100];
		size_t width = model_random(&m, 30), len;
		random_text(&m, text, sizeof(text));
		size_t n = cells_fit(out, sizeof(out), text, width, true);
		size_t chars = mbstowcs(wide, out, 100);
		assert_true(chars != (size_t)-1 && chars < 100);
		assert_int_equal(wcswidth(wide, chars), n); /* -1 when a control is in it */
		assert_true(n <= width);
		for (const char *p = out; *p; p += len) {
			len = utf8_char(p, strlen(p));
			assert_true(len && !utf8_is_hidden(p, len));
		}
		assert_true(cells_fit(out, sizeof(out), text, width, false) <= width);
		for (const char *p = out; *p; p++)
			assert_true(*p >= 0x20 && *p < 0x7f);
		if (n < width)
			assert_true(n == cells_width(text, true) || strstr(out, "\xe2\x80\xa6") ||
				    !*out || n + 16 > width);
	}
}

static int setup(void **state)
{
	(void)state;
	assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cells),
		cmocka_unit_test(any_bytes),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
