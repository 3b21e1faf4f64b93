/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an OpenTelemetry reader finds in this process, by the layouts of OTEP 4719 and 4947 alone,
 * is what is attached: otel. otel first: another publisher was there before us, we stay quiet. otel
 * later: it comes when we have published, and we go. otel quiet: nothing is to be published (built
 * or started so). Prints the reason and exits 1 when it is not so.
 */
#include "linkage.h"

#include <ascribe/label.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

C_LINKAGE __thread unsigned char *otel_thread_ctx_v1;

static char key[256][64];
static int n_keys;

#define CHECK(what) \
	do { \
		if (!(what)) { \
			printf("line %d: %s\n", __LINE__, #what); \
			exit(1); \
		} \
	} while (0)

static uint64_t varint(const unsigned char **p)
{
	uint64_t v = 0;
	for (int shift = 0;; shift += 7) {
		v |= (uint64_t)(**p & 127) << shift;
		if (!(*(*p)++ & 128))
			return v;
	}
}

/* The n-th field of this number, of bytes: where it begins, and its length. NULL: there is none. */
static const unsigned char *field(const unsigned char *p, size_t len, unsigned number, int n,
				  size_t *ret_len)
{
	const unsigned char *end = p + len;
	while (p < end) {
		uint64_t tag = varint(&p), size = varint(&p);
		CHECK((tag & 7) == 2 && size <= (uint64_t)(end - p));
		if (tag >> 3 == number && n-- == 0) {
			*ret_len = (size_t)size;
			return p;
		}
		p += size;
	}
	return NULL;
}

static void read_message(const unsigned char *p, size_t len)
{
	const unsigned char *kv, *name, *value, *array, *item, *text;
	size_t kv_len, n;
	n_keys = 0;
	for (int i = 0; (kv = field(p, len, 2, i, &kv_len)); i++) {
		name = field(kv, kv_len, 1, 0, &n);
		CHECK(name);
		if (n != 29 || memcmp(name, "threadlocal.attribute_key_map", 29) != 0)
			continue;
		size_t value_len, array_len, item_len;
		CHECK((value = field(kv, kv_len, 2, 0, &value_len)));
		CHECK((array = field(value, value_len, 5, 0, &array_len)));
		for (; (item = field(array, array_len, 1, n_keys, &item_len)); n_keys++) {
			CHECK((text = field(item, item_len, 1, 0, &n)) && n < 64);
			memcpy(key[n_keys], text, n);
			key[n_keys][n] = 0;
		}
	}
}

/* How many mappings have the name; where the last one begins. */
static int contexts(unsigned long *ret)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;
	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, "[anon_shmem:OTEL_CTX]") || strstr(line, "[anon:OTEL_CTX]") ||
		    strstr(line, "/memfd:OTEL_CTX"))
			n += sscanf(line, "%lx", ret);
	fclose(f);
	return n;
}

static void read_context(void)
{
	unsigned long start = 0;
	CHECK(contexts(&start) == 1);
	const unsigned char *p = (const unsigned char *)start;
	uint32_t version, size;
	uint64_t ns, at;
	memcpy(&version, p + 8, 4);
	memcpy(&size, p + 12, 4);
	memcpy(&ns, p + 16, 8);
	memcpy(&at, p + 24, 8);
	CHECK(memcmp(p, "OTEL_CTX", 8) == 0 && version == 2 && ns);
	read_message((const unsigned char *)(uintptr_t)at, size);
}

/* The value of a key in what is attached, "" for none. */
static const char *value(const char *name)
{
	static char text[256];
	const unsigned char *r = otel_thread_ctx_v1;
	uint16_t size;
	text[0] = 0;
	if (!r)
		return text;
	CHECK(r[24] == 1);
	memcpy(&size, r + 26, 2);
	for (size_t at = 28; at < 28u + size; at += 2u + r[at + 1]) {
		CHECK(r[at] < n_keys);
		if (strcmp(key[r[at]], name))
			continue;
		memcpy(text, r + at + 2, r[at + 1]);
		text[r[at + 1]] = 0;
	}
	return text;
}

static void check_set(int many)
{
	char name[16];
	ASCRIBE_LABEL_SCOPE("tenant", "acme");
	ASCRIBE_LABEL_SCOPE("query_id", 42);
	read_context();
	CHECK(!strcmp(value("tenant"), "acme"));
	CHECK(!strcmp(value("query_id"), "42"));
	{
		ASCRIBE_LABEL_SCOPE("tenant", "inner");
		CHECK(!strcmp(value("tenant"), "inner"));
	}
	CHECK(!strcmp(value("tenant"), "acme"));
	for (int i = 0; i < many; i++) { /* keys that come later */
		snprintf(name, sizeof(name), "key%d", i);
		struct ascribe_scope scope;
		CHECK(ascribe_attach_int(&scope, name, i) == 0);
		read_context();
		CHECK(atoi(value(name)) == i && value(name)[0]);
		ascribe_detach(&scope);
	}
}

/* As an SDK has one. */
static void *publish_another(void)
{
	int fd = memfd_create("OTEL_CTX", 0);
	CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	CHECK(p != MAP_FAILED);
	close(fd);
	return p;
}

static void check_quiet(unsigned char *theirs, int n)
{
	unsigned long at;
	otel_thread_ctx_v1 = theirs;
	{
		ASCRIBE_LABEL_SCOPE("tenant", "acme");
		CHECK(otel_thread_ctx_v1 == theirs && ascribe_current());
	}
	CHECK(otel_thread_ctx_v1 == theirs && contexts(&at) == n);
	puts("PASS");
}

static int publish_and_leave(void)
{
	static unsigned char theirs;
	struct ascribe_scope old, scope;
	unsigned long at = 0, other;
	CHECK(ascribe_attach_int(&old, "first_key", 1) == 0);
	read_context();
	CHECK(!strcmp(value("first_key"), "1"));
	other = (unsigned long)(uintptr_t)publish_another();
	sleep(1);
	/* Looked for again: ours goes, and what this thread showed of it */
	CHECK(ascribe_attach_int(&scope, "second_key", 2) == 0);
	CHECK(contexts(&at) == 1 && at == other && !otel_thread_ctx_v1);
	otel_thread_ctx_v1 = &theirs;
	ascribe_detach(&scope);
	ascribe_detach(&old);
	CHECK(otel_thread_ctx_v1 == &theirs && !ascribe_current());
	puts("PASS");
	return 0;
}

int main(int argc, char **argv)
{
	static unsigned char theirs;
	unsigned long at;
	CHECK(contexts(&at) == 0 && !otel_thread_ctx_v1); /* nothing before there are labels */
	if (argc > 1 && !strcmp(argv[1], "quiet")) {
		check_quiet(NULL, 0);
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "first")) {
		publish_another();
		check_quiet(&theirs, 1);
		return 0;
	}
	if (argc > 1)
		return publish_and_leave();
	check_set(252);
	CHECK(!otel_thread_ctx_v1);
	CHECK(n_keys == 254);
	pid_t child = fork(); /* it does not have the mapping, until it has a key of its own */
	if (!child) {
		struct ascribe_scope scope;
		CHECK(ascribe_attach_int(&scope, "last", 1) == 0);
		read_context();
		CHECK(!strcmp(value("last"), "1") && n_keys == 255);
		_exit(0);
	}
	int status = 1;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	puts("PASS");
	return 0;
}
