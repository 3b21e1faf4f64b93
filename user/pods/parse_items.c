/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Take a list apart without understanding it. A tree of JSON takes up to a hundred times the memory
 * of its text, and pods are as large as their authors like. Trees of one pod at a time are bounded
 * by the largest pod. All texts that are handed out are loaded, so nothing is validated here.
 */
#include "pods/parse_int.h"

#include <string.h>

static const char *skip_space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
		p++;
	return p;
}

/* Behind a string that begins at p; end: it does not end. */
static const char *skip_string(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++)
		if (*p == '\\' && end - p > 1)
			p++;
	return p < end ? p + 1 : end;
}

/* Behind a value. Brackets count, of whichever kind. */
static const char *skip_value(const char *p, const char *end)
{
	size_t depth = 0;
	while (p < end) {
		char c = *p;
		if (c == '"') {
			p = skip_string(p, end);
		} else if (c == '{' || c == '[') {
			depth++;
			p++;
		} else if (c == '}' || c == ']') {
			if (!depth)
				return p;
			depth--;
			p++;
		} else if (c == ',' && !depth) {
			return p;
		} else {
			p++;
			continue; /* of a number or a word, or between values */
		}
		if (!depth)
			return p;
	}
	return end;
}

bool parse_find_items(const char *bytes, size_t len, struct span *ret)
{
	const char *end = bytes + len, *p = skip_space(bytes, end);
	struct span found = { NULL, 0 };
	if (p == end || *p != '{')
		return false;
	do {
		const char *key = skip_space(p + 1, end);
		if (key == end || *key != '"')
			break;
		p = skip_string(key, end);
		bool items = span_is((struct span){ key, (size_t)(p - key) }, "\"items\"");
		p = skip_space(p, end);
		if (p == end || *p != ':')
			return false;
		const char *value = skip_space(p + 1, end);
		p = skip_value(value, end);
		if (items) /* of a key that comes twice the last one counts */
			found = (struct span){ value, (size_t)(p - value) };
		p = skip_space(p, end);
	} while (p < end && *p == ',');
	if (!found.n || found.s[0] != '[')
		return false;
	*ret = found;
	return true;
}

int parse_next_item(struct span *items, struct span *ret)
{
	const char *end = items->s + items->n, *p = skip_space(items->s + 1, end);
	if (*items->s == '[' && p < end && *p == ']')
		return 0;
	if (*items->s == ']')
		return 0;
	const char *stop = skip_value(p, end);
	*ret = (struct span){ p, (size_t)(stop - p) };
	stop = skip_space(stop, end);
	if (stop == end || (*stop != ',' && *stop != ']'))
		return -1;
	*items = (struct span){ stop, (size_t)(end - stop) };
	return 1;
}
