/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything label.h promises, seen through the independent reader. Compiled as C and as C++,
 * linked in every way that there is (matrix.sh). Prints one line per failure and "PASS" or "FAIL"
 * last.
 */
#include <ascribe/label.h>

#include <pthread.h>
#include <stdint.h>
#include <sys/wait.h>

#include "linkage.h"
#include "reader.h"

#ifndef MODULE
#define MODULE "/selftest" /* what the path of this program contains */
#endif

static int failures;

#define EXPECT(what) expect(__LINE__, what, 0, 0)
#define EXPECT_OK(cond) \
	do { \
		if (!(cond)) { \
			printf("%d: %s\n", __LINE__, #cond); \
			__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED); \
		} \
	} while (0)

/* want: the labels, "-" for nothing attached. */
static unsigned long long expect(int line, const char *want, unsigned long long id,
				 unsigned long long parent)
{
	struct reading r;
	const char *wrong = reader_read(MODULE, &r);
	const char *have = wrong ? wrong : r.attached ? r.text : "-";
	if (strcmp(have, want) || r.modules != 1 || (id && r.set_id != id) ||
	    (parent && r.parent_id != parent)) {
		printf("%d: have \"%s\" id %llx parent %llx modules %d, want \"%s\" %llx %llx\n",
		       line, have, r.set_id, r.parent_id, r.modules, want, id, parent);
		__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
	}
	return r.set_id;
}

/* unit2.c: another translation unit of the same module. */
C_LINKAGE int unit2_attach(struct ascribe_scope *scope, const char *key, const char *value);

static void nesting(void)
{
	struct ascribe_label_set outer, inner, both;
	struct ascribe_scope a, b, c;
	unsigned long long outer_id, id;

	EXPECT("-");
	ascribe_set_init(&outer);
	EXPECT_OK(ascribe_set_add_string(&outer, "tenant", "acme") == 0);
	EXPECT_OK(ascribe_set_add_int(&outer, "query_id", -42) == 0);
	ascribe_set_init(&inner);
	ascribe_set_add_string(&inner, "endpoint", "/sort");
	ascribe_set_add_int(&inner, "query_id", INT64_MIN);
	ascribe_set_init(&both);
	ascribe_set_add_int(&both, "query_id", 99);
	ascribe_set_add_int(&both, "query_id", INT64_MIN);
	ascribe_set_add_string(&both, "endpoint", "/sort");
	ascribe_set_add_string(&both, "tenant", "acme");

	ascribe_attach(&a, &outer);
	outer_id = EXPECT("query_id=#-42,tenant=acme");
	EXPECT_OK(ascribe_current() == &outer.header);
	ascribe_attach(&b, &inner);
	id = expect(__LINE__, "endpoint=/sort,query_id=#-9223372036854775808,tenant=acme",
		    both.prefix.set_id, outer_id);
	EXPECT_OK(id != outer_id && id != inner.prefix.set_id);
	ascribe_attach(&c, &both);
	expect(__LINE__, "endpoint=/sort,query_id=#-9223372036854775808,tenant=acme", id, 0);
	ascribe_detach(&c);
	ascribe_detach(&b);
	expect(__LINE__, "query_id=#-42,tenant=acme", outer_id, 0);
	EXPECT_OK(ascribe_swap(&inner.header) == &outer.header);
	EXPECT("endpoint=/sort,query_id=#-9223372036854775808");
	ascribe_swap(&outer.header);
	ascribe_detach(&a);
	EXPECT("-");
}

static void scopes(void)
{
	unsigned long long id;
	{
		ASCRIBE_LABEL_SCOPE("tenant", "a");
		EXPECT("tenant=a");
		{
			char name[] = "b";
			ASCRIBE_LABEL_SCOPE("tenant", name);
			ASCRIBE_LABEL_SCOPE("n", 7);
			ASCRIBE_LABEL_SCOPE("u", (unsigned char)200);
			ASCRIBE_LABEL_SCOPE("big", UINT64_MAX);
			EXPECT("big=18446744073709551615,n=#7,tenant=b,u=#200");
			ASCRIBE_LABEL_SCOPE("n", "seven"); /* a key's other type overrides too */
			id = EXPECT("big=18446744073709551615,n=seven,tenant=b,u=#200");
		}
		EXPECT("tenant=a");
		struct ascribe_scope s;
		unit2_attach(&s, "tenant", "from another unit");
		EXPECT("tenant=from another unit");
		ascribe_detach(&s);
	}
	EXPECT("-");
	struct ascribe_label_set set;
	ascribe_set_init(&set);
	ascribe_set_add_int(&set, "u", 200);
	ascribe_set_add_string(&set, "n", "seven");
	ascribe_set_add_string(&set, "tenant", "b");
	ascribe_set_add_uint(&set, "big", UINT64_MAX);
	EXPECT_OK(set.prefix.set_id == id);
}

