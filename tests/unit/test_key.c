/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key of a label set, against the definition by brute force (compare texts, XOR the different
 * ones). It is tried with tables so small that each way through the code is taken, with hashes of
 * very few bits, and with sets that really collide.
 */
#define ASCRIBE_UNIQUE_MAX 64
#include <ascribe/label.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "labels/record.h"
#include "store/dict/setpool.h"

static uint64_t state = 7;

static uint64_t rnd64(void)
{
	state += 0x9e3779b97f4a7c15ull;
	uint64_t z = (state ^ state >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static uint32_t rnd(uint32_t below)
{
	return (uint32_t)(rnd64() % below);
}

/* ---- any order, any number of times ---- */

struct hashes {
	const uint64_t *v;
	uint64_t mask;
};

ASCRIBE_HOT ascribe_u64 hash_at(const void *ctx, unsigned long i)
{
	const struct hashes *h = ctx;
	return h->v[i] & h->mask;
}

static uint64_t brute_force(const uint64_t *v, size_t n, uint64_t mask)
{
	uint64_t x = 0;
	for (size_t i = 0; i < n; i++) {
		size_t k = 0;
		while (k < i && (v[k] & mask) != (v[i] & mask))
			k++;
		x ^= k == i ? v[i] & mask : 0;
	}
	return x ? x : ASCRIBE_SET_EMPTY;
}

/*
 * Sizes on both sides of every border; hashes of 0, 2, ... 64 bits, also such that agree in all
 * their low bits.
 */
static void test_against_brute_force(void **ctx)
{
	static const uint64_t masks[] = {
		0, 3, 0xff, 0xffff, 0xffff0000, 0xfffull << 52, 0xffull << 28, ~0ull
	};
	static const uint32_t sizes[] = { 0,  1,  2,   3,   4,	 5,   8,   16,	63,
					  64, 65, 128, 129, 130, 200, 700, 1500 };
	static struct ascribe_unique unique;
	static uint64_t v[1500];
	(void)ctx;
	for (int round = 0; round < 12; round++)
		for (size_t m = 0; m < sizeof(masks) / sizeof(masks[0]); m++)
			for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
				uint32_t n = sizes[s], different = n ? 1 + rnd(n) : 0;
				for (uint32_t i = 0; i < n; i++)
					v[i] = i < different ? rnd64() : v[rnd(different)];
				for (uint32_t i = n; i > 1; i--) {
					uint32_t k = rnd(i);
					uint64_t h = v[i - 1];
					v[i - 1] = v[k];
					v[k] = h;
				}
				struct hashes h = { v, masks[m] };
				assert_int_equal(ascribe_set_key(&unique, n, hash_at, &h),
						 brute_force(v, n, masks[m]));
			}
}

static uint32_t make_labels(struct label *v, char (*text)[64], uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t key_len = rnd(24), len = rnd(40);
		memset(text[i], 'a' + (int)rnd(3), 64);
		v[i] = (struct label){ .key = text[i],
				       .key_len = key_len,
				       .type = (enum label_type)rnd(2) };
		if (v[i].type == LABEL_INT) {
			static const int64_t edge[] = { 0,	   -1, 1,  INT64_MIN,
							INT64_MAX, 10, 99, -1000 };
			v[i].num = rnd(2) ? edge[rnd(8)] : (int64_t)rnd64();
			continue;
		}
		v[i].str = text[i] + key_len;
		v[i].str_len = len;
		text[i][key_len] = (char)rnd(256);
	}
	return n;
}

static uint64_t hash_of(const struct label *l, uint64_t seed)
{
	char text[32];
	size_t len = label_text(l, text, sizeof(text));
	return l->type == LABEL_INT
		       ? ascribe_label_hash(seed, 1, l->key, l->key_len, text, len)
		       : ascribe_label_hash(seed, 0, l->key, l->key_len, l->str, l->str_len);
}

