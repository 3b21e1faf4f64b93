/* SPDX-License-Identifier: Apache-2.0 */
#include "labels/recipe.h"

#include "labels/rules.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS_MAX 256
#define TOKEN_MAX 256

/* The words of one line, and where it is, for messages. */
struct line {
	const char *source;
	unsigned number;
	const char *key; /* that the line is about */
	struct err *err;
	char (*token)[TOKEN_MAX];
	size_t n, at;
};

__attribute__((format(printf, 2, 3))) static int bad(struct line *l, const char *fmt, ...)
{
	char text[256];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set(l->err, -EINVAL, "%s:%u: %s%s%s", l->source, l->number, l->key ? l->key : "",
		       l->key ? ": " : "", text);
}

/* ---- words of a line ---- */

/*
 * Quoted words keep their blanks; \" and \\ stand for themselves, other backslashes stay. '#'
 * begins a comment.
 */
static int take_token(struct line *l, const char **p, const char *end)
{
	char *out = l->token[l->n];
	size_t n = 0;
	bool quoted = **p == '"';
	if (quoted)
		(*p)++;
	for (; *p < end && **p != '\n'; (*p)++) {
		char c = **p;
		if (quoted ? c == '"' : c == ' ' || c == '\t' || c == '#')
			break;
		if (quoted && c == '\\' && *p + 1 < end && ((*p)[1] == '"' || (*p)[1] == '\\'))
			c = *++*p;
		if (!c || n + 1 >= TOKEN_MAX)
			return bad(l, "a word of more than %d bytes, or with a NUL", TOKEN_MAX - 1);
		out[n++] = c;
	}
	out[n] = 0;
	if (quoted && (*p == end || **p != '"'))
		return bad(l, "\"%s: the quotation mark at the end is missing", out);
	if (quoted)
		(*p)++;
	l->n++;
	return 0;
}

static int split(struct line *l, const char **p, const char *end)
{
	l->n = l->at = 0;
	for (;;) {
		while (*p < end && (**p == ' ' || **p == '\t' || **p == '\r'))
			(*p)++;
		if (*p == end || **p == '\n' || **p == '#')
			break;
		if (l->n == TOKENS_MAX)
			return bad(l, "more than %d words", TOKENS_MAX);
		int rc = take_token(l, p, end);
		if (rc)
			return rc;
	}
	while (*p < end && **p != '\n')
		(*p)++;
	if (*p < end)
		(*p)++;
	return 0;
}

static const char *peek(const struct line *l)
{
	return l->at < l->n ? l->token[l->at] : NULL;
}

static const char *next(struct line *l)
{
	return l->at < l->n ? l->token[l->at++] : NULL;
}

static bool to_number(const char *s, int64_t *ret)
{
	char *end;
	errno = 0;
	bool negative = *s == '-';
	if (*s == '+' || *s == '-')
		s++;
	if (*s < '0' || *s > '9')
		return false;
	unsigned long long v = strtoull(s, &end, 0);
	if (*end || errno)
		return false;
	*ret = (int64_t)(negative ? 0 - v : v);
	return true;
}

static bool is_offset(const char *s)
{
	int64_t v;
	return s && (*s == '+' || *s == '-') && to_number(s, &v);
}

/* A following +N or -N, else 0. */
static int64_t offset(struct line *l)
{
	int64_t v = 0;
	if (is_offset(peek(l)))
		to_number(next(l), &v);
	return v;
}

static int number(struct line *l, const char *what, int64_t min, int64_t max, int64_t *ret)
{
	const char *s = next(l);
	if (!s || !to_number(s, ret))
		return bad(l, "%s is missing%s%s", what, s ? ", not " : "", s ? s : "");
	if (*ret < min || *ret > max)
		return bad(l, "%s: %s is not between %lld and %lld", what, s, (long long)min,
			   (long long)max);
	return 0;
}

