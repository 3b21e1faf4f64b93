/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/names.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LENGTH_MAX 8192 /* as long as demangled names become */
#define DEPTH_MAX 256

/* ---- clones ---- */

/*
 * How much of s[0, len) is left without its last ".word[.number]"; len when that is not a clone's
 * mark.
 */
static size_t without_mark(const char *s, size_t len)
{
	static const char *const marks[] = { ".isra",	  ".constprop", ".part",       ".cold",
					     ".lto_priv", ".llvm",	".localalias", ".ipa_sra" };
	size_t end = len;
	while (end > 0 && isdigit((unsigned char)s[end - 1]))
		end--;
	if (end < len && (end == 0 || s[end - 1] != '.'))
		return len;
	if (end < len)
		end--; /* the '.' before the number */
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		size_t n = strlen(marks[i]);
		if (end > n && !memcmp(s + end - n, marks[i], n))
			return end - n;
	}
	return len;
}

/* " [clone .isra.0]" at the end, as the demangler writes it. */
static size_t without_clone(const char *s, size_t len)
{
	static const char open[] = " [clone .";
	if (!len || s[len - 1] != ']')
		return len;
	for (size_t at = len; at-- > 0;)
		if (s[at] == ' ' && len - at > sizeof(open) &&
		    !memcmp(s + at, open, sizeof(open) - 1))
			return at;
	return len;
}

static size_t folded_length(const char *s)
{
	size_t len = strlen(s);
	for (;;) {
		size_t to = without_clone(s, len);
		to = to == len ? without_mark(s, len) : to;
		if (to == len || to == 0)
			return len;
		len = to;
	}
}

static void copy(const char *s, size_t len, char *out, size_t cap)
{
	if (!cap)
		return;
	if (len >= cap)
		len = cap - 1;
	memmove(out, s, len);
	out[len] = '\0';
}

void name_fold_clones(const char *name, char *out, size_t cap)
{
	copy(name, folded_length(name), out, cap);
}

/* ---- brackets ---- */

/*
 * Is this '<' or '>' an operator, or part of one, rather than a bracket? prev is the innermost
 * bracket that is open.
 */
static bool is_comparison(const char *s, size_t at, size_t len, char innermost)
{
	char before = at ? s[at - 1] : 0, behind = at + 1 < len ? s[at + 1] : 0;
	if (s[at] == '>' && before == '-')
		return true;
	if (innermost == '(' && s[at] == '>')
		return true; /* nothing that it could close */
	if (before == ')' && behind == '(')
		return true; /* (4)>(3): how the demangler writes expressions */
	if (before != ' ' || behind != ' ')
		return before == ')' && s[at] == '<';
	return s[at] == '<' || (at > 1 && s[at - 2] != '>'); /* "> >" closes twice */
}

/*
 * The end (exclusive) of the bracket that opens at `at`; 0 when it never closes. A ')' closes what
 * was left open inside: comparisons that look like brackets do no harm beyond it.
 */
static size_t skip(const char *s, size_t at, size_t len)
{
	char open[DEPTH_MAX];
	size_t depth = 0;
	for (size_t i = at; i < len; i++) {
		char c = s[i];
		if (c == '(' || c == '[' || c == '{') {
			if (depth == DEPTH_MAX)
				return 0;
			open[depth++] = c;
		} else if (c == ')' || c == ']' || c == '}') {
			char want = c == ')' ? '(' : c == ']' ? '[' : '{';
			while (depth && open[depth - 1] != want)
				depth--;
			if (!depth)
				return 0;
			depth--;
		} else if (c == '<' &&
			   (i == at || !is_comparison(s, i, len, depth ? open[depth - 1] : 0))) {
			if (depth == DEPTH_MAX)
				return 0;
			open[depth++] = c;
		} else if (c == '>' && depth && !is_comparison(s, i, len, open[depth - 1])) {
			if (open[depth - 1] == '<')
				depth--;
		}
		if (!depth)
			return i + 1;
	}
	return 0;
}

/* ---- simplifying ---- */

struct simple {
	const char *s;
	size_t len;
	size_t at;
	char out[LENGTH_MAX];
	size_t n;
	size_t name_begin; /* in s: of the qualified name, behind a return type */
	/* In out: behind the last space outside of brackets, 0: none */
	size_t space;
	size_t args_begin, args_end; /* in s: the last parameter list */
	size_t last_begin;	     /* in s: of the last component */
	bool has_args;
};

static bool ends_with(const struct simple *p, const char *word)
{
	size_t n = strlen(word);
	if (p->n < n || memcmp(p->out + p->n - n, word, n))
		return false;
	char before = p->n > n ? p->out[p->n - n - 1] : ':';
	return before != '_' && !isalnum((unsigned char)before);
}

static void put(struct simple *p, size_t n)
{
	memcpy(p->out + p->n, p->s + p->at, n); /* out is as large as s may be */
	p->n += n;
	p->at += n;
}

static bool starts(const struct simple *p, const char *text)
{
	size_t n = strlen(text);
	return p->len - p->at >= n && !memcmp(p->s + p->at, text, n);
}

/* Behind "operator": its own sign, which may be brackets. */
static bool put_operator(struct simple *p)
{
	static const char *const signs[] = { "<=>", "<<=", ">>=", "->*", "()", "[]", "<<",
					     ">>",  "<=",  ">=",  "->",	 "<",  ">" };
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		if (!starts(p, signs[i]))
			continue;
		put(p, strlen(signs[i]));
		if (starts(p, " <"))
			p->at++; /* "operator<< <char>" */
		return true;
	}
	return false;
}