/* In user space, beyond the size of its table too: labels compared as texts. */
static void test_labels(void **ctx)
{
	static struct label v[20000];
	static char text[20000][64];
	(void)ctx;
	for (int round = 0; round < 400; round++) {
		uint64_t seed = rnd64(), x = 0;
		uint32_t n = make_labels(v, text, rnd(40)), total = n;
		for (uint32_t i = 0; i < n; i++) {
			uint32_t k = 0;
			while (k < i && !labels_equal(&v[k], 1, &v[i], 1))
				k++;
			x ^= k == i ? hash_of(&v[i], seed) : 0;
		}
		for (uint32_t more = n ? rnd(60) : 0; more; more--)
			v[total++] = v[rnd(n)];
		for (uint32_t i = total; i > 1; i--) {
			uint32_t k = rnd(i);
			struct label l = v[i - 1];
			v[i - 1] = v[k];
			v[k] = l;
		}
		assert_int_equal(labels_key(v, total, seed), x ? x : ASCRIBE_SET_EMPTY);
	}
	uint64_t x = 0;
	for (uint32_t i = 0; i < 20000; i++) {
		v[i] = (struct label){
			.key = "n", .key_len = 1, .num = i % 9000, .type = LABEL_INT
		};
		x ^= i < 9000 ? hash_of(&v[i], 3) : 0;
	}
	assert_int_equal(labels_key(v, 20000, 3), x);
}

/* What a program publishes is what user space finds for the same labels. */
static void test_published(void **ctx)
{
	static const char *const names[] = { "tenant", "query_id", "user", "a",
					     "region of the world" };
	(void)ctx;
	for (int round = 0; round < 2000; round++) {
		struct ascribe_label_set set;
		struct label v[RECORD_LABELS_MAX];
		struct record_side side;
		size_t n = 0;
		char value[60];
		ascribe_set_init(&set);
		for (uint32_t k = rnd(8); k; k--) {
			const char *name = names[rnd(5)];
			snprintf(value, sizeof(value), "%0*llu", (int)rnd(50),
				 (unsigned long long)rnd64());
			if (rnd(2))
				ascribe_set_add_string(&set, name, value);
			else
				ascribe_set_add_int(&set, name, (int64_t)rnd64());
		}
		assert_int_equal(record_decode(&set.prefix, set.prefix.total_size,
					       ascribe_state_v1.keys.text,
					       ascribe_state_v1.keys.bytes, v, &n, &side),
				 0);
		assert_int_equal(labels_key(v, n, 0), set.prefix.set_id);
	}
}

/* ---- the hash is never trusted ---- */

static int cmp64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

#define PAIRS 70

/*
 * Who knows the seed can make two sets of one key: of 65 keys with two values each some give
 * differences whose XOR is 0 (elimination over bits). Returns which labels take their second value.
 */
static void find_collision(struct label (*pair)[2], uint64_t seed, uint8_t second[PAIRS])
{
	struct {
		uint64_t d;
		uint8_t used[PAIRS];
	} row[64] = { 0 }, now;
	for (int i = 0; i < PAIRS; i++) {
		memset(&now, 0, sizeof(now));
		now.d = hash_of(&pair[i][0], seed) ^ hash_of(&pair[i][1], seed);
		now.used[i] = 1;
		while (now.d) {
			int bit = 63 - __builtin_clzll(now.d);
			if (!row[bit].d) {
				row[bit] = now;
				break;
			}
			now.d ^= row[bit].d;
			for (int k = 0; k < PAIRS; k++)
				now.used[k] ^= row[bit].used[k];
		}
		if (!now.d) {
			memcpy(second, now.used, PAIRS);
			return;
		}
	}
	fail();
}

/*
 * Beside `a` another set with the same key: the key has 64 bits, of which a table uses 32. So sets
 * that agree in these are found by trying (some 2^16 pairs of tries).
 */
static bool find_twin(const struct setpool *p, struct label *l, char *text, uint32_t *ret_a,
		      uint32_t *ret_b)
{
	enum { TRIES = 1 << 18 };
	static uint64_t keys[TRIES];
	for (uint32_t i = 0; i < TRIES; i++) {
		l->str_len = (uint32_t)sprintf(text, "%u", i);
		uint64_t key = labels_list_key(l, 1, p->seed);
		keys[i] = (key ^ key >> 32) << 32 | i;
	}
	qsort(keys, TRIES, sizeof(keys[0]), cmp64);
	for (uint32_t i = 1; i < TRIES; i++)
		if (keys[i - 1] >> 32 == keys[i] >> 32) {
			*ret_a = (uint32_t)keys[i - 1];
			*ret_b = (uint32_t)keys[i];
			return true;
		}
	return false;
}

