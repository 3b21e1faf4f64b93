/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/jit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void copy(char out[JIT_NAME_MAX + 1], const char *s, size_t len)
{
	if (len > JIT_NAME_MAX)
		len = JIT_NAME_MAX;
	memcpy(out, s, len);
	out[len] = '\0';
}

/* py::QUALNAME:FILE. Neither a qualified name nor "<module>" has a ':' in it. */
static bool split_python(struct jit_name *n, const char *s)
{
	const char *colon = strchr(s, ':');
	if (!colon || colon == s)
		return false;
	n->language = JIT_PYTHON;
	copy(n->function, s, (size_t)(colon - s));
	copy(n->file, colon + 1, strlen(colon + 1));
	return true;
}

/* The number between the ':' at `at` and end; 0 when that is not one. */
static uint32_t number_behind(const char *at, const char *end)
{
	char *stop;
	if (at + 1 == end || at[1] < '0' || at[1] > '9')
		return 0;
	unsigned long v = strtoul(at + 1, &stop, 10);
	return stop == end && v <= UINT32_MAX ? (uint32_t)v : 0;
}

static const char *last_colon(const char *s, const char *end)
{
	while (end > s && end[-1] != ':')
		end--;
	return end > s ? end - 1 : NULL;
}

/* FILE[:LINE[:COLUMN]] */
static void split_place(struct jit_name *n, const char *s)
{
	const char *end = s + strlen(s), *b = last_colon(s, end), *a = b ? last_colon(s, b) : NULL;
	if (a && number_behind(b, end) && number_behind(a, b)) {
		n->line = number_behind(a, b);
		end = a;
	} else if (b && number_behind(b, end)) {
		n->line = number_behind(b, end);
		end = b;
	}
	if (!strncmp(s, "file://", 7) && end - s > 7)
		s += 7;
	copy(n->file, s, (size_t)(end - s));
}

/*
 * Both a function ("get size") and a path may have spaces: the place begins like a path or URL, or
 * is the last word.
 */
static const char *place_of(const char *s)
{
	static const char *const begins[] = { " /", " file:", " node:" };
	const char *found = NULL;
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
		const char *p = strstr(s, begins[i]);
		if (p && (!found || p < found))
			found = p;
	}
	return found ? found : strrchr(s, ' ');
}

/* [TIER]FUNCTION PLACE; a function without a name has nothing before the space. */
static void split_js(struct jit_name *n, const char *s)
{
	if (*s && strchr("*~^+", *s))
		s++;
	const char *space = place_of(s);
	size_t len = space ? (size_t)(space - s) : strlen(s);
	if (space && space[1])
		split_place(n, space + 1);
	const char *base = strrchr(n->file, '/');
	if (len)
		copy(n->function, s, len);
	else /* there are many of these: told apart by their place */
		snprintf(n->function, sizeof(n->function), "(anonymous %.*s:%u)",
			 (int)JIT_NAME_MAX - 32, base ? base + 1 : n->file, n->line);
}

/* What V8 prefixes; what stands behind the first three is a function of the program. */
static const char *const v8[] = { "JS:",      "LazyCompile:",	  "Function:", "Eval:", "Script:",
				  "Builtin:", "BytecodeHandler:", "RegExp:",   "Stub:", "Handler:",
				  "Wasm:" };
#define V8_FUNCTIONS 3

static bool split_node(struct jit_name *n, const char *s)
{
	for (size_t i = 0; i < sizeof(v8) / sizeof(v8[0]); i++) {
		size_t len = strlen(v8[i]);
		if (strncmp(s, v8[i], len) || !s[len])
			continue;
		n->language = JIT_NODE;
		if (i < V8_FUNCTIONS)
			split_js(n, s + len);
		else
			copy(n->function, s, strlen(s));
		return true;
	}
	return false;
}

void jit_split_name(struct jit_name *ret, const char *name)
{
	ret->language = JIT_UNKNOWN;
	ret->function[0] = ret->file[0] = '\0';
	ret->line = 0;
	if (!strncmp(name, "py::", 4) && split_python(ret, name + 4))
		return;
	if (split_node(ret, name))
		return;
	copy(ret->function, name, strlen(name));
}
