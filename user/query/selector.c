/* SPDX-License-Identifier: Apache-2.0 */
#include "query/selector.h"

#include "util/buf.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <ctype.h>
#include <errno.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MATCHERS_MAX SELECTOR_KEYS_MAX
#define PATTERN_MAX 4096
/* A sane pattern on a label value takes some hundred steps; this many take about a millisecond. */
#define MATCH_LIMIT 100000
#define DEPTH_LIMIT 10000
#define HEAP_LIMIT_KIB 1024

enum op {
	OP_EQUAL,
	OP_NOT_EQUAL,
	OP_REGEX,
	OP_NOT_REGEX,
};

struct matcher {
	struct buf key, value;
	enum op op;
	size_t at;					   /* of the value in the text */
	enum { SET_LABEL, EVENT_LABEL, WAIT_LABEL } label; /* the last two are virtual */
	pcre2_code *code;
};

struct selector {
	struct matcher m[MATCHERS_MAX];
	size_t n;
	pcre2_match_data *match;
	pcre2_match_context *limits;
};

struct parser {
	const char *text;
	size_t at;
	size_t *ret_at;
	struct err *err;
};

static int fail(struct parser *p, size_t at, const char *what)
{
	if (p->ret_at)
		*p->ret_at = at;
	if (!p->text[at])
		return err_set(p->err, -EINVAL, "selector, column %zu: %s, at its end: %s", at + 1,
			       what, p->text);
	return err_set(p->err, -EINVAL, "selector, column %zu: %s, before: %s", at + 1, what,
		       p->text + at);
}

static void skip_space(struct parser *p)
{
	while (isspace((unsigned char)p->text[p->at]))
		p->at++;
}