static void test_collisions(void **ctx)
{
	static char key[PAIRS][8];
	struct label pair[PAIRS][2], a[PAIRS], b[PAIRS];
	uint8_t second[PAIRS] = { 0 };
	uint32_t id_a = 0, id_b = 0, again = 0;
	struct setpool pool;
	(void)ctx;
	assert_int_equal(setpool_init(&pool), 0);
	for (int i = 0; i < PAIRS; i++) {
		snprintf(key[i], sizeof(key[i]), "k%03d", i);
		pair[i][0] =
			(struct label){ .key = key[i], .key_len = 4, .str = "no", .str_len = 2 };
		pair[i][1] =
			(struct label){ .key = key[i], .key_len = 4, .str = "yes", .str_len = 3 };
	}
	find_collision(pair, pool.seed, second);
	for (int i = 0; i < PAIRS; i++) {
		a[i] = pair[i][0];
		b[i] = pair[i][second[i]];
	}
	assert_int_equal(labels_key(a, PAIRS, pool.seed), labels_key(b, PAIRS, pool.seed));
	assert_int_equal(setpool_add(&pool, a, PAIRS, &id_a), 0);
	assert_int_equal(setpool_add(&pool, b, PAIRS, &id_b), 0);
	assert_int_not_equal(id_a, id_b);
	assert_int_equal(setpool_add(&pool, a, PAIRS, &again), 0);
	assert_int_equal(again, id_a);
	const struct label *kept;
	size_t n = setpool_get(&pool, id_b, &kept);
	assert_true(labels_equal(kept, n, b, PAIRS));
	/* With another seed the same sets have different keys. */
	assert_int_not_equal(labels_key(a, PAIRS, pool.seed + 1),
			     labels_key(b, PAIRS, pool.seed + 1));
	setpool_fini(&pool);
}

/* Two sets of one hash in a pool stay two, whichever is looked for. */
static void test_twins(void **ctx)
{
	char text[2][16];
	struct label l[2] = { { .key = "query", .key_len = 5, .str = text[0] },
			      { .key = "query", .key_len = 5, .str = text[1] } };
	uint32_t a = 0, b = 0, id[2], again;
	struct setpool pool;
	(void)ctx;
	assert_int_equal(setpool_init(&pool), 0);
	assert_true(find_twin(&pool, &l[0], text[0], &a, &b));
	l[0].str_len = (uint32_t)sprintf(text[0], "%u", a);
	l[1].str_len = (uint32_t)sprintf(text[1], "%u", b);
	uint64_t key[2] = { labels_list_key(&l[0], 1, pool.seed),
			    labels_list_key(&l[1], 1, pool.seed) };
	assert_int_equal((uint32_t)(key[0] ^ key[0] >> 32), (uint32_t)(key[1] ^ key[1] >> 32));
	assert_int_equal(setpool_add(&pool, &l[0], 1, &id[0]), 0);
	assert_false(setpool_find(&pool, &l[1], 1, &again));
	assert_int_equal(setpool_add(&pool, &l[1], 1, &id[1]), 0);
	assert_int_not_equal(id[0], id[1]);
	for (int i = 0; i < 2; i++) {
		assert_true(setpool_find(&pool, &l[i], 1, &again));
		assert_int_equal(again, id[i]);
	}
	setpool_fini(&pool);
}

static void shuffle(struct label *v, size_t n)
{
	for (size_t i = n; i > 1; i--) {
		uint32_t k = rnd((uint32_t)i);
		struct label l = v[i - 1];
		v[i - 1] = v[k];
		v[k] = l;
	}
}

/*
 * Lists in any order, with keys that come several times, against their normalized sets: the same
 * set has one id, other ones have others.
 */