static void trace(void)
{
	struct ascribe_label_set set, inner;
	struct ascribe_scope a, b;
	unsigned char bytes[24];
	for (int i = 0; i < 24; i++)
		bytes[i] = (unsigned char)(i * 11 + 1);
	ascribe_set_init(&set);
	unsigned long long empty = set.prefix.set_id;
	ascribe_set_trace(&set, bytes, bytes + 16, 1);
	EXPECT_OK(set.prefix.set_id && set.prefix.set_id != empty);
	ascribe_set_init(&inner);
	ascribe_set_trace(&inner, bytes, bytes, 0);
	ascribe_set_add_int(&inner, "n", 1);
	ascribe_attach(&a, &set);
	EXPECT("trace_id=010c17222d38434e59646f7a85909ba6/b1bcc7d2dde8f3fe");
	ascribe_attach(&b, &inner);
	expect(__LINE__, "n=#1,trace_id=010c17222d38434e59646f7a85909ba6/010c17222d38434e",
	       inner.prefix.set_id, 0);
	ascribe_detach(&b);
	ascribe_detach(&a);
	ascribe_set_trace(&set, NULL, NULL, 0);
	EXPECT_OK(set.prefix.set_id == empty);
}

/*
 * Values of the hash that docs/labels.md specifies, from an implementation of that text in another
 * language.
 */
static void identity(void)
{
	struct ascribe_label_set set;
	unsigned char trace[24];
	for (int i = 0; i < 24; i++)
		trace[i] = (unsigned char)(i + 1);
	ascribe_set_init(&set);
	EXPECT_OK(set.prefix.set_id == 0x94d049bb133111ebull);
	ascribe_set_add_string(&set, "tenant", "acme");
	EXPECT_OK(set.prefix.set_id == 0xfd53199396ed5b39ull);
	ascribe_set_add_int(&set, "query_id", -42);
	EXPECT_OK(set.prefix.set_id == 0xbe55bf8c269bf9a5ull);
	ascribe_set_init(&set);
	ascribe_set_add_int(&set, "query_id", 42);
	EXPECT_OK(set.prefix.set_id == 0x08725f9291db95dfull);
	ascribe_set_init(&set);
	ascribe_set_add_string(&set, "k",
			       "a value of more than sixteen bytes, and more than thirty-two");
	EXPECT_OK(set.prefix.set_id == 0xbd627e518d3771bbull);
	ascribe_set_init(&set);
	ascribe_set_add_string(&set, "a", "");
	EXPECT_OK(set.prefix.set_id == 0x6f94ef70f5071ad4ull);
	ascribe_set_init(&set);
	ascribe_set_add_string(&set, "k", "0123456789abcdef");
	EXPECT_OK(set.prefix.set_id == 0x31b6c7de7bfdcbdbull);
	ascribe_set_init(&set);
	ascribe_set_add_string(&set, "k", "0123456789abcdefg");
	EXPECT_OK(set.prefix.set_id == 0x7160881f294a204full);
	ascribe_set_init(&set);
	ascribe_set_trace(&set, trace, trace + 16, 0);
	EXPECT_OK(set.prefix.set_id == 0x7307dbf35e8281f0ull);
}

static unsigned int rnd(unsigned int below)
{
	static unsigned long long state = 42;
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned int)(state >> 33) % below;
}

static void add_model(struct ascribe_label_set *set, int key, int value)
{
	char name[8], text[8];
	snprintf(name, sizeof(name), "m%d", key);
	snprintf(text, sizeof(text), "v%d", value);
	if (value % 2)
		ascribe_set_add_int(set, name, value);
	else
		ascribe_set_add_string(set, name, text);
}