static int name(struct line *l, const char *what, char *out, size_t cap)
{
	const char *s = next(l);
	if (!s || !*s)
		return bad(l, "%s is missing", what);
	if (strlen(s) >= cap)
		return bad(l, "%s is longer than %zu bytes", what, cap - 1);
	memcpy(out, s, strlen(s) + 1);
	return 0;
}

/* ---- paths ---- */

/* u8 .. u64, i8 .. i64, hex: the size, and the form of what it gives. */
static bool number_type(const char *s, struct recipe_word *w, enum foreign_form *form)
{
	static const struct {
		const char *name;
		uint8_t len, is_signed;
		enum foreign_form form;
	} types[] = {
		{ "u8", 1, 0, FOREIGN_UINT },  { "u16", 2, 0, FOREIGN_UINT },
		{ "u32", 4, 0, FOREIGN_UINT }, { "u64", 8, 0, FOREIGN_UINT },
		{ "i8", 1, 1, FOREIGN_INT },   { "i16", 2, 1, FOREIGN_INT },
		{ "i32", 4, 1, FOREIGN_INT },  { "i64", 8, 1, FOREIGN_INT },
		{ "hex", 8, 0, FOREIGN_HEX },
	};
	for (size_t i = 0; s && i < sizeof(types) / sizeof(types[0]); i++) {
		if (strcmp(s, types[i].name))
			continue;
		w->len = types[i].len;
		w->is_signed = types[i].is_signed;
		*form = types[i].form;
		return true;
	}
	return false;
}

static int parse_require(struct line *l, struct recipe_word *w)
{
	enum foreign_form form;
	const char *s = next(l);
	w->op = RECIPE_MAIN;
	if (s && !strcmp(s, "main"))
		return 0;
	if (!number_type(s, w, &form))
		return bad(
			l,
			"require: 'main', or a number (u8 .. u64, i8 .. i64) and what it must be");
	w->imm = offset(l);
	w->op = RECIPE_REQUIRE_TP;
	if (peek(l) && !strcmp(peek(l), "tp")) {
		next(l);
		return w->len == 8 ? 0 : bad(l, "require: the thread pointer is a u64");
	}
	w->op = RECIPE_REQUIRE;
	if (peek(l) && !strcmp(peek(l), "and")) {
		int64_t bits;
		next(l);
		int rc = number(l, "and", 1, UINT32_MAX, &bits);
		if (rc)
			return rc;
		w->arg = (uint32_t)bits;
	}
	return number(l, "what it must be", INT64_MIN, INT64_MAX, &w->imm2);
}

static int64_t let_named(const struct recipe *r, const char *s)
{
	for (size_t i = 0; i < r->n_lines; i++)
		if (!r->line[i].is_label && !strcmp(r->line[i].key, s))
			return (int64_t)i;
	return -1;
}

static int text_size(struct line *l, struct recipe_word *w)
{
	int64_t len;
	int rc = number(l, "the number of bytes", 1, 255, &len);
	if (!rc)
		w->len = (uint16_t)len;
	return rc;
}