static void test_lists(void **ctx)
{
	static const char *const names[] = { "a", "tenant", "tid",
					     "the_name_of_a_key_of_the_application", "" };
	static const char *const texts[] = {
		"", "x", "four", "of_eight", "of_sixteen_bytes", "longer_than_sixteen_bytes_by_far"
	};
	static struct label kept[4096][8];
	static size_t n_kept[4096];
	struct setpool pool;
	uint32_t n_sets = 1;
	(void)ctx;
	assert_int_equal(setpool_init(&pool), 0);
	for (int round = 0; round < 60000; round++) {
		struct label v[8], set[8];
		uint32_t n = 1 + rnd(8), id, expected = 1;
		for (uint32_t i = 0; i < n; i++) {
			const char *key = names[rnd(5)], *str = texts[rnd(6)];
			v[i] = (struct label){ .key = key,
					       .key_len = (uint32_t)strlen(key),
					       .type = (enum label_type)(rnd(4) == 0) };
			if (v[i].type == LABEL_INT)
				v[i].num = rnd(2);
			else
				v[i] = (struct label){ .key = key,
						       .key_len = v[i].key_len,
						       .str = str,
						       .str_len = (uint32_t)strlen(str) };
		}
		memcpy(set, v, sizeof(set));
		size_t n_set = labels_normalize(set, n);
		if (n_set == n)
			shuffle(v, n);
		while (expected < n_sets &&
		       !labels_equal(kept[expected], n_kept[expected], set, n_set))
			expected++;
		if (expected == 4096)
			break;
		assert_int_equal(setpool_find(&pool, v, n, &id), expected < n_sets);
		assert_int_equal(setpool_add(&pool, v, n, &id), 0);
		assert_int_equal(id, expected);
		if (expected < n_sets)
			continue;
		memcpy(kept[n_sets], set, sizeof(set));
		n_kept[n_sets++] = n_set;
		const struct label *in_pool;
		assert_int_equal(setpool_get(&pool, id, &in_pool), n_set);
		assert_true(labels_equal(in_pool, n_set, set, n_set));
	}
	assert_true(n_sets > 1000);
	setpool_fini(&pool);
}

/* A list in which one label comes twice is not the set that has another one instead. */
static void test_twice_in_a_list(void **ctx)
{
	const struct label set[] = { { .key = "a", .key_len = 1, .str = "1", .str_len = 1 },
				     { .key = "b", .key_len = 1, .str = "2", .str_len = 1 },
				     { .key = "c", .key_len = 1, .str = "3", .str_len = 1 } };
	const struct label list[] = { set[1], set[1], set[0] };
	static const uint8_t order[] = { 1, 2, 0 };
	(void)ctx;
	assert_true(labels_match(set, NULL, set, 3));
	assert_true(labels_match(set, order, set, 3));
	assert_false(labels_match(set, order, list, 3));
	assert_false(labels_match(set, NULL, list, 3));
}

/* ---- the hash ---- */

/* Each bit of text and seed flips each bit of the result in half of the cases. */
static void test_avalanche(void **ctx)
{
	(void)ctx;
	for (uint32_t len = 1; len <= 48; len = len < 20 ? len + 1 : len + 7)
		for (uint32_t bit = 0; bit < 8 * len + 64; bit += 1 + rnd(3)) {
			uint32_t flips[64] = { 0 };
			for (int round = 0; round < 400; round++) {
				uint64_t seed = rnd64(), h;
				uint8_t text[48];
				for (uint32_t i = 0; i < len; i++)
					text[i] = (uint8_t)rnd(256);
				h = ascribe_hash(seed, text, len);
				if (bit < 8 * len)
					text[bit / 8] ^= (uint8_t)(1 << bit % 8);
				else
					seed ^= 1ull << (bit - 8 * len);
				h ^= ascribe_hash(seed, text, len);
				for (int i = 0; i < 64; i++)
					flips[i] += h >> i & 1;
			}
			for (int i = 0; i < 64; i++)
				/* 200, and 7 standard deviations */
				assert_in_range(flips[i], 130, 270);
		}
}

/* Counted values, as ids are: no two alike, and their low 32 bits no more often than by chance. */
static void test_counted(void **ctx)
{
	enum { N = 1 << 18 };
	static uint64_t v[N];
	uint64_t seed = rnd64(), pairs = 0;
	char text[32];
	(void)ctx;
	for (uint64_t i = 0; i < N; i++) {
		int len = snprintf(text, sizeof(text), i % 2 ? "%llu" : "request-%012llu",
				   (unsigned long long)i);
		v[i] = ascribe_hash(seed, text, (size_t)len);
	}
	qsort(v, N, sizeof(v[0]), cmp64);
	for (size_t i = 1; i < N; i++)
		assert_int_not_equal(v[i - 1], v[i]);
	for (size_t i = 0; i < N; i++)
		v[i] &= 0xffffffff;
	qsort(v, N, sizeof(v[0]), cmp64);
	for (size_t i = 1; i < N; i++)
		pairs += v[i - 1] == v[i];
	assert_in_range(pairs, 0, 30); /* 8 by chance */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_brute_force),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_published),
		cmocka_unit_test(test_collisions),
		cmocka_unit_test(test_twins),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_twice_in_a_list),
		cmocka_unit_test(test_avalanche),
		cmocka_unit_test(test_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
