/* SPDX-License-Identifier: Apache-2.0 */
#include "http/pyro_selector.h"

#include "util/buf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A matcher of a selector's text: http_route="/a" */
struct matcher {
	const char *key, *value; /* value: with its operator */
	size_t key_len, value_len;
};

/* The end of a string in quotes; NULL: it has none. */
static const char *quoted_end(const char *s, const char *end)
{
	char quote = *s++;
	for (; s < end && *s != quote; s++)
		if (*s == '\\' && quote != '`' && s + 1 < end)
			s++;
	return s < end ? s + 1 : NULL;
}

static bool is_quote(const char *s, const char *end)
{
	return s < end && (*s == '"' || *s == '\'' || *s == '`');
}

static size_t span(const char *s, const char *end, const char *any)
{
	size_t n = 0;
	while (s + n < end && strchr(any, s[n]))
		n++;
	return n;
}

/* Take the next matcher off *io. False: it is the end, or no matcher. */
static bool next_matcher(const char **io, const char *end, struct matcher *m)
{
	static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				   "_:.-/";
	const char *s = *io + span(*io, end, " \t\n,");
	m->key = s;
	s = is_quote(s, end) ? quoted_end(s, end) : s + span(s, end, word);
	if (!s || s == m->key)
		return false;
	m->key_len = (size_t)(s - m->key);
	m->value = s;
	s += span(s, end, " \t\n=!~");
	s = is_quote(s, end) ? quoted_end(s, end) : NULL;
	if (!s)
		return false;
	m->value_len = (size_t)(s - m->value);
	*io = s;
	return true;
}

static bool is_type(const struct matcher *m)
{
	return m->key_len == strlen(PYRO_TYPE) && !memcmp(m->key, PYRO_TYPE, m->key_len);
}

/* What is between the braces. */
static const char *inside(const char *s, const char **ret_end)
{
	size_t n = strlen(s);
	bool braces = n >= 2 && s[0] == '{' && s[n - 1] == '}';
	*ret_end = s + n - braces;
	return s + braces;
}

static int add_key(struct buf *out, const char *key)
{
	int rc = buf_add_u8(out, '"');
	for (; !rc && *key; key++)
		rc = *key == '"' || *key == '\\' ? buf_printf(out, "\\%c", *key)
						 : buf_add_u8(out, (uint8_t)*key);
	return rc ? rc : buf_add_u8(out, '"');
}

static int add_matcher(struct buf *out, const struct pyro_names *names, const struct store_event *e,
		       const struct matcher *m)
{
	char name[256];
	int rc = out->len > 1 ? buf_add_u8(out, ',') : 0;
	if (is_quote(m->key, m->key + 1) || m->key_len >= sizeof(name)) {
		rc = rc ? rc : buf_add(out, m->key, m->key_len);
	} else {
		snprintf(name, sizeof(name), "%.*s", (int)m->key_len, m->key);
		rc = rc ? rc : add_key(out, pyro_names_key(names, e, name));
	}
	return rc ? rc : buf_add(out, m->value, m->value_len);
}

static int add_selector(struct buf *out, const struct pyro_names *names,
			const struct store_event *e, const char *text)
{
	struct matcher m;
	const char *end, *at = inside(text, &end);
	int rc = 0;
	while (!rc && next_matcher(&at, end, &m))
		rc = is_type(&m) ? 0 : add_matcher(out, names, e, &m);
	at += span(at, end, " \t\n,");
	if (rc || at == end)
		return rc;
	rc = out->len > 1 ? buf_add_u8(out, ',') : 0;
	return rc ? rc : buf_add(out, at, (size_t)(end - at));
}

int pyro_selector(const struct pyro_names *names, const struct store_event *e, char *const *v,
		  size_t n, char **ret, struct err *err)
{
	struct buf out = BUF_INIT;
	int rc = buf_add_u8(&out, '{');
	for (size_t i = 0; !rc && i < n; i++)
		rc = add_selector(&out, names, e, v[i]);
	rc = rc ? rc : buf_add(&out, "}", 2);
	if (rc) {
		buf_fini(&out);
		return err_set(err, rc, "out of memory");
	}
	*ret = (char *)out.data;
	return 0;
}

void pyro_selector_type(char *const *v, size_t n, char *ret, size_t cap)
{
	struct matcher m;
	*ret = 0;
	for (size_t i = 0; i < n; i++) {
		const char *end, *at = inside(v[i], &end);
		while (next_matcher(&at, end, &m)) {
			size_t op = span(m.value, m.value + m.value_len, " \t\n=");
			if (is_type(&m) && is_quote(m.value + op, m.value + m.value_len))
				snprintf(ret, cap, "%.*s", (int)(m.value_len - op - 2),
					 m.value + op + 1);
		}
	}
}
