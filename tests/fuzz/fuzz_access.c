/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: the file of tokens, what a token's selector shows, and values of labels. The input is
 * a file of tokens. Behind its first empty line stand values, or label sets "key=value,key=value".
 *
 * A grant is found by its own token or certificate alone. What a scope shows has the labels of the
 * scope, and so has the other party of a wait.
 *
 * Covers: http/access.c query/scope.c labels/credential.c
 */
#include "fuzz/input.h"
#include "fuzz/label_set.h"
#include "http/access.h"
#include "labels/credential.h"
#include "query/scope.h"

static bool holds(struct scope *s, const struct label *v, size_t n)
{
	struct err err;
	bool match = true;
	for (size_t i = 0; i < s->n_keys; i++) {
		const struct label key = { .key = s->keys[i],
					   .key_len = (uint32_t)strlen(s->keys[i]) };
		if (labels_find(v, n, &key) == n)
			return false;
	}
	return selector_match(s->selector, v, n, &match, &err) || match;
}

static bool is_by(const struct label *l)
{
	return l->key_len > 3 && !memcmp(l->key, "by.", 3);
}

/* The labels "by.*" are the other party: it may be seen, or is nobody's. */
static bool shows_party(struct scope *s, const struct label *v, size_t n)
{
	struct label party[LABEL_SET_MAX];
	size_t found = 0;
	for (size_t i = 0; i < n; i++) {
		if (!is_by(&v[i]))
			continue;
		party[found] = v[i];
		party[found].key += 3;
		party[found++].key_len -= 3;
	}
	if (found == 1 && party->key_len == 4 && !memcmp(party->key, "comm", 4) && party->str_len &&
	    party->str[0] == '(')
		return true;
	return !found || holds(s, party, found);
}

static void admit(struct scope *s, char *line)
{
	struct label v[LABEL_SET_MAX], room[STORE_SET_MAX];
	const struct label *shown = v;
	const size_t n = labels_of(line, v);
	size_t n_shown = n;
	struct err err;
	bool seen;
	if (scope_admit(s, &shown, &n_shown, room, &seen, &err) || !s->selector)
		return;
	require(seen == holds(s, v, n));
	require(!seen || (n_shown <= n && shows_party(s, shown, n_shown)));
}

static void check_scope(const struct access_grant *g, struct input sets)
{
	struct scope scope;
	if (!scope_parse(&scope, g->where, NULL)) {
		require(!g->where == !scope.selector && !g->where == !scope.n_keys);
		while (sets.left) {
			char *line = take_line(&sets);
			admit(&scope, line);
			free(line);
		}
	}
	scope_fini(&scope);
}

static void check(const struct access *a, struct input sets)
{
	unsigned may = 0;
	for (size_t i = 0; i < a->n; i++) {
		const struct access_grant *g = &a->v[i];
		may |= g->may;
		require(g->may && *g->name && (!g->where || access_may(g, ACCESS_READ)));
		require(!g->token || access_find(a, g->token) == g);
		require(g->token || access_certificate(a, g->name) == g);
		check_scope(g, sets);
	}
	for (unsigned one = ACCESS_READ; one <= ACCESS_ADMIN; one <<= 1)
		require(access_any_may(a, one) == !!(may & (one | ACCESS_ADMIN)));
	require(!access_find(a, "") && !access_find(a, "certificate") &&
		!access_certificate(a, ""));
}

static void look_for_credentials(struct input in)
{
	(void)credential_in((const char *)in.p, in.left);
	while (in.left) {
		size_t len;
		char *line = take_until(&in, '\n', &len);
		(void)credential_in(line, len);
		free(line);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *gap = size ? memmem(data, size, "\n\n", 2) : NULL, *end = data + size;
	const struct input behind = { gap ? gap + 2 : end, gap ? (size_t)(end - gap) - 2 : 0 };
	struct access a = { .v = NULL };
	struct err err = { 0 };
	char *text = copy_of(data, gap ? (size_t)(gap - data) : size);
	look_for_credentials(behind);
	if (!access_parse(&a, text, &err))
		check(&a, behind);
	access_fini(&a);
	free(text);
	return 0;
}
