/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_labelled_KIND CPU: keep one CPU busy under labels of one kind, built with -DKIND_own,
 * _otel, _custom or _path. Few frames: what the labels cost is what is looked for. Ends with its
 * parent.
 */
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#if defined(KIND_own)
#include <ascribe/label.h>

static struct ascribe_label_set set;
static struct ascribe_scope scope;

static void attach(void)
{
	ascribe_set_init(&set);
	ascribe_set_add_string(&set, "tenant", "acme");
	ascribe_set_add_int(&set, "query_id", 4711);
	ascribe_attach(&scope, &set);
}

#elif defined(KIND_otel)

struct record {
	uint8_t trace[16], span[8], valid, flags;
	uint16_t size;
	uint8_t attrs[36];
} __attribute__((packed));

__thread struct record *otel_thread_ctx_v1;

static void attach(void)
{
	static struct record r = { .trace = { 1 }, .span = { 2 }, .valid = 1, .size = 36 };
	r.attrs[0] = 0;
	r.attrs[1] = 34;
	memset(r.attrs + 2, 'x', 34);
	otel_thread_ctx_v1 = &r;
}

#elif defined(KIND_custom)

struct slice {
	uint64_t len;
	char *buf;
};
struct label {
	struct slice key, value;
};
struct set {
	struct label *storage;
	uint64_t count, capacity;
};

uint32_t custom_labels_abi_version = 1;
__thread struct set *custom_labels_current_set;

static struct slice slice(const char *format, int i)
{
	char text[32];
	struct slice s = { (uint64_t)snprintf(text, sizeof(text), format, i), NULL };
	s.buf = malloc(s.len);
	memcpy(s.buf, text, s.len);
	return s;
}

static void attach(void)
{
	static struct set set;
	set.storage = calloc(10, sizeof(*set.storage));
	set.count = set.capacity = 10;
	for (int i = 0; i < 10; i++) {
		set.storage[i].key = slice("key_%d", i);
		set.storage[i].value = slice("the value %d", i);
	}
	custom_labels_current_set = &set;
}

#else

/* What the recipe of bench_foreign.c follows: symbol, deref, deref, number. */
struct session {
	uint64_t magic, id;
};
struct server {
	uint64_t magic;
	struct session *current;
};
struct server *bench_server;

static void attach(void)
{
	static struct session session = { 1, 42 };
	static struct server server = { 1, &session };
	bench_server = &server;
}

#endif

#define KEEP(x) __asm__ __volatile__("" : : "r"(x) : "memory")

int main(int argc, char **argv)
{
	cpu_set_t cpus;
	uint64_t v = 1;
	if (argc < 2)
		return fprintf(stderr, "usage: bench_labelled_KIND CPU\n"), 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CPU_ZERO(&cpus);
	CPU_SET((unsigned)atoi(argv[1]), &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	attach();
	for (;;) {
		v = v * 6364136223846793005u + 1442695040888963407u;
		KEEP(v);
	}
}
