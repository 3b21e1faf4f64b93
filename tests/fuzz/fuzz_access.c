/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: the file of tokens, and values of labels. What a file allows is found by the tokens in
 * it alone, under names of their own; what it complains of never has a token in it.
 *
 * Covers: http/access.c query/scope.c labels/credential.c
 */
#include "fuzz/input.h"
#include "http/access.h"
#include "labels/credential.h"
#include "query/scope.h"

static void check(const struct access *a)
{
	for (size_t i = 0; i < a->n; i++) {
		const struct access_grant *g = &a->v[i];
		struct scope scope;
		require(g->may && *g->name && (!g->where || access_may(g, ACCESS_READ)));
		require(!g->token || access_find(a, g->token) == g);
		require(g->token || access_certificate(a, g->name) == g);
		if (!scope_parse(&scope, g->where, NULL))
			require(!g->where == !scope.selector && !g->where == !scope.n_keys);
		scope_fini(&scope);
	}
	require(!access_find(a, "") && !access_find(a, "certificate"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct access a = { .v = NULL };
	char *text = malloc(size + 1);
	struct err err = { 0 };
	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	(void)credential_in(text, size);
	if (!access_parse(&a, text, &err))
		check(&a);
	access_fini(&a);
	free(text);
	return 0;
}