static bool take(struct parser *p, char c)
{
	skip_space(p);
	if (p->text[p->at] != c)
		return false;
	p->at++;
	return true;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Behind a backslash. */
static int parse_escape(struct parser *p, struct buf *out)
{
	static const char from[] = "ntr\\\"'", to[] = "\n\t\r\\\"'";
	const char *s = p->text + p->at;
	const char *known = *s ? strchr(from, *s) : NULL;
	if (known) {
		p->at++;
		return buf_add_u8(out, (uint8_t)to[known - from]);
	}
	if (s[0] != 'x' || hex_digit(s[1]) < 0 || hex_digit(s[2]) < 0)
		return fail(p, p->at - 1,
			    "unknown escape (known: \\n \\t \\r \\\\ \\\" \\' \\xHH)");
	p->at += 3;
	return buf_add_u8(out, (uint8_t)(hex_digit(s[1]) << 4 | hex_digit(s[2])));
}

static int parse_quoted(struct parser *p, struct buf *out)
{
	size_t open = p->at;
	char quote = p->text[p->at++];
	for (;;) {
		char c = p->text[p->at];
		int rc;
		if (!c)
			return fail(p, open, "a quote that is not closed");
		p->at++;
		if (c == quote)
			return 0;
		rc = c == '\\' && quote != '`' ? parse_escape(p, out) : buf_add_u8(out, (uint8_t)c);
		if (rc)
			return rc;
	}
}

static bool is_quote(char c)
{
	return c == '"' || c == '\'' || c == '`';
}

static int parse_key(struct parser *p, struct buf *out)
{
	skip_space(p);
	if (is_quote(p->text[p->at]))
		return parse_quoted(p, out);
	size_t from = p->at;
	while (isalnum((unsigned char)p->text[p->at]) ||
	       (p->text[p->at] && strchr("_:.-/", p->text[p->at])))
		p->at++;
	if (p->at == from)
		return fail(p, from, "expected the key of a label");
	return buf_add(out, p->text + from, p->at - from);
}

static int parse_op(struct parser *p, enum op *ret)
{
	skip_space(p);
	const char *s = p->text + p->at;
	if (s[0] == '!' && (s[1] == '=' || s[1] == '~'))
		*ret = s[1] == '=' ? OP_NOT_EQUAL : OP_NOT_REGEX;
	else if (s[0] == '=')
		*ret = s[1] == '~' ? OP_REGEX : OP_EQUAL;
	else
		return fail(p, p->at, "expected = or != or =~ or !~");
	p->at += *ret == OP_EQUAL ? 1 : 2;
	return 0;
}

static int compile(struct parser *p, struct matcher *m)
{
	int code = 0;
	PCRE2_SIZE offset = 0;
	PCRE2_UCHAR text[160];
	pcre2_compile_context *c = pcre2_compile_context_create(NULL);
	if (!c)
		return -ENOMEM;
	pcre2_set_max_pattern_length(c, PATTERN_MAX);
	pcre2_set_parens_nest_limit(c, 100);
	m->code = pcre2_compile(m->value.data ? m->value.data : (PCRE2_SPTR) "", m->value.len,
				PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOTALL |
					PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C,
				&code, &offset, c);
	pcre2_compile_context_free(c);
	if (m->code) {
		/* Only faster; where memory may not be made executable, the interpreter does it. */
		pcre2_jit_compile(m->code, PCRE2_JIT_COMPLETE);
		return 0;
	}
	if (code == PCRE2_ERROR_HEAP_FAILED || code == PCRE2_ERROR_NOMEMORY)
		return -ENOMEM;
	char what[256];
	pcre2_get_error_message(code, text, sizeof(text));
	snprintf(what, sizeof(what), "regular expression: %s (behind its byte %zu)", (char *)text,
		 (size_t)offset);
	return fail(p, m->at, what);
}

static int parse_matcher(struct parser *p, struct matcher *m)
{
	int rc = parse_key(p, &m->key);
	if (!rc) { /* ends in a NUL that its length does not count */
		rc = buf_add_u8(&m->key, 0);
		m->key.len -= !rc;
	}
	if (!rc)
		rc = parse_op(p, &m->op);
	if (rc)
		return rc;
	skip_space(p);
	m->at = p->at;
	if (!is_quote(p->text[p->at]))
		return fail(p, p->at, "expected a quoted value, as in tenant=\"a\"");
	rc = parse_quoted(p, &m->value);
	if (m->key.len == 5 && !memcmp(m->key.data, "event", 5))
		m->label = EVENT_LABEL;
	else if (m->key.len == 4 && !memcmp(m->key.data, "wait", 4))
		m->label = WAIT_LABEL;
	if (!rc && (m->op == OP_REGEX || m->op == OP_NOT_REGEX))
		rc = compile(p, m);
	return rc;
}

static int parse(struct parser *p, struct selector *s)
{
	bool braces = take(p, '{');
	skip_space(p);
	while (p->text[p->at] && p->text[p->at] != '}') {
		if (s->n == MATCHERS_MAX)
			return fail(p, p->at, "more than 64 matchers");
		int rc = parse_matcher(p, &s->m[s->n++]);
		if (rc)
			return rc;
		if (!take(p, ','))
			break;
		skip_space(p);
	}
	if (braces && !take(p, '}'))
		return fail(p, p->at, "expected , or }");
	skip_space(p);
	if (p->text[p->at])
		return fail(p, p->at, braces ? "expected nothing behind }" : "expected ,");
	return 0;
}

int selector_parse(struct selector **ret, const char *text, size_t *ret_at, struct err *err)
{
	struct parser p = { .text = text ? text : "", .ret_at = ret_at, .err = err };
	struct selector *s = calloc(1, sizeof(*s));
	int rc = s ? 0 : -ENOMEM;
	if (s) {
		s->match = pcre2_match_data_create(1, NULL);
		s->limits = pcre2_match_context_create(NULL);
		rc = s->match && s->limits ? 0 : -ENOMEM;
	}
	if (!rc) {
		pcre2_set_match_limit(s->limits, MATCH_LIMIT);
		pcre2_set_depth_limit(s->limits, DEPTH_LIMIT);
		pcre2_set_heap_limit(s->limits, HEAP_LIMIT_KIB);
		rc = parse(&p, s);
	}
	if (rc == -ENOMEM)
		err_sys(err, rc, "selector");
	if (rc)
		selector_free(s);
	else
		*ret = s;
	return rc;
}

void selector_free(struct selector *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++) {
		buf_fini(&s->m[i].key);
		buf_fini(&s->m[i].value);
		pcre2_code_free(s->m[i].code);
	}
	pcre2_match_data_free(s->match);
	pcre2_match_context_free(s->limits);
	free(s);
}

static int match_regex(struct selector *s, const struct matcher *m, const char *text, size_t len,
		       bool *ret, struct err *err)
{
	int rc = pcre2_match(m->code, (PCRE2_SPTR)text, len, 0, 0, s->match, s->limits);
	if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH) {
		*ret = rc >= 0;
		return 0;
	}
	if (rc == PCRE2_ERROR_NOMEMORY)
		return err_sys(err, -ENOMEM, "selector");
	return err_set(
		err, -E2BIG,
		"selector, column %zu: the regular expression %.*s takes too many steps on the "
		"value %.*s; make it simpler",
		m->at + 1, (int)(m->value.len < 100 ? m->value.len : 100),
		(const char *)m->value.data, (int)(len < 100 ? len : 100), text);
}

static int match_text(struct selector *s, const struct matcher *m, const char *text, size_t len,
		      bool *ret, struct err *err)
{
	bool yes = false;
	int rc = 0;
	if (m->code)
		rc = match_regex(s, m, text, len, &yes, err);
	else
		yes = len == m->value.len && (!len || !memcmp(text, m->value.data, len));
	*ret = yes == (m->op == OP_EQUAL || m->op == OP_REGEX);
	return rc;
}

