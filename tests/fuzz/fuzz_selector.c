/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: selectors, ours and of Pyroscope's clients. The first line is one, the others are
 * label sets "key=value,key=value" or selectors; numbers are integers. What is accepted answers
 * everything, and excludes nothing that it matches.
 *
 * Covers: query/selector.c http/pyro_selector.c
 */
#include "fuzz/input.h"
#include "fuzz/label_set.h"
#include "http/pyro_selector.h"
#include "query/selector.h"

static void describe(const struct selector *s)
{
	const char *keys[SELECTOR_KEYS_MAX], *key, *value;
	struct selector_matcher m;
	size_t len;
	require(selector_keys(s, keys, SELECTOR_KEYS_MAX) <= SELECTOR_KEYS_MAX);
	selector_names_event(s);
	selector_names_wait(s);
	for (size_t i = 0; selector_matcher(s, i, &m); i++)
		if (i < SELECTOR_KEYS_MAX && selector_equal(s, i, &key, &value, &len))
			require(len > 0);
}

static void translate(char *text)
{
	static const struct store_event event = { .name = "cpu-clock", .unit = "samples" };
	char *keys[] = { "http.route", "comm" }, *names[] = { "http_route", "comm" };
	const struct pyro_names n = { keys, names, 2, 2 };
	char *out = NULL, type[20];
	struct err err;
	pyro_selector_type(&text, 1, type, sizeof(type));
	require(strlen(type) < sizeof(type));
	if (!pyro_selector(&n, &event, &text, 1, &out, &err)) {
		struct selector *s = NULL;
		if (!selector_parse(&s, out, NULL, &err))
			selector_free(s);
	}
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct selector *s = NULL, *other = NULL;
	struct err err = { 0 };
	size_t at = SIZE_MAX;
	char *text = take_line(&in);
	bool match, also, excluded = false;
	if (selector_parse(&s, text, &at, &err)) {
		require(at <= strlen(text) || at == SIZE_MAX);
		translate(text);
		free(text);
		return 0;
	}
	describe(s);
	selector_match_event(s, "cpu-clock", &match, &err);
	selector_match_wait(s, "lock", &match, &err);
	while (in.left) {
		struct label v[LABEL_SET_MAX];
		char *line = take_line(&in);
		if (!other && line[0] == '{') {
			if (selector_parse(&other, line, NULL, &err))
				other = NULL;
			else
				excluded = selector_excludes(s, other);
		} else {
			size_t n = labels_of(line, v);
			if (!selector_match(s, v, n, &match, &err) && match && other &&
			    !selector_match(other, v, n, &also, &err) && also)
				require(!excluded);
		}
		free(line);
	}
	translate(text);
	selector_free(other);
	selector_free(s);
	free(text);
	return 0;
}
