/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: rules of which labels are kept, against the same by a walk over all rules. The input
 * is lines: "+KEY" keep, "-KEY" drop, "!KEY" redact; another line is a key to be asked for.
 *
 * Covers: labels/filter.c labels/redact.c
 */
#include "fuzz/input.h"
#include "labels/filter.h"

#include <errno.h>

#define LINES 64

static const char credential[] = "https://user:pa55word@host/";

static struct filter_rule rules[LINES];
static char *texts[LINES], *asked[LINES];

static int expected(size_t n, const char *key, size_t len)
{
	int found = -1;
	size_t best = 0;
	bool keep = false;
	for (size_t i = 0; i < n; i++) {
		size_t m = strlen(rules[i].text);
		bool prefix = m && rules[i].text[m - 1] == '*';
		m -= prefix;
		keep |= rules[i].action == FILTER_KEEP;
		if (m > len || memcmp(rules[i].text, key, m) || (!prefix && m != len))
			continue;
		size_t score = prefix ? m + 1 : 100000;
		if (score >= best) {
			best = score;
			found = (int)rules[i].action;
		}
	}
	return found >= 0 ? found : keep ? FILTER_DROP : FILTER_KEEP;
}

static bool said_twice(size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			if (!strcmp(rules[i].text, rules[k].text))
				return true;
	return false;
}

/* More rules than a filter takes. */
static void refuse_many(void)
{
	static struct filter_rule many[FILTER_RULES_MAX + 1];
	struct label_filter *f;
	struct err err;
	require(filter_new(&f, many, FILTER_RULES_MAX + 1, &err) == -E2BIG);
}

static void apply(const struct label_filter *f, size_t n)
{
	struct label v[LINES];
	char room[LINES * REDACTED_LEN];
	struct redactor r;
	uint64_t credentials = 0;
	if (!well(redactor_init(&r)))
		return;
	r.credentials = n % 4 == 3; /* are kept */
	for (size_t i = 0; i < n; i++)
		v[i] = (struct label){ .key = asked[i],
				       .key_len = (uint32_t)strlen(asked[i]),
				       .str = i % 4 == 2 ? credential : "value",
				       .str_len = i % 2	       ? 5
						  : i % 4 == 2 ? sizeof(credential) - 1
							       : 0,
				       .num = (int64_t)i,
				       .type = i % 3 ? LABEL_STRING : LABEL_INT };
	const size_t kept = filter_apply(f, &r, v, n, room, &credentials);
	require(kept <= n && filter_apply(NULL, &r, v, kept, room, &credentials) == kept);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char marks[] = "+-!";
	struct input in = { data, size };
	struct label_filter *f = NULL;
	size_t n = 0, n_asked = 0;
	while (in.left && n < LINES && n_asked < LINES) {
		char *line = take_line(&in);
		const char *mark = line[0] ? strchr(marks, line[0]) : NULL;
		if (mark) {
			texts[n] = line;
			rules[n++] = (struct filter_rule){ line + 1,
							   (enum filter_action)(mark - marks) };
		} else {
			asked[n_asked++] = line;
		}
	}
	if (!filter_new(&f, rules, n, NULL)) {
		struct label_filter *copy = filter_copy(f);
		for (size_t i = 0; copy && i < n_asked; i++) {
			size_t len = strlen(asked[i]);
			enum filter_action a = filter_find(f, asked[i], len);
			require(a == filter_find(copy, asked[i], len));
			require(said_twice(n) || (int)a == expected(n, asked[i], len));
		}
		apply(f, n_asked);
		filter_free(copy);
	}
	filter_free(f);
	refuse_many();
	for (size_t i = 0; i < n; i++)
		free(texts[i]);
	for (size_t i = 0; i < n_asked; i++)
		free(asked[i]);
	return 0;
}