static const struct label *find_label(const struct label *labels, size_t n, const struct buf *key)
{
	for (size_t i = 0; i < n; i++)
		if (labels[i].key_len == key->len && !memcmp(labels[i].key, key->data, key->len))
			return &labels[i];
	return NULL;
}

int selector_match(struct selector *s, const struct label *labels, size_t n, bool *ret_match,
		   struct err *err)
{
	bool all = true;
	char number[24];
	for (size_t i = 0; all && i < s->n; i++) {
		const struct matcher *m = &s->m[i];
		if (m->label)
			continue;
		const struct label *l = find_label(labels, n, &m->key);
		const char *text = l ? l->str : "";
		size_t len = l ? l->str_len : 0;
		if (l && l->type == LABEL_INT) {
			len = label_text(l, number, sizeof(number));
			text = number;
		}
		int rc = match_text(s, m, text, len, &all, err);
		if (rc)
			return rc;
	}
	*ret_match = all;
	return 0;
}

static int match_virtual(struct selector *s, int label, const char *value, bool *ret_match,
			 struct err *err)
{
	bool all = true;
	for (size_t i = 0; all && i < s->n; i++) {
		int rc = (int)s->m[i].label == label
				 ? match_text(s, &s->m[i], value, strlen(value), &all, err)
				 : 0;
		if (rc)
			return rc;
	}
	*ret_match = all;
	return 0;
}

static bool names(const struct selector *s, int label)
{
	for (size_t i = 0; i < s->n; i++)
		if ((int)s->m[i].label == label)
			return true;
	return false;
}

int selector_match_event(struct selector *s, const char *event, bool *ret_match, struct err *err)
{
	return match_virtual(s, EVENT_LABEL, event, ret_match, err);
}

bool selector_names_event(const struct selector *s)
{
	return names(s, EVENT_LABEL);
}

int selector_match_wait(struct selector *s, const char *wait, bool *ret_match, struct err *err)
{
	return match_virtual(s, WAIT_LABEL, wait, ret_match, err);
}

bool selector_names_wait(const struct selector *s)
{
	return names(s, WAIT_LABEL);
}

size_t selector_keys(const struct selector *s, const char **keys, size_t cap)
{
	size_t n = 0;
	for (size_t i = 0; i < s->n; i++) {
		if (s->m[i].label)
			continue;
		if (n < cap)
			keys[n] = (const char *)s->m[i].key.data;
		n++;
	}
	return n;
}

bool selector_equal(const struct selector *s, size_t i, const char **ret_key,
		    const char **ret_value, size_t *ret_len)
{
	if (i >= s->n || s->m[i].op != OP_EQUAL || s->m[i].label || !s->m[i].value.len)
		return false;
	*ret_key = (const char *)s->m[i].key.data;
	*ret_value = (const char *)s->m[i].value.data;
	*ret_len = s->m[i].value.len;
	return true;
}

bool selector_matcher(const struct selector *s, size_t i, struct selector_matcher *ret)
{
	if (i >= s->n)
		return false;
	const struct matcher *m = &s->m[i];
	*ret = (struct selector_matcher){
		.key = (const char *)m->key.data,
		.value = m->value.len ? (const char *)m->value.data : "",
		.value_len = m->value.len,
		.regex = m->op == OP_REGEX || m->op == OP_NOT_REGEX,
		.negated = m->op == OP_NOT_EQUAL || m->op == OP_NOT_REGEX,
	};
	return true;
}

static bool same_bytes(const struct buf *a, const struct buf *b)
{
	return a->len == b->len && (!a->len || !memcmp(a->data, b->data, a->len));
}

/* A key has one text, or none, which counts as the empty one. */
static bool excludes(const struct matcher *a, const struct matcher *b)
{
	if (a->label || a->op != OP_EQUAL || !same_bytes(&a->key, &b->key))
		return false;
	bool same = same_bytes(&a->value, &b->value);
	return (b->op == OP_EQUAL && !same) || (b->op == OP_NOT_EQUAL && same);
}

bool selector_excludes(const struct selector *a, const struct selector *b)
{
	for (size_t i = 0; i < a->n; i++)
		for (size_t k = 0; k < b->n; k++)
			if (excludes(&a->m[i], &b->m[k]) || excludes(&b->m[k], &a->m[i]))
				return true;
	return false;
}

int selector_add_matchers(struct buf *out, const char *where)
{
	const char *from = where ? where + strspn(where, " \t\n\v\f\r{") : "";
	size_t len = strlen(from);
	while (len && strchr(" \t\n\v\f\r},", from[len - 1]))
		len--;
	int rc = buf_add(out, from, len);
	return rc || !len ? rc : buf_add_u8(out, ',');
}
