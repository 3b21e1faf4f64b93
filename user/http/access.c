/* SPDX-License-Identifier: Apache-2.0 */
#include "http/access.h"

#include "query/scope.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_MIN 16
#define TOKEN_MAX 1024
#define SPACE " \t\r"

static const char name_chars[] =
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

static void wipe(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

void access_fini(struct access *a)
{
	for (size_t i = 0; i < a->n; i++) {
		wipe(a->v[i].token);
		free(a->v[i].where);
	}
	free(a->v);
	*a = (struct access){ .v = NULL };
}

/* In a time that tells nothing of the place where they differ. token is not empty. */
static bool same_token(const char *given, const char *token)
{
	size_t n = strlen(given), m = strlen(token);
	unsigned diff = n != m;
	for (size_t i = 0; i < n; i++)
		diff |= (unsigned char)given[i] ^ (unsigned char)token[i % m];
	return !diff;
}

const struct access_grant *access_find(const struct access *a, const char *token)
{
	const struct access_grant *found = NULL;
	for (size_t i = 0; i < a->n; i++) /* all of them, whichever it is */
		if (a->v[i].token && same_token(token, a->v[i].token))
			found = &a->v[i];
	return found;
}

const struct access_grant *access_certificate(const struct access *a, const char *name)
{
	for (size_t i = 0; i < a->n; i++)
		if (!a->v[i].token && !strcmp(a->v[i].name, name))
			return &a->v[i];
	return NULL;
}

bool access_may(const struct access_grant *g, unsigned what)
{
	return g->may & (what | ACCESS_ADMIN);
}

bool access_any_may(const struct access *a, unsigned what)
{
	for (size_t i = 0; i < a->n; i++)
		if (access_may(&a->v[i], what))
			return true;
	return false;
}

static int check(const struct access *a, const char *name, const char *token, struct err *err)
{
	const size_t n = token ? strlen(token) : TOKEN_MIN;
	if (a->n == ACCESS_TOKENS_MAX)
		return err_set(err, -EINVAL, "more than %d tokens", ACCESS_TOKENS_MAX);
	if (!*name || strlen(name) > ACCESS_NAME_MAX || name[strspn(name, name_chars)])
		return err_set(err, -EINVAL, "a name has 1 to %d letters, digits, '.', '_' and '-'",
			       ACCESS_NAME_MAX);
	if (n < TOKEN_MIN || n > TOKEN_MAX)
		return err_set(err, -EINVAL, "a token has %d to %d bytes", TOKEN_MIN, TOKEN_MAX);
	for (size_t i = 0; i < a->n; i++) {
		if (!strcmp(a->v[i].name, name))
			return err_set(err, -EINVAL, "the name %s is there twice", name);
		if (token && a->v[i].token && !strcmp(a->v[i].token, token))
			return err_set(err, -EINVAL, "%s has the token of %s", name, a->v[i].name);
	}
	return 0;
}

int access_add(struct access *a, const char *name, const char *token, unsigned may, struct err *err)
{
	int rc = check(a, name, token, err);
	if (rc)
		return rc;
	struct access_grant *v = reallocarray(a->v, a->n + 1, sizeof(*v));
	char *copy = token ? strdup(token) : NULL;
	a->v = v ? v : a->v;
	if (!v || (token && !copy)) {
		wipe(copy);
		return err_set(err, -ENOMEM, "out of memory");
	}
	v += a->n++;
	*v = (struct access_grant){ .may = may, .token = copy };
	strcpy(v->name, name);
	return 0;
}

/* ---- a file of tokens ---- */

/* The length of a selector in braces; 0: its end is missing. */
static size_t selector_len(const char *s)
{
	char quote = 0;
	for (size_t i = 1; s[i]; i++) {
		if (quote && s[i] == '\\' && quote != '`' && s[i + 1])
			i++;
		else if (quote)
			quote = s[i] == quote ? 0 : quote;
		else if (strchr("\"'`", s[i]))
			quote = s[i];
		else if (s[i] == '}')
			return i + 1;
	}
	return 0;
}

/* The selector behind `read`, if there is one. */
static int take_selector(char **io, struct access_grant *g, struct err *err)
{
	struct scope scope;
	char *s = *io + strspn(*io, SPACE);
	if (*s != '{')
		return 0;
	const size_t n = selector_len(s);
	if (!n)
		return err_set(err, -EINVAL, "a selector without its }");
	g->where = strndup(s, n);
	if (!g->where)
		return err_set(err, -ENOMEM, "out of memory");
	int rc = scope_parse(&scope, g->where, err);
	scope_fini(&scope);
	*io = s + n;
	return rc;
}

static int take_scope(char **io, struct access_grant *g, struct err *err)
{
	static const char *const names[] = { "read", "ingest", "capture", "admin" };
	char *s = *io;
	const size_t n = strcspn(s, SPACE ",{");
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (n != strlen(names[i]) || memcmp(s, names[i], n))
			continue;
		if (g->may & 1u << i)
			return err_set(err, -EINVAL, "%s is there twice", names[i]);
		g->may |= 1u << i;
		*io = s + n;
		return 1u << i == ACCESS_READ ? take_selector(io, g, err) : 0;
	}
	return err_set(err, -EINVAL, "a scope is read, ingest, capture or admin");
}

static int take_scopes(char *s, struct access_grant *g, struct err *err)
{
	int rc = 0;
	for (s += strspn(s, SPACE ","); !rc && *s; s += strspn(s, SPACE ","))
		rc = take_scope(&s, g, err);
	if (!rc && !g->may)
		rc = err_set(err, -EINVAL, "%s has no scope: read, ingest, capture or admin",
			     g->name);
	if (!rc && g->where && (g->may & ACCESS_ADMIN))
		rc = err_set(err, -EINVAL, "admin sees everything: no selector goes with it");
	return rc;
}

/* Cut the next word off *io. */
static char *take_word(char **io)
{
	char *word = *io + strspn(*io, SPACE), *end = word + strcspn(word, SPACE);
	*io = end + (*end != 0);
	*end = 0;
	return word;
}

static int parse_line(struct access *a, char *line, struct err *err)
{
	const char *name = take_word(&line), *token;
	if (!*name || *name == '#')
		return 0;
	token = take_word(&line);
	token = strcmp(token, "certificate") ? token : NULL;
	int rc = access_add(a, name, token, 0, err);
	return rc ? rc : take_scopes(line, &a->v[a->n - 1], err);
}

int access_parse(struct access *a, const char *text, struct err *err)
{
	struct err why = { 0 };
	char *copy = strdup(text), *rest = copy, *line;
	int rc = copy ? 0 : err_set(err, -ENOMEM, "out of memory");
	const size_t len = strlen(text);
	for (size_t i = 1; !rc && (line = strsep(&rest, "\n")); i++) {
		rc = parse_line(a, line, &why);
		if (rc)
			err_set(err, rc, "line %zu: %.400s", i, why.text);
	}
	if (copy)
		explicit_bzero(copy, len);
	free(copy);
	return rc;
}
