/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The label filter against a reading of its rules one by one, on random rules and keys of few
 * different bytes.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "labels/filter.h"

static uint64_t state = 99;

static uint32_t rnd(uint32_t below)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((state >> 33) % below);
}

/* The longest rule that fits, the key itself first. */
static enum filter_action brute_force(const struct filter_rule *r, size_t n, const char *key,
				      size_t len)
{
	enum filter_action best = FILTER_KEEP;
	long longest = -1;
	for (size_t i = 0; i < n; i++) {
		size_t rule = strlen(r[i].text);
		int prefix = r[i].text[rule - 1] == '*';
		rule -= (size_t)prefix;
		if (r[i].action == FILTER_KEEP && longest < 0)
			best = FILTER_DROP;
		if (len < rule || memcmp(r[i].text, key, rule) || (!prefix && rule != len))
			continue;
		long weight = 2 * (long)rule + !prefix;
		if (weight > longest) {
			longest = weight;
			best = r[i].action;
		}
	}
	return best;
}

static const char *const alphabets[] = { "ab", "ab-", "aAq1!", "x\x80\xc3\xff\xbf",
					 "abcdefghijklmnopqrstuvwxyz-_.0123456789" };

static size_t make_text(char *out, const char *alphabet, size_t most)
{
	size_t len = rnd((uint32_t)most + 1), letters = strlen(alphabet);
	for (size_t i = 0; i < len; i++)
		out[i] = alphabet[rnd((uint32_t)letters)];
	out[len] = 0;
	return len;
}

/* A key that is a rule, or a bit more, less or other than one, or any. */
static size_t make_key(char *out, const struct filter_rule *r, size_t n, const char *alphabet,
		       size_t most)
{
	if (!n || rnd(4) == 0)
		return make_text(out, alphabet, most + 3);
	size_t len = strlen(strcpy(out, r[rnd((uint32_t)n)].text));
	if (out[len - 1] == '*')
		len--;
	if (rnd(2))
		len += make_text(out + len, alphabet, 3);
	if (len && rnd(3) == 0)
		out[rnd((uint32_t)len)] = alphabet[rnd((uint32_t)strlen(alphabet))];
	if (len && rnd(4) == 0)
		len--;
	return len;
}

static void test_random(void **ctx)
{
	static char text[200][260];
	struct filter_rule r[200];
	(void)ctx;
	for (int round = 0; round < 3000; round++) {
		const char *alphabet = alphabets[rnd(5)];
		size_t most = rnd(8) ? 1 + rnd(9) : 100, n = 0;
		/* With keep rules or without */
		enum filter_action least = rnd(2) ? FILTER_DROP : FILTER_KEEP;
		for (uint32_t want = rnd(rnd(4) ? 12 : 200); want; want--) {
			size_t len = make_text(text[n], alphabet, most);
			if (rnd(3) == 0 || !len)
				strcpy(text[n] + len, "*");
			r[n] = (struct filter_rule){ text[n],
						     (enum filter_action)(least + rnd(3 - least)) };
			size_t k = 0;
			while (k < n && strcmp(text[k], text[n]))
				k++;
			n += k == n;
		}
		struct label_filter *f;
		assert_int_equal(filter_new(&f, r, n, NULL), 0);
		for (int i = 0; i < 60; i++) {
			char key[400];
			size_t len = make_key(key, r, n, alphabet, most);
			/* Of its exact size, for the sanitizer */
			char *exact = malloc(len ? len : 1);
			memcpy(exact, key, len);
			assert_int_equal(filter_find(f, exact, len), brute_force(r, n, key, len));
			free(exact);
		}
		filter_free(f);
	}
}

static enum filter_action find(const struct filter_rule *r, size_t n, const char *key)
{
	struct label_filter *f;
	assert_int_equal(filter_new(&f, r, n, NULL), 0);
	enum filter_action a = filter_find(f, key, strlen(key));
	filter_free(f);
	return a;
}

