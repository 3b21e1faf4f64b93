/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_filter [ROUNDS]: what the label filter (user/labels/filter.h) costs per key, ns of CPU
 * time. Beside it, in turns, run a hash table, a sorted array and a perfect hash for the same
 * names. 119 names like those of internal HTTP headers are to be found among sets of 10 to 30 keys,
 * the rest of which are usual headers. Last, a filter of as many words as a novel has is made.
 */
#include <ascribe/label_key.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "figure.h"
#include "labels/filter.h"

#define NAMES 119
#define SETS 1000
#define KEYS_MAX (SETS * 30)
#define ROUNDS_MAX 101

static const char *const usual[] = {
	"accept",
	"accept-charset",
	"accept-encoding",
	"accept-language",
	"accept-ranges",
	"age",
	"allow",
	"alt-svc",
	"authorization",
	"cache-control",
	"cdn-loop",
	"cf-connecting-ip",
	"cf-ipcountry",
	"cf-ray",
	"cf-visitor",
	"connection",
	"content-disposition",
	"content-encoding",
	"content-language",
	"content-length",
	"content-location",
	"content-range",
	"content-security-policy",
	"content-type",
	"cookie",
	"date",
	"device-memory",
	"dnt",
	"downlink",
	"dpr",
	"early-data",
	"ect",
	"etag",
	"expect",
	"expires",
	"forwarded",
	"from",
	"host",
	"if-match",
	"if-modified-since",
	"if-none-match",
	"if-range",
	"if-unmodified-since",
	"keep-alive",
	"last-modified",
	"link",
	"location",
	"max-forwards",
	"origin",
	"pragma",
	"priority",
	"proxy-authorization",
	"range",
	"referer",
	"retry-after",
	"save-data",
	"sec-ch-ua",
	"sec-ch-ua-mobile",
	"sec-ch-ua-platform",
	"sec-fetch-dest",
	"sec-fetch-mode",
	"sec-fetch-site",
	"sec-fetch-user",
	"sec-websocket-key",
	"sec-websocket-version",
	"server",
	"server-timing",
	"set-cookie",
	"strict-transport-security",
	"te",
	"tk",
	"traceparent",
	"tracestate",
	"trailer",
	"transfer-encoding",
	"true-client-ip",
	"upgrade",
	"upgrade-insecure-requests",
	"user-agent",
	"vary",
	"via",
	"viewport-width",
	"warning",
	"width",
	"www-authenticate",
	"x-amzn-trace-id",
	"x-api-key",
	"x-cache",
	"x-content-type-options",
	"x-correlation-id",
	"x-csrf-token",
	"x-forwarded-for",
	"x-forwarded-host",
	"x-forwarded-port",
	"x-forwarded-proto",
	"x-frame-options",
	"x-http-method-override",
	"x-powered-by",
	"x-real-ip",
	"x-request-id",
	"x-requested-with",
	"x-ua-compatible",
	"x-xss-protection",
};
#define N_USUAL (sizeof(usual) / sizeof(usual[0]))

static const char *const stems[] = { "cf-int-",	  "cf-edge-",	 "cf-cache-", "x-edge-",
				     "x-origin-", "x-internal-", "x-route-" };
static const char *const ends[] = { "brand-id",	   "colo",     "zone",		"plan",
				    "worker-id",   "tier",     "status",	"token",
				    "key",	   "server",   "upstream-port", "retry",
				    "debug-trace", "ssl-mode", "rule",		"bypass",
				    "timing" };

static char names[NAMES][40], text[(NAMES + N_USUAL) * 64];

struct key {
	const char *p;
	size_t len;
};

static struct key key[KEYS_MAX];
static size_t n_keys;
static volatile unsigned long sink;

/* ---- the filter ---- */

static struct label_filter *filter;

static unsigned long run_filter(void)
{
	unsigned long found = 0;
	for (size_t i = 0; i < n_keys; i++)
		found += filter_find(filter, key[i].p, key[i].len) == FILTER_DROP;
	return found;
}

/* ---- a hash table: open addressing, a quarter full, hashes kept ---- */

#define SLOTS 512

static struct {
	uint64_t hash;
	const char *name;
	size_t len;
} slot[SLOTS];

static void table_make(void)
{
	for (size_t i = 0; i < NAMES; i++) {
		uint64_t h = ascribe_hash(0, names[i], strlen(names[i])), at = h % SLOTS;
		while (slot[at].name)
			at = (at + 1) % SLOTS;
		slot[at].hash = h;
		slot[at].name = names[i];
		slot[at].len = strlen(names[i]);
	}
}