/* Attach random sets on each other: always what a table says that is overwritten level by level. */
static void random_nesting(int depth, const int *outer)
{
	struct ascribe_label_set set, flat;
	struct ascribe_scope scope;
	char want[128] = "";
	int model[6];
	memcpy(model, outer, sizeof(model));
	ascribe_set_init(&set);
	for (unsigned int n = rnd(4); n; n--) {
		int key = (int)rnd(6), value = (int)rnd(6) + 1;
		add_model(&set, key, value);
		model[key] = value;
	}
	ascribe_set_init(&flat);
	for (int i = 0, first = (int)rnd(6); i < 6; i++)
		if (model[(first + i) % 6])
			add_model(&flat, (first + i) % 6, model[(first + i) % 6]);
	for (int i = 0; i < 6; i++)
		if (model[i])
			sprintf(want + strlen(want), "%sm%d=%c%d", *want ? "," : "", i,
				model[i] % 2 ? '#' : 'v', model[i]);
	ascribe_attach(&scope, &set);
	expect(__LINE__, want, flat.prefix.set_id, 0);
	for (unsigned int n = depth < 6 ? rnd(3) + (depth < 3) : 0; n; n--)
		random_nesting(depth + 1, model);
	expect(__LINE__, want, flat.prefix.set_id, 0);
	ascribe_detach(&scope);
}

static void limits(void)
{
	struct ascribe_label_set set, full;
	struct ascribe_scope a, b;
	char text[300], want[700];

	memset(text, 'x', sizeof(text));
	text[299] = 0;
	memcpy(text + 253, "\xe2\x82\xac", 3); /* a euro sign across the border at 255 */
	ascribe_set_init(&set);
	EXPECT_OK(ascribe_set_add_string(&set, "k", text) == 0);
	ascribe_attach(&a, &set);
	snprintf(want, sizeof(want), "k=%.253s", text);
	EXPECT(want);
	ascribe_detach(&a);

	EXPECT_OK(ascribe_set_add_string(&set, NULL, "x") == -EINVAL);
	EXPECT_OK(ascribe_set_add_string(&set, "", "x") == -EINVAL);
	EXPECT_OK(ascribe_set_add_string(&set, text, "x") == -EINVAL);
	EXPECT_OK(ascribe_set_add_string(&set, "k", NULL) == -EINVAL);
	EXPECT_OK(set.dropped == 4);

	/* 612 bytes: two of 257 and one of 98 fit exactly; the next does not. */
	ascribe_set_init(&full);
	memset(text, 'y', 255);
	text[255] = 0;
	EXPECT_OK(ascribe_set_add_bytes(&full, "f1", 2, text, 255) == 0);
	EXPECT_OK(ascribe_set_add_bytes(&full, "f2", 2, text, 255) == 0);
	EXPECT_OK(ascribe_set_add_bytes(&full, "f3", 2, text, 97) == -ENOSPC);
	EXPECT_OK(ascribe_set_add_bytes(&full, "f3", 2, text, 96) == 0);
	EXPECT_OK(full.prefix.total_size == ASCRIBE_PREFIX_SIZE + ASCRIBE_RECORD_MAX);
	unsigned long long before = full.prefix.set_id;
	EXPECT_OK(ascribe_set_add_string(&full, "f4", "") == -ENOSPC && full.dropped == 2);
	EXPECT_OK(full.prefix.set_id == before);

	/* The inner label stays, outer ones go, and the identity is that of what is left. */
	ascribe_set_init(&set);
	ascribe_set_add_string(&set, "tenant", "t");
	ascribe_attach(&a, &full);
	ascribe_attach(&b, &set);
	EXPECT_OK(b.set.dropped == 3 /* f3, and full's own two */ &&
		  b.set.prefix.parent_id == before);
	ascribe_set_add_bytes(&set, "f2", 2, text, 255);
	ascribe_set_add_bytes(&set, "f1", 2, text, 255);
	snprintf(want, sizeof(want), "f1=%.255s,f2=%.255s,tenant=t", text, text);
	expect(__LINE__, want, set.prefix.set_id, before);
	ascribe_detach(&b);
	ascribe_detach(&a);
}