static void test_rules(void **ctx)
{
	const struct filter_rule keep[] = { { "tenant", FILTER_KEEP },
					    { "http.*", FILTER_KEEP },
					    { "http.cookie", FILTER_DROP },
					    { "http.cookie.name", FILTER_REDACT },
					    { "http.c*", FILTER_REDACT } };
	const struct filter_rule drop[] = { { "auth*", FILTER_DROP }, { "user", FILTER_REDACT } };
	const struct filter_rule all[] = { { "*", FILTER_REDACT }, { "a", FILTER_KEEP } };
	(void)ctx;
	assert_int_equal(find(keep, 5, "tenant"), FILTER_KEEP);
	assert_int_equal(find(keep, 5, "tenants"), FILTER_DROP);
	assert_int_equal(find(keep, 5, "http."), FILTER_KEEP);
	assert_int_equal(find(keep, 5, "http.url"), FILTER_KEEP);
	assert_int_equal(find(keep, 5, "http.cookie"), FILTER_DROP);
	assert_int_equal(find(keep, 5, "http.cookie.name"), FILTER_REDACT);
	assert_int_equal(find(keep, 5, "http.cookie.nam"), FILTER_REDACT);
	assert_int_equal(find(keep, 5, "http.d"), FILTER_KEEP);
	assert_int_equal(find(keep, 5, ""), FILTER_DROP);
	assert_int_equal(find(drop, 2, "authorization"), FILTER_DROP);
	assert_int_equal(find(drop, 2, "auth"), FILTER_DROP);
	assert_int_equal(find(drop, 2, "aut"), FILTER_KEEP);
	assert_int_equal(find(drop, 2, "user"), FILTER_REDACT);
	assert_int_equal(find(drop, 2, "User"), FILTER_KEEP);
	assert_int_equal(find(all, 2, "a"), FILTER_KEEP);
	assert_int_equal(find(all, 2, "b"), FILTER_REDACT);
	assert_int_equal(find(all, 2, ""), FILTER_REDACT);
	assert_int_equal(find(NULL, 0, "a"), FILTER_KEEP);
}

static int refused(const char *a, enum filter_action x, const char *b, enum filter_action y)
{
	struct label_filter *f = NULL;
	struct err err = { 0 };
	int rc = filter_new(&f, (struct filter_rule[]){ { a, x }, { b, y } }, 2, &err);
	assert_true(rc == 0 || err.text[0]);
	if (!rc)
		filter_free(f);
	return rc;
}

static void test_hostile_lists(void **ctx)
{
	static char text[FILTER_RULES_MAX + 1][FILTER_KEY_MAX + 8];
	static struct filter_rule r[FILTER_RULES_MAX + 1];
	char longest[FILTER_KEY_MAX + 8];
	struct label_filter *f;
	struct err err = { 0 };
	(void)ctx;
	assert_int_equal(refused("", FILTER_DROP, "a", FILTER_DROP), -EINVAL);
	assert_int_equal(refused("a*b", FILTER_DROP, "a", FILTER_DROP), -EINVAL);
	assert_int_equal(refused("a**", FILTER_DROP, "a", FILTER_DROP), -EINVAL);
	assert_int_equal(refused("a", FILTER_DROP, "a", FILTER_REDACT), -EINVAL);
	assert_int_equal(refused("*", FILTER_DROP, "*", FILTER_REDACT), -EINVAL);
	assert_int_equal(refused("a", FILTER_DROP, "a", FILTER_DROP), 0);
	assert_int_equal(refused("a*", FILTER_DROP, "a", FILTER_REDACT), 0);
	memset(longest, 'k', sizeof(longest));
	longest[FILTER_KEY_MAX + 1] = 0;
	assert_int_equal(refused(longest, FILTER_DROP, "a", FILTER_DROP), -E2BIG);
	longest[FILTER_KEY_MAX] = '*';
	assert_int_equal(refused(longest, FILTER_DROP, "a", FILTER_DROP), 0);
	/*
	 * As many rules as are allowed, each the beginning of the next as far as that goes, all as
	 * long as they may be.
	 */
	for (size_t i = 0; i <= FILTER_RULES_MAX; i++) {
		size_t len = 1 + i % FILTER_KEY_MAX;
		memset(text[i], 'a' + (int)(i / FILTER_KEY_MAX), len);
		text[i][len] = i % 2 ? '*' : 0;
		r[i] = (struct filter_rule){ text[i], FILTER_DROP };
	}
	assert_int_equal(filter_new(&f, r, FILTER_RULES_MAX + 1, &err), -E2BIG);
	assert_non_null(strstr(err.text, "16384"));
	assert_int_equal(filter_new(&f, r, FILTER_RULES_MAX, &err), 0);
	for (size_t i = 0; i < FILTER_RULES_MAX; i++) {
		size_t len = strcspn(text[i], "*");
		assert_int_equal(filter_find(f, text[i], len), FILTER_DROP);
	}
	assert_int_equal(filter_find(f, "a", 1), FILTER_DROP);
	assert_int_equal(filter_find(f, "Z", 1), FILTER_KEEP);
	filter_free(f);
}

