/* SPDX-License-Identifier: Apache-2.0 */
/* key_bpf FILE: load key.bpf.o and compare its hashes and keys with those of user space. */
#include <ascribe/label_key.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "key_bpf.h"

static unsigned long long state = 11;

static unsigned int rnd(unsigned int below)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned int)((state >> 33) % below);
}

static int fail(const char *what)
{
	printf("FAIL %s\n", what);
	return 1;
}

/* Texts of every length; some are said twice. */
static void make(struct key_task *t, unsigned int round)
{
	memset(t, 0, sizeof(*t));
	t->seed = state;
	for (unsigned int i = 0; i < KEY_TEXTS; i++) {
		if (i && rnd(3) == 0) {
			t->text[i] = t->text[rnd(i)];
			continue;
		}
		t->text[i].len = i ? rnd(KEY_TEXT_MAX + 1) : round % (KEY_TEXT_MAX + 1);
		/* Behind the text, too: it must not count */
		for (unsigned int k = 0; k < KEY_TEXT_MAX; k++)
			t->text[i].bytes[k] = (unsigned char)rnd(256);
	}
}

static int check(const struct key_task *t)
{
	unsigned long long x = 0;
	for (unsigned int i = 0; i < KEY_TEXTS; i++) {
		unsigned long long hash = ascribe_hash(t->seed, t->text[i].bytes, t->text[i].len);
		unsigned int k = 0;
		if (hash != t->hash[i])
			return fail("a hash differs");
		while (k < i && (t->text[k].len != t->text[i].len ||
				 memcmp(t->text[k].bytes, t->text[i].bytes, t->text[i].len)))
			k++;
		x ^= k == i ? hash : 0;
	}
	return x == t->key ? 0 : fail("the key differs");
}

int main(int argc, char **argv)
{
	struct bpf_object *o = bpf_object__open_file(argc > 1 ? argv[1] : "", NULL);
	struct key_task t;
	LIBBPF_OPTS(bpf_test_run_opts, run);
	unsigned int zero = 0;
	if (!o || bpf_object__load(o))
		return fail("the program does not load");
	int map = bpf_object__find_map_fd_by_name(o, "tasks");
	int prog = bpf_program__fd(bpf_object__find_program_by_name(o, "make_key"));
	for (unsigned int round = 0; round < 2000; round++) {
		make(&t, round);
		if (bpf_map_update_elem(map, &zero, &t, 0) || bpf_prog_test_run_opts(prog, &run) ||
		    bpf_map_lookup_elem(map, &zero, &t))
			return fail("the program does not run");
		if (check(&t))
			return 1;
	}
	bpf_object__close(o);
	puts("PASS");
	return 0;
}
