/* SPDX-License-Identifier: Apache-2.0 */
#include "query/gate_rule.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int fail(size_t *ret_at, size_t at, struct err *err, const char *what)
{
	*ret_at = at;
	return err_set(err, -EINVAL, "%s, at byte %zu", what, at + 1);
}

static size_t skip_space(const char *text, size_t at)
{
	while (isspace((unsigned char)text[at]))
		at++;
	return at;
}

/* Return the place of the comparison: the first < or > outside of quotes, or the end. */
static size_t find_op(const char *text)
{
	char quote = 0;
	size_t at = 0;
	for (; text[at]; at++) {
		char c = text[at];
		if (quote && quote != '`' && c == '\\' && text[at + 1])
			at++;
		else if (quote)
			quote = c == quote ? 0 : quote;
		else if (c == '"' || c == '\'' || c == '`')
			quote = c;
		else if (c == '<' || c == '>')
			break;
	}
	return at;
}

static bool is_word(const char *text, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("_:.-/", text[i]))
			return false;
	return to > from;
}

static int parse_subject(struct gate_rule *r, const char *text, size_t to, size_t *ret_at,
			 struct err *err)
{
	size_t from = skip_space(text, 0);
	while (to > from && isspace((unsigned char)text[to - 1]))
		to--;
	if (from == to)
		return fail(ret_at, from, err,
			    "expected what the rule is about, as in function > 2%");
	char *subject = strndup(text + from, to - from);
	if (!subject)
		return err_sys(err, -ENOMEM, "rule");
	if (is_word(text, from, to)) {
		r->name = subject;
		return 0;
	}
	size_t at = 0;
	int rc = selector_parse(&r->where, subject, &at, err);
	struct selector_matcher first;
	if (!rc && !selector_matcher(r->where, 0, &first))
		rc = fail(&at, 0, err, "expected a matcher, as in function=\"parse\" > 2%");
	free(subject);
	if (rc == -EINVAL)
		*ret_at = from + at;
	return rc;
}

static enum gate_op parse_op(const char *text, size_t *at)
{
	bool equal = text[*at + 1] == '=';
	bool less = text[*at] == '<';
	*at += equal ? 2 : 1;
	return less ? equal ? GATE_LESS_EQUAL : GATE_LESS : equal ? GATE_MORE_EQUAL : GATE_MORE;
}

/* Digits and at most one point: no sign, exponent, hexadecimal number or infinity. */
static size_t number_end(const char *text, size_t at)
{
	size_t from = at, digits = 0;
	for (bool point = false; isdigit((unsigned char)text[at]) || (text[at] == '.' && !point);
	     at++) {
		point |= text[at] == '.';
		digits += text[at] != '.';
	}
	return digits ? at : from;
}

static int parse_limit(struct gate_rule *r, const char *text, size_t at, size_t *ret_at,
		       struct err *err)
{
	at = skip_space(text, at);
	size_t end = number_end(text, at);
	if (end == at || end - at > 15)
		return fail(ret_at, at, err,
			    "expected a number of at most 15 digits, as in function > 2%");
	r->limit = strtod(text + at, NULL);
	at = skip_space(text, end);
	r->unit = text[at] == '%' ? GATE_PERCENT : text[at] == 'x' ? GATE_TIMES : GATE_COUNT;
	at = skip_space(text, at + (r->unit != GATE_COUNT));
	if (text[at])
		return fail(ret_at, at, err,
			    r->unit == GATE_COUNT ? "expected %, x or the end of the rule"
						  : "expected the end of the rule");
	return 0;
}

static int parse(struct gate_rule *r, const char *text, size_t *ret_at, struct err *err)
{
	if (strlen(text) > GATE_RULE_MAX)
		return fail(ret_at, GATE_RULE_MAX, err, "a rule has at most 4,096 bytes");
	size_t at = find_op(text);
	/* A matcher without its end has no comparison either: say first what is wrong with it */
	int rc = parse_subject(r, text, at, ret_at, err);
	if (rc)
		return rc;
	if (!text[at])
		return fail(ret_at, at, err, "expected > or < and a limit, as in function > 2%");
	r->op = parse_op(text, &at);
	return parse_limit(r, text, at, ret_at, err);
}

int gate_rule_parse(struct gate_rule *ret, const char *text, size_t *ret_at, struct err *err)
{
	struct gate_rule r = { .text = strdup(text) };
	int rc = r.text ? parse(&r, text, ret_at, err) : err_sys(err, -ENOMEM, "rule");
	if (rc)
		gate_rule_fini(&r);
	else
		*ret = r;
	return rc;
}

void gate_rule_fini(struct gate_rule *r)
{
	free(r->text);
	free(r->name);
	selector_free(r->where);
	*r = (struct gate_rule){ 0 };
}

bool gate_rule_compare(const struct gate_rule *r, double value)
{
	switch (r->op) {
	case GATE_MORE:
		return value > r->limit;
	case GATE_MORE_EQUAL:
		return value >= r->limit;
	case GATE_LESS:
		return value < r->limit;
	case GATE_LESS_EQUAL:
		return value <= r->limit;
	}
	return false;
}