/* One word of a path. *ret_ends: nothing may follow but and, shift and names. */
static int parse_word(struct line *l, const struct recipe *r, struct recipe_line *to,
		      struct recipe_word *w, bool *ret_ends)
{
	const char *s = next(l);
	int64_t let;
	int rc;
	*ret_ends = true;
	if (number_type(s, w, &to->form)) {
		w->op = RECIPE_NUMBER;
		w->imm = offset(l);
		return 0;
	}
	if (!strcmp(s, "value")) {
		w->op = RECIPE_VALUE;
		to->form = FOREIGN_UINT;
		return 0;
	}
	if (!strcmp(s, "cstr") || !strcmp(s, "bytes")) {
		w->op = *s == 'c' ? RECIPE_CSTRING : RECIPE_BYTES;
		to->form = *s == 'c' ? FOREIGN_TEXT : FOREIGN_BYTES;
		rc = text_size(l, w);
		w->imm = offset(l);
		return rc;
	}
	if (!strcmp(s, "text")) { /* text SIZE +POINTER +LENGTH */
		w->op = RECIPE_TEXT;
		to->form = FOREIGN_TEXT;
		rc = text_size(l, w);
		w->imm = offset(l);
		w->imm2 = offset(l);
		return rc;
	}
	*ret_ends = false;
	if (!strcmp(s, "symbol")) {
		w->op = RECIPE_SYMBOL;
		rc = name(l, "the symbol's name", w->name, sizeof(w->name));
		w->imm = offset(l);
		return rc;
	}
	if (!strcmp(s, "file")) {
		w->op = RECIPE_FILE;
		return number(l, "the offset in the file", 0, INT64_MAX, &w->imm);
	}
	if (!strcmp(s, "via")) {
		w->op = RECIPE_VIA;
		return name(l, "the function's name", w->name, sizeof(w->name));
	}
	if (!strcmp(s, "deref")) {
		w->op = RECIPE_DEREF;
		w->imm = offset(l);
		return 0;
	}
	if (!strcmp(s, "field")) {
		w->op = RECIPE_FIELD;
		rc = name(l, "struct.member", w->name, sizeof(w->name));
		return rc || strchr(w->name, '.')
			       ? rc
			       : bad(l, "field %s: it is struct.member", w->name);
	}
	if (!strcmp(s, "require"))
		return parse_require(l, w);
	if (is_offset(s)) {
		w->op = RECIPE_ADD;
		to_number(s, &w->imm);
		return 0;
	}
	let = let_named(r, s);
	if (let < 0)
		return bad(l, "'%s' is neither a step nor a let above", s);
	w->op = RECIPE_LET;
	w->arg = (uint32_t)let;
	return 0;
}

/* 1=idle 2=running ... to the end of the line. */
static int parse_names(struct line *l, struct recipe_line *to)
{
	for (const char *s; (s = next(l));) {
		char head[32];
		const char *eq = strchr(s, '=');
		struct foreign_name n = { 0 };
		if (!eq || (size_t)(eq - s) >= sizeof(head) || strlen(eq + 1) >= sizeof(n.name) ||
		    !eq[1])
			return bad(l, "names: '%s' is not NUMBER=NAME", s);
		memcpy(head, s, (size_t)(eq - s));
		head[eq - s] = 0;
		if (!to_number(head, &n.number))
			return bad(l, "names: '%s' is not a number", head);
		memcpy(n.name, eq + 1, strlen(eq + 1) + 1);
		if (to->n_names == RECIPE_NAMES_MAX)
			return bad(l, "names: more than %d", RECIPE_NAMES_MAX);
		if (!to->names)
			to->names = calloc(RECIPE_NAMES_MAX, sizeof(*to->names));
		if (!to->names)
			return err_sys(l->err, -ENOMEM, "%s", l->source);
		to->names[to->n_names++] = n;
	}
	return to->n_names ? 0 : bad(l, "names: there are none");
}

/* What may stand behind a number. */
static int parse_end(struct line *l, struct recipe_line *to)
{
	bool is_number = to->n_words && (to->word[to->n_words - 1].op == RECIPE_NUMBER ||
					 to->word[to->n_words - 1].op == RECIPE_VALUE);
	for (const char *s; (s = next(l));) {
		bool and = !strcmp(s, "and"), nonzero = !strcmp(s, "nonzero");
		if (!is_number)
			return bad(l, "'%s' stands behind the end of the path", s);
		if (!strcmp(s, "names"))
			return parse_names(l, to);
		if (!and&&!nonzero && strcmp(s, "shift"))
			return bad(l, "'%s' behind a number: and, shift, nonzero or names", s);
		if (to->n_words == RECIPE_WORDS_MAX)
			return bad(l, "more than %d steps", RECIPE_WORDS_MAX);
		struct recipe_word *w = &to->word[to->n_words++];
		*w = (struct recipe_word){ .op = nonzero ? RECIPE_NONZERO
						 : and	 ? RECIPE_AND
							 : RECIPE_SHIFT };
		if (nonzero)
			continue;
		int rc = number(l, s, and? INT64_MIN : 0, and? INT64_MAX : 63, &w->imm);
		if (rc)
			return rc;
	}
	return 0;
}