static unsigned long run_table(void)
{
	unsigned long found = 0;
	for (size_t i = 0; i < n_keys; i++) {
		uint64_t h = ascribe_hash(0, key[i].p, key[i].len);
		for (uint64_t at = h % SLOTS; slot[at].name; at = (at + 1) % SLOTS)
			if (slot[at].hash == h && slot[at].len == key[i].len &&
			    !memcmp(slot[at].name, key[i].p, key[i].len)) {
				found++;
				break;
			}
	}
	return found;
}

/* ---- a sorted array ---- */

static const char *sorted[NAMES];

static int name_cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void array_make(void)
{
	for (size_t i = 0; i < NAMES; i++)
		sorted[i] = names[i];
	qsort(sorted, NAMES, sizeof(sorted[0]), name_cmp);
}

static unsigned long run_array(void)
{
	unsigned long found = 0;
	for (size_t i = 0; i < n_keys; i++) {
		size_t low = 0, high = NAMES;
		while (low < high) {
			size_t mid = (low + high) / 2;
			int c = strncmp(key[i].p, sorted[mid], key[i].len);
			if (!c)
				c = -(sorted[mid][key[i].len] != 0);
			if (!c) {
				found++;
				break;
			}
			if (c < 0)
				high = mid;
			else
				low = mid + 1;
		}
	}
	return found;
}

/* ---- a perfect hash: 64 displacements, one of 128 places for each of the 119 names ---- */

#define BUCKETS 64
#define PLACES 128

static uint8_t displacement[BUCKETS];
static struct {
	const char *name;
	size_t len;
} place[PLACES];
static uint64_t perfect_seed;

static uint64_t place_of(uint64_t h, uint8_t d)
{
	return (h + d * (h >> 32 | 1)) >> 7 & (PLACES - 1);
}

static int perfect_try(void)
{
	unsigned int order[BUCKETS], size[BUCKETS] = { 0 };
	uint64_t h[NAMES];
	memset(place, 0, sizeof(place));
	for (size_t i = 0; i < NAMES; i++) {
		h[i] = ascribe_hash(perfect_seed, names[i], strlen(names[i]));
		size[h[i] % BUCKETS]++;
	}
	for (unsigned int b = 0; b < BUCKETS; b++) { /* the fullest first */
		unsigned int at = b;
		for (; at && size[order[at - 1]] < size[b]; at--)
			order[at] = order[at - 1];
		order[at] = b;
	}
	for (unsigned int o = 0; o < BUCKETS; o++) {
		unsigned int d = 0, fits = 0;
		for (; d < 256 && !fits; d += !fits) {
			uint64_t want[2] = { 0, 0 };
			fits = 1;
			for (size_t i = 0; i < NAMES && fits; i++) {
				uint64_t at = place_of(h[i], (uint8_t)d);
				if (h[i] % BUCKETS != order[o])
					continue;
				fits = !place[at].name && !(want[at / 64] >> at % 64 & 1);
				want[at / 64] |= 1ull << at % 64;
			}
		}
		if (!fits)
			return 0;
		displacement[order[o]] = (uint8_t)d;
		for (size_t i = 0; i < NAMES; i++)
			if (h[i] % BUCKETS == order[o]) {
				uint64_t at = place_of(h[i], (uint8_t)d);
				place[at].name = names[i];
				place[at].len = strlen(names[i]);
			}
	}
	return 1;
}

static void perfect_make(void)
{
	while (!perfect_try())
		perfect_seed++;
}

static unsigned long run_perfect(void)
{
	unsigned long found = 0;
	for (size_t i = 0; i < n_keys; i++) {
		uint64_t h = ascribe_hash(perfect_seed, key[i].p, key[i].len);
		uint64_t at = place_of(h, displacement[h % BUCKETS]);
		found += place[at].len == key[i].len &&
			 !memcmp(place[at].name, key[i].p, key[i].len);
	}
	return found;
}

/* ---- the keys ---- */

static uint64_t rnd(uint64_t below)
{
	static uint64_t s = 20240910;
	s = s * 6364136223846793005ull + 1442695040888963407ull;
	return (s >> 33) % below;
}

/* Sets of 10 to 30 keys, of which `hits` in 100 are among the names. */
static unsigned long make_keys(unsigned int hits)
{
	unsigned long found = 0;
	char *at = text;
	struct key pool[NAMES + N_USUAL];
	for (size_t i = 0; i < NAMES + N_USUAL; i++) {
		const char *t = i < NAMES ? names[i] : usual[i - NAMES];
		pool[i] = (struct key){ strcpy(at, t), strlen(t) };
		at += strlen(t) + 1;
	}
	n_keys = 0;
	for (int s = 0; s < SETS; s++)
		for (uint64_t n = 10 + rnd(21); n; n--) {
			int hit = rnd(100) < hits;
			found += (unsigned long)hit;
			key[n_keys++] = pool[hit ? rnd(NAMES) : NAMES + rnd(N_USUAL)];
		}
	return found;
}