/* ---- redaction ---- */

static struct label string(const char *key, const char *value)
{
	return (struct label){ .key = key,
			       .key_len = (uint32_t)strlen(key),
			       .str = value,
			       .str_len = (uint32_t)strlen(value),
			       .type = LABEL_STRING };
}

static void test_apply(void **ctx)
{
	const struct filter_rule rules[] = { { "secret*", FILTER_DROP },
					     { "user", FILTER_REDACT },
					     { "n", FILTER_REDACT } };
	struct label v[] = { string("a", "1"),
			     string("secret", "x"),
			     string("user", "ann"),
			     string("secret_id", "y"),
			     { .key = "n", .key_len = 1, .num = 42, .type = LABEL_INT },
			     string("z", "") };
	char room[6 * REDACTED_LEN], text[3][REDACTED_LEN];
	struct redactor r = { .key = { 1, 2 } }, other = { .key = { 1, 3 } };
	uint64_t credentials = 0;
	struct label user = v[2], bob = string("user", "bob"), usera = string("usera", "nn");
	struct label_filter *f;
	(void)ctx;
	assert_int_equal(filter_new(&f, rules, 3, NULL), 0);
	assert_int_equal(filter_apply(f, &r, v, 6, room, &credentials), 4);
	assert_memory_equal(v[0].str, "1", 1);
	redactor_text(&r, &user, text[0]);
	assert_int_equal(v[1].str_len, REDACTED_LEN);
	assert_memory_equal(v[1].str, text[0], REDACTED_LEN);
	assert_memory_equal(v[1].str, "redacted:", 9);
	assert_int_equal(v[2].type, LABEL_STRING);
	assert_memory_equal(v[2].str, "redacted:", 9);
	assert_memory_equal(v[3].key, "z", 1);
	/* Equal values stay equal, others different; another key, other texts. */
	redactor_text(&r, &bob, text[1]);
	redactor_text(&r, &usera, text[2]);
	assert_memory_not_equal(text[0], text[1], REDACTED_LEN);
	assert_memory_not_equal(text[0], text[2], REDACTED_LEN);
	redactor_text(&other, &user, text[1]);
	assert_memory_not_equal(text[0], text[1], REDACTED_LEN);
	filter_free(f);
	assert_int_equal(filter_apply(NULL, &r, v, 4, room, &credentials), 4);
	assert_int_equal(credentials, 0);
}