/* Does a path begin at a place, and only there? */
static bool is_start(const struct recipe_word *w)
{
	return w->op == RECIPE_SYMBOL || w->op == RECIPE_FILE || w->op == RECIPE_LET;
}

static int parse_path(struct line *l, struct recipe *r, bool is_label)
{
	if (r->n_lines == RECIPE_LINES_MAX)
		return bad(l, "a recipe has %d lets and labels at most", RECIPE_LINES_MAX);
	struct recipe_line *to = &r->line[r->n_lines];
	*to = (struct recipe_line){ .is_label = is_label, .line = l->number };
	int rc = name(l, is_label ? "the key" : "the name", to->key, sizeof(to->key));
	if (rc)
		return rc;
	l->key = to->key;
	const char *eq = next(l);
	bool ends = false;
	if (!eq || strcmp(eq, "="))
		return bad(l, "'=' is missing");
	while (!ends && peek(l)) {
		if (to->n_words == RECIPE_WORDS_MAX)
			return bad(l, "more than %d steps", RECIPE_WORDS_MAX);
		struct recipe_word *w = &to->word[to->n_words];
		memset(w, 0, sizeof(*w));
		rc = parse_word(l, r, to, w, &ends);
		if (rc)
			return rc;
		if (to->n_words == 0 ? !is_start(w) && w->op != RECIPE_VIA && w->op != RECIPE_MAIN
				     : is_start(w))
			return bad(
				l,
				"a path begins with symbol, file, via or a let, and has no other one");
		to->n_words++;
	}
	if (ends != is_label)
		return bad(
			l,
			is_label
				? "it reads nothing: u8 .. u64, i8 .. i64, hex, value, cstr, bytes or text is missing"
				: "a let is an address: it ends before anything is read");
	rc = parse_end(l, to);
	r->n_lines++; /* on failure too: its names are freed with the recipe */
	return rc;
}

/* ---- recipes ---- */

static int parse_env(struct line *l, struct recipe *r)
{
	if (r->n_env == RECIPE_PATTERNS_MAX)
		return bad(l, "more than %d", RECIPE_PATTERNS_MAX);
	struct recipe_env *e = &r->env[r->n_env];
	int rc = name(l, "the variable", e->variable, sizeof(e->variable));
	const char *as = rc ? NULL : next(l);
	if (rc)
		return rc;
	if (!as || strcmp(as, "as"))
		return bad(l, "env VARIABLE as KEY");
	rc = name(l, "the key", e->key, sizeof(e->key));
	r->n_env += !rc;
	return rc;
}

static int parse_line(struct line *l, struct recipe *r)
{
	struct {
		const char *word;
		char *list;
		size_t size, *n;
	} lists[] = {
		{ "file", r->file[0], sizeof(r->file[0]), &r->n_files },
		{ "contains", r->text[0], sizeof(r->text[0]), &r->n_texts },
		{ "build-id", r->build_id[0], sizeof(r->build_id[0]), &r->n_build_ids },
		{ "title", r->title[0], sizeof(r->title[0]), &r->n_titles },
		{ "cgroup", r->cgroup[0], sizeof(r->cgroup[0]), &r->n_cgroups },
	};
	const char *s = next(l);
	if (!strcmp(s, "let") || !strcmp(s, "label"))
		return parse_path(l, r, s[1] == 'a');
	l->key = s;
	if (!strcmp(s, "env"))
		return parse_env(l, r);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		if (strcmp(s, lists[i].word))
			continue;
		if (*lists[i].n == RECIPE_PATTERNS_MAX)
			return bad(l, "more than %d", RECIPE_PATTERNS_MAX);
		int rc = name(l, "its argument", lists[i].list + *lists[i].n * lists[i].size,
			      lists[i].size);
		char text[200];
		bool pattern = !strcmp(s, "title") || !strcmp(s, "cgroup");
		if (!rc && pattern &&
		    rules_check(lists[i].list + *lists[i].n * lists[i].size, text, sizeof(text)))
			rc = bad(l, "%s", text);
		*lists[i].n += !rc;
		return rc;
	}
	l->key = NULL;
	return bad(l, "'%s' is no word of a recipe", s);
}