static void *other_thread(void *arg)
{
	EXPECT("-");
	ASCRIBE_LABEL_SCOPE("who", "second");
	EXPECT("who=second");
	return arg;
}

static void threads_and_fork(void)
{
	pthread_t t;
	int status;
	ASCRIBE_LABEL_SCOPE("who", "first");
	pthread_create(&t, NULL, other_thread, NULL);
	pthread_join(t, NULL);
	EXPECT("who=first");
	pid_t child = fork();
	if (child == 0) {
		failures = 0;
		EXPECT("who=first");
		ASCRIBE_LABEL_SCOPE("child_only", 1);
		EXPECT("child_only=#1,who=first");
		fflush(stdout);
		_exit(failures != 0);
	}
	EXPECT_OK(waitpid(child, &status, 0) == child && status == 0);
	EXPECT("who=first");
}

/* Eight threads swap between sets as fast as they can; each sees only what it stored itself. */
static void *swapper(void *arg)
{
	struct ascribe_label_set sets[4];
	char want[4][64];
	for (int i = 0; i < 4; i++) {
		char key[32];
		/* All threads register keys at once. */
		snprintf(key, sizeof(key), "key%d", (int)((intptr_t)arg + i) % 9);
		ascribe_set_init(&sets[i]);
		EXPECT_OK(ascribe_set_add_int(&sets[i], key, (intptr_t)arg * 10 + i) == 0);
		snprintf(want[i], sizeof(want[i]), "%s=#%d", key, (int)(intptr_t)arg * 10 + i);
	}
	for (int i = 0; i < 100000; i++) {
		const struct ascribe_record_header *prev = ascribe_swap(&sets[i % 4].header);
		EXPECT_OK(prev == (i ? &sets[(i - 1) % 4].header : NULL));
		if (i % 5000 == 0)
			EXPECT(want[i % 4]);
	}
	ascribe_swap(NULL);
	EXPECT("-");
	return NULL;
}

static void swaps(void)
{
	pthread_t t[8];
	for (intptr_t i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, swapper, (void *)i);
	for (int i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
}

/* A child made while another thread holds the registration lock can still register keys. */
static void fork_with_lock_held(void)
{
	int status;
	ascribe_state_v1.lock = ascribe_lock_owner() ^ 1; /* another thread of this process */
	pid_t child = fork();
	if (child == 0) {
		alarm(10);
		failures = 0;
		ASCRIBE_LABEL_SCOPE("after_fork", "x");
		EXPECT("after_fork=x");
		fflush(stdout);
		_exit(failures != 0);
	}
	EXPECT_OK(waitpid(child, &status, 0) == child && status == 0);
	/* This very thread, interrupted: refused, not stuck. */
	ascribe_state_v1.lock = ascribe_lock_owner();
	EXPECT_OK(ascribe_key("never seen", 10, ASCRIBE_KEY_STRING) == -EDEADLK);
	ascribe_state_v1.lock = 0;
}

/* Last: it fills the key table. */
static void key_table_full(void)
{
	struct ascribe_label_set set;
	struct ascribe_scope a;
	char key[16];
	int err = 0, n = 0;
	for (; n < 1000 && err >= 0; n++) {
		snprintf(key, sizeof(key), "fill%d", n);
		err = ascribe_key(key, strlen(key), n % 2);
	}
	EXPECT_OK(err == -ENOSPC && n > 200 && n < 256);
	ascribe_set_init(&set);
	EXPECT_OK(ascribe_set_add_string(&set, "one too many", "x") == -ENOSPC && set.dropped == 1);
	EXPECT_OK(ascribe_set_add_string(&set, "tenant", "still") == 0);
	ascribe_attach(&a, &set);
	EXPECT("tenant=still");
	ascribe_detach(&a);
}

int main(void)
{
	static const int nothing[6] = { 0 };
	nesting();
	scopes();
	trace();
	identity();
	random_nesting(0, nothing);
	limits();
	threads_and_fork();
	swaps();
	fork_with_lock_held();
	key_table_full();
	puts(failures ? "FAIL" : "PASS");
	return failures != 0;
}