/* Published examples of their forms, none of them valid; and values that only seem to be some. */
static void test_credentials(void **ctx)
{
	static const char *const are[] = {
		"AKIAIOSFODNN7EXAMPLE",
		"id=ASIAIOSFODNN7EXAMPLE;",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE",
		"Bearer mF_9.B5f-4.1JqM-0123456789",
		"Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
		"ghp_0123456789abcdefghijABCDEFGHIJ012345",
		"glpat-0123456789abcdefghij",
		"xoxb-123456789012-abcdef",
		"host=db user=app password=hunter2",
		"DB_PASSWORD: 'hunter2'",
		"mysql --password=hunter2 -u root",
		"{\"api_key\":\"0123456\"}",
		"postgres://app:hunter2@db/shop",
		"https://x/?a=1&access_key=abcd1234",
	};
	static const char *const are_not[] = {
		"",
		"shop",
		"AKIAIOSFODNN7EXAMPLEX",
		"XAKIAIOSFODNN7EXAMPLE",
		"AKIA",
		"eyJ",
		"eyJhbGciOiJIUzI1NiJ9",
		"-----BEGIN CERTIFICATE-----",
		"bearer of news",
		"tokens=5",
		"token=5",
		"password",
		"password=",
		"password reset",
		"nopassword=hunter2",
		"GET /a?b=cdef",
		"http://example.org:8080/a@b",
		"user@example.org",
		"550e8400-e29b-41d4-a716-446655440000",
		"select * from t where a = 'abcdef'",
	};
	const struct redactor hides = { .key = { 1, 2 } },
			      shows = { .key = { 1, 2 }, .credentials = true };
	char room[REDACTED_LEN];
	uint64_t n = 0;
	(void)ctx;
	for (size_t i = 0; i < sizeof(are) / sizeof(are[0]); i++) {
		struct label l = string("k", are[i]);
		assert_int_equal(filter_apply(NULL, &shows, &l, 1, room, &n), 1);
		assert_ptr_equal(l.str, are[i]);
		assert_int_equal(n, i);
		assert_int_equal(filter_apply(NULL, &hides, &l, 1, room, &n), 1);
		if (n != i + 1)
			fail_msg("%s", are[i]);
		assert_memory_equal(l.str, "redacted:", 9);
		assert_int_equal(l.str_len, REDACTED_LEN);
	}
	n = 0;
	for (size_t i = 0; i < sizeof(are_not) / sizeof(are_not[0]); i++) {
		struct label l = string("k", are_not[i]);
		assert_int_equal(filter_apply(NULL, &hides, &l, 1, room, &n), 1);
		if (n || l.str != are_not[i])
			fail_msg("%s", are_not[i]);
	}
}

static int text_cmp(const void *a, const void *b)
{
	return memcmp(a, b, REDACTED_LEN);
}

/* 50,000 values give 50,000 texts. */
static void test_cardinality(void **ctx)
{
	static char text[50000][REDACTED_LEN];
	struct redactor r;
	(void)ctx;
	assert_int_equal(redactor_init(&r), 0);
	for (int i = 0; i < 50000; i++)
		redactor_text(&r,
			      &(struct label){
				      .key = "user_id", .key_len = 7, .num = i, .type = LABEL_INT },
			      text[i]);
	qsort(text, 50000, REDACTED_LEN, text_cmp);
	for (int i = 1; i < 50000; i++)
		assert_memory_not_equal(text[i - 1], text[i], REDACTED_LEN);
}

/*
 * Against SipHash-2-4 as openssl has it (openssl mac -macopt hexkey:000102...0f -macopt size:8
 * SipHash): the key, type and value of label "ab"="cde"; openssl prints the bytes from the lowest
 * on.
 */
static void test_siphash(void **ctx)
{
	struct redactor r = { { 0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull } };
	struct label l = string("ab", "cde");
	char out[REDACTED_LEN];
	(void)ctx;
	redactor_text(&r, &l, out);
	assert_memory_equal(out + 9, "989b43e6ab087c44", 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),	      cmocka_unit_test(test_rules),
		cmocka_unit_test(test_hostile_lists), cmocka_unit_test(test_apply),
		cmocka_unit_test(test_credentials),   cmocka_unit_test(test_cardinality),
		cmocka_unit_test(test_siphash),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