static void recipe_free(struct recipe *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n_lines; i++)
		free(r->line[i].names);
	free(r);
}

static int check_whole(struct line *l, const struct recipe *r)
{
	l->key = r->name;
	if (r->n_lines && !r->n_files && !r->n_build_ids)
		return bad(
			l,
			"labels from memory need 'file' or 'build-id': which files they are for");
	if (!r->n_lines && !r->n_env && !r->n_titles && !r->n_cgroups)
		return bad(l, "the recipe has no labels");
	return 0;
}

static int add(struct recipes *all, struct recipe *r, struct line *l)
{
	for (size_t i = 0; i < all->n; i++) {
		if (strcmp(all->v[i]->name, r->name))
			continue;
		recipe_free(all->v[i]);
		all->v[i] = r;
		return 0;
	}
	if (all->n == RECIPES_MAX)
		return bad(l, "more than %d recipes", RECIPES_MAX);
	all->v[all->n++] = r;
	return 0;
}

static int finish(struct recipes *all, struct recipe **r, struct line *l)
{
	if (!*r)
		return 0;
	int rc = check_whole(l, *r);
	rc = rc ? rc : add(all, *r, l);
	if (!rc)
		*r = NULL;
	l->key = NULL;
	return rc;
}

static int begin(struct recipes *all, struct recipe **r, struct line *l)
{
	int rc = finish(all, r, l);
	if (rc)
		return rc;
	*r = calloc(1, sizeof(**r));
	if (!*r)
		return err_sys(l->err, -ENOMEM, "%s", l->source);
	snprintf((*r)->source, sizeof((*r)->source), "%s", l->source);
	next(l);
	return name(l, "the recipe's name", (*r)->name, sizeof((*r)->name));
}

int recipes_parse(struct recipes *all, const char *text, size_t len, const char *source,
		  struct err *err)
{
	const char *p = text, *end = text + len;
	struct line l = { .source = source, .err = err };
	struct recipe *r = NULL;
	int rc = 0;
	if (len > RECIPE_TEXT_MAX)
		return err_set(err, -E2BIG, "%s: more than %u bytes", source, RECIPE_TEXT_MAX);
	l.token = malloc(TOKENS_MAX * sizeof(*l.token));
	if (!l.token)
		return err_sys(err, -ENOMEM, "%s", source);
	while (!rc && p < end) {
		l.number++;
		l.key = NULL;
		rc = split(&l, &p, end);
		if (rc || !l.n)
			continue;
		if (!strcmp(l.token[0], "recipe"))
			rc = begin(all, &r, &l);
		else if (!r)
			rc = bad(&l, "'%s' before the first 'recipe NAME'", l.token[0]);
		else
			rc = parse_line(&l, r);
		if (!rc && l.at < l.n)
			rc = bad(&l, "'%s' is too much", l.token[l.at]);
	}
	rc = rc ? rc : finish(all, &r, &l);
	recipe_free(r);
	free(l.token);
	return rc;
}

void recipes_fini(struct recipes *r)
{
	for (size_t i = 0; i < r->n; i++)
		recipe_free(r->v[i]);
	r->n = 0;
}

/* ---- matching ---- */

bool recipe_glob(const char *pattern, const char *text)
{
	const char *star = NULL, *again = NULL;
	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			again = text;
		} else if (*pattern == '?' || *pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++again;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

bool recipe_is_for(const struct recipe *r, const char *path)
{
	const char *slash = strrchr(path, '/');
	for (size_t i = 0; i < r->n_files; i++)
		if (recipe_glob(r->file[i], strchr(r->file[i], '/') || !slash ? path : slash + 1))
			return true;
	return !r->n_files;
}
