/* SPDX-License-Identifier: Apache-2.0 */
#include "labels/credential.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define SECRET_MIN 4 /* bytes behind "password=": shorter ones are counts and flags */

struct form {
	const char *begin;
	unsigned char rest; /* characters of the class at least, behind it */
	enum { UPPER, WORD, BASE64 } of;
	bool any_case, alone; /* alone: the rest is no longer than that */
};

/* By their publishers' descriptions. */
static const struct form forms[] = {
	{ "AKIA", 16, UPPER, false, true }, /* AWS */
	{ "ASIA", 16, UPPER, false, true },
	{ "AIza", 35, WORD, false, false }, /* Google */
	{ "ghp_", 36, WORD, false, false }, /* GitHub */
	{ "gho_", 36, WORD, false, false },
	{ "ghs_", 36, WORD, false, false },
	{ "ghu_", 36, WORD, false, false },
	{ "github_pat_", 22, WORD, false, false },
	{ "glpat-", 20, WORD, false, false }, /* GitLab */
	{ "xoxb-", 10, WORD, false, false },  /* Slack */
	{ "xoxp-", 10, WORD, false, false },
	{ "sk_live_", 16, WORD, false, false }, /* Stripe */
	{ "bearer ", 16, BASE64, true, false }, /* Authorization */
	{ "basic ", 12, BASE64, true, false },
	{ "-----BEGIN ", 0, WORD, false, false }, /* PEM: see is_private */
};

static const char *const names[] = { "password", "passwd", "pwd",	 "secret",
				     "api_key",	 "apikey", "access_key", "token" };

static bool is_of(int class, unsigned char c)
{
	return class == UPPER ? isupper(c) || isdigit(c)
			      : isalnum(c) || c == '_' || c == '-' ||
					(class == BASE64 && (c == '.' || strchr("+/=~", c)));
}

static size_t span(int class, const char *s, const char *end)
{
	size_t n = 0;
	while (s + n < end && s[n] && is_of(class, (unsigned char)s[n]))
		n++;
	return n;
}

static bool starts(const char *s, const char *end, const char *with, bool any_case)
{
	const size_t n = strlen(with);
	return (size_t)(end - s) >= n &&
	       !(any_case ? strncasecmp(s, with, n) : strncmp(s, with, n));
}

static bool is_form(const char *text, const char *s, const char *end)
{
	if (end - s < 2 || (s > text && isalnum((unsigned char)s[-1]))) /* within a word */
		return false;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		const struct form *f = &forms[i];
		if ((s[1] | 32) != (f->begin[1] | 32) || !starts(s, end, f->begin, f->any_case))
			continue;
		const char *rest = s + strlen(f->begin);
		const size_t n = span(f->of, rest, end);
		if (!f->rest)
			return memmem(rest, (size_t)(end - rest), "PRIVATE KEY", 11) != NULL;
		if (f->alone ? n == f->rest : n >= f->rest)
			return true;
	}
	return false;
}

/* Header, payload, signature: base64url of "{" begins with "ey". */
static bool is_jwt(const char *s, const char *end)
{
	if (!starts(s, end, "eyJ", false))
		return false;
	const size_t head = span(WORD, s, end);
	const char *body = s + head + 1;
	return head >= 10 && body < end && s[head] == '.' && starts(body, end, "eyJ", false) &&
	       span(WORD, body, end) >= 8;
}

/* "scheme://user:password@host", from its colon on. */
static bool is_userinfo(const char *s, const char *end)
{
	const char *colon = NULL;
	if (!starts(s, end, "://", false))
		return false;
	for (s += 3; s < end && !strchr("/?# \t", *s); s++) {
		if (*s == '@')
			return colon && s - colon > 1;
		if (*s == ':' && !colon)
			colon = s;
	}
	return false;
}

/* "password=...", "db_password: ...", from its sign on. */
static bool is_assigned(const char *text, const char *s, const char *end)
{
	const char *value = s + 1;
	for (; value < end && strchr(" \"'", *value); value++)
		;
	size_t n = 0;
	while (value + n < end && value[n] && !strchr(" &;,\"'", value[n]))
		n++;
	if (n < SECRET_MIN)
		return false;
	while (s > text && strchr(" \"'", s[-1]))
		s--;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const size_t len = strlen(names[i]);
		if ((size_t)(s - text) >= len && !strncasecmp(s - len, names[i], len) &&
		    ((size_t)(s - text) == len || !isalnum((unsigned char)s[-(ptrdiff_t)len - 1])))
			return true;
	}
	return false;
}

bool credential_in(const char *text, size_t len)
{
	const char *end = text + len;
	for (const char *s = text; s < end; s++) {
		switch (*s) {
		case 'e':
			if (is_jwt(s, end))
				return true;
			break;
		case ':':
			if (is_userinfo(s, end) || is_assigned(text, s, end))
				return true;
			break;
		case '=':
			if (is_assigned(text, s, end))
				return true;
			break;
		case 'A':
		case 'B':
		case 'b':
		case 'g':
		case 's':
		case 'x':
		case '-':
			if (is_form(text, s, end))
				return true;
		}
	}
	return false;
}