/* '(': a scope's own name, or parameters. False: the brackets do not add up. */
static bool take_paren(struct simple *p)
{
	size_t end = skip(p->s, p->at, p->len);
	if (!end)
		return false;
	bool is_name = !p->n || p->out[p->n - 1] == ' ' ||
		       (p->n > 1 && !memcmp(p->out + p->n - 2, "::", 2)) || p->out[p->n - 1] == '.';
	if (is_name) {
		put(p, end - p->at);
		return true;
	}
	p->args_begin = p->at + 1;
	p->args_end = end - 1;
	p->has_args = true;
	p->at = end;
	/* Qualifiers behind it, up to the next scope or the end. */
	if (p->at < p->len && p->s[p->at] == ' ') {
		const char *scope = strstr(p->s + p->at, "::");
		size_t to = scope && scope < p->s + p->len ? (size_t)(scope - p->s) : p->len;
		if (!memchr(p->s + p->at, '(', to - p->at))
			p->at = to;
	}
	return true;
}

/* '<': Rust's "<T as Trait>" and Python's "f.<locals>.<lambda>", which are names, or arguments. */
static bool take_angle(struct simple *p)
{
	size_t end = skip(p->s, p->at, p->len);
	if (!end)
		return false;
	if (!p->n || p->out[p->n - 1] == '.') {
		put(p, end - p->at);
		return true;
	}
	if (p->n > 2 && !memcmp(p->out + p->n - 2, "::", 2))
		p->n -= 2; /* Rust's align_of::<usize> */
	p->at = end;
	return true;
}

static bool take(struct simple *p)
{
	char c = p->s[p->at];
	if (ends_with(p, "operator") && put_operator(p))
		return true;
	if (c == '(')
		return take_paren(p);
	if (c == '<')
		return take_angle(p);
	if (starts(p, "[abi:")) {
		const char *end = memchr(p->s + p->at, ']', p->len - p->at);
		if (end) {
			p->at = (size_t)(end - p->s) + 1;
			return true;
		}
	}
	if (starts(p, "::"))
		p->last_begin = p->at + 2;
	/* "operator bool", "operator new[]": a space that does not end a return type */
	bool is_operator = c == ' ' && ends_with(p, "operator");
	put(p, 1);
	if (c == ' ' && !is_operator && !strstr(p->out, "operator ")) {
		p->space = p->n;
		p->name_begin = p->last_begin = p->at;
	}
	p->out[p->n] = '\0';
	return true;
}

/*
 * Is the parameter list that of a copy or move constructor of the class before the last "::"? Then
 * its name.
 */
static const char *constructor(const struct simple *p)
{
	size_t args = p->args_end - p->args_begin;
	size_t class = p->last_begin > p->name_begin + 2 ? p->last_begin - 2 - p->name_begin : 0;
	if (!p->has_args || !class || args <= class ||
	    memcmp(p->s + p->args_begin, p->s + p->name_begin, class))
		return NULL;
	const char *rest = p->s + p->args_begin + class;
	size_t n = args - class;
	if ((n == 7 && !memcmp(rest, " const&", 7)) || (n == 1 && *rest == '&'))
		return "copy_construct";
	return n == 2 && !memcmp(rest, "&&", 2) ? "move_construct" : NULL;
}

/* Are the last two components of a name the same word? Returns where the last begins, or 0. */
static size_t repeated(const char *out, size_t n)
{
	size_t last = n;
	while (last > 0 && out[last - 1] != ':')
		last--;
	size_t len = n - last;
	if (last < 2 + len || memcmp(out + last - 2 - len, out + last, len))
		return 0;
	size_t first = last - 2 - len;
	return first == 0 || out[first - 1] == ':' ? last : 0;
}

/* What the demangler writes before the name of something that is no function of the source. */
static size_t prefix_length(const char *s)
{
	static const char *const prefixes[] = {
		"non-virtual thunk to ",  "virtual thunk to ",	    "covariant return thunk to ",
		"transaction clone for ", "guard variable for ",    "vtable for ",
		"typeinfo for ",	  "TLS init function for ", "TLS wrapper function for "
	};
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!strncmp(s, prefixes[i], strlen(prefixes[i])))
			return strlen(prefixes[i]);
	return 0;
}

void name_simplify(const char *name, char *out, size_t cap)
{
	static _Thread_local struct simple p; /* too large for some stacks */
	size_t len = folded_length(name), prefix = prefix_length(name);
	p = (struct simple){ .s = name + prefix, .len = len > prefix ? len - prefix : 0 };
	bool good = len < LENGTH_MAX && len > prefix;
	while (good && p.at < p.len)
		good = take(&p);
	size_t begin = p.has_args ? p.space : 0; /* a space in other names separates nothing */
	if (!good || p.n == begin) {
		copy(name, len, out, cap);
		return;
	}
	const char *kind = constructor(&p);
	size_t last = kind ? repeated(p.out + begin, p.n - begin) : 0;
	if (last)
		snprintf(out, cap, "%.*s%.*s%s", (int)prefix, name, (int)last, p.out + begin, kind);
	else
		snprintf(out, cap, "%.*s%.*s", (int)prefix, name, (int)(p.n - begin),
			 p.out + begin);
}