static double cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static const struct way {
	const char *name;
	unsigned long (*run)(void);
} ways[] = {
	{ "ascribe", run_filter },
	{ "hash table", run_table },
	{ "sorted array", run_array },
	{ "perfect hash", run_perfect },
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

/* ns per key of each way; NULL where it found what it should not. */
static void row(const char *id, unsigned int hits, int rounds)
{
	static double ns[WAYS][ROUNDS_MAX];
	unsigned long want = make_keys(hits);
	for (int r = 0; r < rounds; r++)
		for (size_t w = 0; w < WAYS; w++) {
			double begin = cpu_ns();
			unsigned long found = 0;
			for (int i = 0; i < 10; i++)
				found += ways[w].run();
			ns[w][r] = (cpu_ns() - begin) / (10.0 * (double)n_keys);
			if (found != 10 * want) {
				printf("bench_filter: %s found %lu of %lu\n", ways[w].name,
				       found / 10, want);
				exit(2);
			}
		}
	for (size_t w = 0; w < WAYS; w++)
		figure(id, ways[w].name, ns[w], (size_t)rounds, 1);
}

/* Made-up words of 2 to 5 syllables, some of which are others' beginnings; and as many others. */
static void large(int rounds)
{
	enum { WORDS = 15520 };
	static const char *const syllable[] = {
		"ba",  "con", "de", "er", "fi",	 "in", "ing", "la",
		"men", "no",  "ra", "re", "ron", "s",  "ti",  "un"
	};
	static char word[2 * WORDS][20];
	static struct filter_rule rules[WORDS];
	static double ms[ROUNDS_MAX], hit[ROUNDS_MAX], miss[ROUNDS_MAX];
	static size_t len[2 * WORDS];
	struct err err = { 0 };
	for (size_t i = 0; i < sizeof(word) / sizeof(word[0]); i++) {
		uint64_t pick = rnd(1 << 20) | 1 << 8 << 4 * rnd(4); /* of 16 each */
		for (uint64_t n = 2 + i % 4; n; n--, pick >>= 4)
			strcat(word[i], syllable[pick & 15]);
		snprintf(word[i] + strlen(word[i]), 5, "%zx", i / 256);
		len[i] = strlen(word[i]);
		if (i < WORDS)
			rules[i] = (struct filter_rule){ word[i], FILTER_DROP };
	}
	for (int r = 0; r < rounds; r++) {
		struct label_filter *f;
		double begin = cpu_ns();
		if (filter_new(&f, rules, WORDS, &err)) {
			printf("bench_filter: %s\n", err.text);
			exit(2);
		}
		ms[r] = (cpu_ns() - begin) / 1e6;
		for (int misses = 0; misses < 2; misses++) {
			begin = cpu_ns();
			for (size_t i = misses * WORDS, n = WORDS; n; i++, n--)
				sink += filter_find(f, word[i], len[i]) == FILTER_DROP;
			(misses ? miss : hit)[r] = (cpu_ns() - begin) / WORDS;
		}
		filter_free(f);
	}
	figure("filter/made", "ascribe", ms, (size_t)rounds, 1);
	figure("filter/made-word", "ascribe", hit, (size_t)rounds, 1);
	figure("filter/made-other", "ascribe", miss, (size_t)rounds, 1);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 21;
	struct filter_rule rules[NAMES + 3];
	struct err err = { 0 };
	if (rounds < 1 || rounds > ROUNDS_MAX)
		rounds = 21;
	for (size_t i = 0; i < NAMES; i++) {
		snprintf(names[i], sizeof(names[i]), "%s%s", stems[i % 7], ends[i / 7]);
		rules[i] = (struct filter_rule){ names[i], FILTER_DROP };
	}
	/* Beginnings in the same trie; none of the keys has one. */
	rules[NAMES] = (struct filter_rule){ "x-amz-meta-*", FILTER_DROP };
	rules[NAMES + 1] = (struct filter_rule){ "cf-access-*", FILTER_DROP };
	rules[NAMES + 2] = (struct filter_rule){ "proxy-secret*", FILTER_DROP };
	if (filter_new(&filter, rules, NAMES + 3, &err)) {
		printf("bench_filter: %s\n", err.text);
		return 2;
	}
	table_make();
	array_make();
	perfect_make();
	printf("The label filter: %d exact and 3 prefix rules, sets of 10 to 30 keys; ns per key\n",
	       NAMES);
	row("filter/none", 0, rounds);
	row("filter/some", 5, rounds);
	row("filter/all", 100, rounds);
	large(rounds);
	double bytes = filter->bytes;
	figure("part/filter", "ascribe", &bytes, 1, 1);
	filter_free(filter);
	return 0;
}
