/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that publish labels in the ways of others, by their published layouts: foreign ABI
 * SECONDS [LIBRARY]. Two threads, "one" and "two", each with the labels tenant = its name, x = a
 * number that changes all the time and y = a function of x. With -DGO_VERSION, GO_CURG and
 * GO_LABELS it looks as a Go program of that version does, whose labels are a slice. Built with
 * -DLIBRARY it is the library that holds the variables; LIBRARY (dlopened) is then used.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

#define EXPORT __attribute__((visibility("default")))
#ifndef BALLAST
#define BALLAST 0
#endif
#define BARRIER __asm__ __volatile__("" : : : "memory")

int foreign_main(const char *abi, double seconds);

#if defined(LIBRARY) || !defined(HOST)

struct slice {
	uint64_t len;
	const char *buf;
};
struct custom_label {
	struct slice key, value;
};
struct custom_set {
	struct custom_label *storage;
	uint64_t count, capacity;
};
struct otel_record {
	uint8_t trace[16], span[8], valid, flags;
	uint16_t size;
	uint8_t attrs[600];
} __attribute__((packed));
struct elastic_record {
	uint16_t minor;
	uint8_t valid, present, flags, trace[16], span[8], transaction[8];
} __attribute__((packed));
struct datadog_context {
	uint64_t span, root, checksum;
	uint32_t tag[10];
};
struct perforator_number {
	uint8_t magic[8];
	uint64_t value;
};
struct perforator_text {
	uint8_t magic[8];
	const char *text;
	uint64_t len;
};

/* So that a library's block is not small: glibc puts small ones into static memory. */
EXPORT __thread char ballast[BALLAST + 1];

#ifndef CUSTOM_VERSION
#define CUSTOM_VERSION 1
#endif
EXPORT uint32_t custom_labels_abi_version = CUSTOM_VERSION;
EXPORT __thread struct otel_record *otel_thread_ctx_v1;
EXPORT __thread struct custom_set *custom_labels_current_set;
EXPORT __thread struct custom_set custom_labels_thread_local_data;
EXPORT __thread struct elastic_record *elastic_apm_profiling_correlation_tls_v1;
EXPORT __thread struct datadog_context context_tls_v1;
#define MAGIC(kind) { 0x7e, 0x6f, 0x06, 0xa7, 0x06, 0x04, 0xa6, kind }
EXPORT __thread struct perforator_number perforator_tls_ui64_x = { MAGIC(1), 0 };
EXPORT __thread struct perforator_text perforator_tls_TString_tenant = { MAGIC(2), "", 0 };

#ifdef GO_VERSION
/* Magic, size of a pointer, flags (the version follows), and at 32 the version with its length. */
__attribute__((section(".go.buildinfo"), aligned(16), used)) static const char go_buildinfo[64] =
	"\xff Go buildinf:\x08\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" GO_VERSION;
__thread uint64_t *go_g __asm__("runtime.tlsg");
#endif

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t relation(uint64_t x)
{
	return x * 7919 % 1000003;
}

/* Each writer keeps two of what it publishes and fills the one that is not to be seen. */
struct writer {
	const char *name;
	uint64_t turn;
	struct otel_record otel[2];
	struct custom_label label[2][12];
	struct custom_set set[2];
	char text[2][2][24];
	struct elastic_record elastic[2];
	struct {
		const char *p;
		uint64_t len;
	} go[2][6];
	uint64_t go_slice[2][3], g[64], m[64];
};

static uint16_t attribute(uint8_t *at, uint8_t key, const char *text)
{
	size_t len = strlen(text);
	at[0] = key;
	at[1] = (uint8_t)len;
	memcpy(at + 2, text, len);
	return (uint16_t)(2 + len);
}

static void write_otel(struct writer *w, uint64_t x)
{
	struct otel_record *r = &w->otel[w->turn & 1];
	char text[2][24];
	snprintf(text[0], 24, "%llu", (unsigned long long)x);
	snprintf(text[1], 24, "%llu", (unsigned long long)relation(x));
	memset(r->trace, w->name[0], 16);
	memset(r->span, w->name[1], 8);
	r->valid = 1;
	r->size = attribute(r->attrs, 0, w->name);
	r->size += attribute(r->attrs + r->size, 1, text[0]);
	r->size += attribute(r->attrs + r->size, 2, text[1]);
	if (w->turn % 3 == 0) /* longer than what is read at once */
		r->size += attribute(r->attrs + r->size, 3,
				     "a value of some length, so that the record has two parts");
	BARRIER;
	otel_thread_ctx_v1 = r;
}

static struct slice slice(const char *s)
{
	return (struct slice){ strlen(s), s };
}

static void fill_set(struct writer *w, uint64_t x)
{
	uint64_t i = w->turn & 1;
	snprintf(w->text[i][0], 24, "%llu", (unsigned long long)x);
	snprintf(w->text[i][1], 24, "%llu", (unsigned long long)relation(x));
	struct custom_label *l = w->label[i];
	l[0] = (struct custom_label){ slice("tenant"), slice(w->name) };
	l[1] = (struct custom_label){ { 3, NULL }, slice("deleted") };
	l[2] = (struct custom_label){ slice("x"), slice(w->text[i][0]) };
	l[3] = (struct custom_label){ slice("y"), slice(w->text[i][1]) };
	l[4] = (struct custom_label){ slice("tenant"), slice("the first one counts") };
	w->set[i] = (struct custom_set){ l, 5, 12 };
}

static void write_custom1(struct writer *w, uint64_t x)
{
	fill_set(w, x);
	BARRIER;
	custom_labels_current_set = &w->set[w->turn & 1];
}

static void write_custom0(struct writer *w, uint64_t x)
{
	fill_set(w, x);
	BARRIER;
	custom_labels_thread_local_data.storage = w->label[w->turn & 1];
	BARRIER;
	custom_labels_thread_local_data.count = 5;
}

static void write_elastic(struct writer *w, uint64_t x)
{
	struct elastic_record *r = &w->elastic[w->turn & 1];
	r->minor = 1;
	r->valid = r->present = 1;
	memset(r->trace, w->name[0], 16);
	memcpy(r->span, &x, 8);
	uint64_t y = relation(x);
	memcpy(r->transaction, &y, 8);
	BARRIER;
	elastic_apm_profiling_correlation_tls_v1 = r;
}

static void write_datadog(struct writer *w, uint64_t x)
{
	const uint64_t knuth = 0x9e3779b97f4a7c15ull;
	struct datadog_context *c = &context_tls_v1;
	uint64_t y = relation(x);
	c->checksum = 0;
	BARRIER;
	c->span = x;
	c->root = y;
	c->tag[0] = (uint32_t)w->name[0];
	BARRIER;
	c->checksum = (x * knuth) ^ ((y << 32 | y >> 32) * knuth);
}

#ifdef GO_VERSION
static void write_go(struct writer *w, uint64_t x)
{
	uint64_t i = w->turn & 1;
	fill_set(w, x);
	const char *text[6] = { "tenant", w->name, "x", w->text[i][0], "y", w->text[i][1] };
	for (int k = 0; k < 6; k++) {
		w->go[i][k].p = text[k];
		w->go[i][k].len = strlen(text[k]);
	}
	w->go_slice[i][0] = (uint64_t)(uintptr_t)w->go[i];
	w->go_slice[i][1] = w->go_slice[i][2] = 3;
	w->g[6] = (uint64_t)(uintptr_t)w->m; /* 48: m */
	w->m[GO_CURG / 8] = (uint64_t)(uintptr_t)w->g;
	BARRIER;
	w->g[GO_LABELS / 8] = (uint64_t)(uintptr_t)w->go_slice[i];
	BARRIER;
	go_g = w->g;
}
#endif

static void write_perforator(struct writer *w, uint64_t x)
{
	perforator_tls_TString_tenant.text = w->name;
	perforator_tls_TString_tenant.len = strlen(w->name);
	perforator_tls_ui64_x.value = x;
}

static const struct {
	const char *name;
	void (*write)(struct writer *w, uint64_t x);
} abis[] = {
	{ "otel", write_otel },
	{ "custom1", write_custom1 },
	{ "custom0", write_custom0 },
	{ "otel_late", write_otel }, /* names its attributes after half of the time */
	{ "elastic", write_elastic },
	{ "datadog", write_datadog },
	{ "perforator", write_perforator },
#ifdef GO_VERSION
	{ "go", write_go },
#endif
};

struct job {
	const char *name;
	size_t abi;
	double seconds;
	uint64_t changes;
};

static void *run(void *arg)
{
	struct job *j = arg;
	struct writer *w = calloc(1, sizeof(*w));
	double begin = now(CLOCK_MONOTONIC), end = begin + j->seconds;
	uint64_t x = (uint64_t)j->name[0];
	if (!w)
		abort();
	w->name = j->name;
	prctl(PR_SET_NAME, j->name);
	ballast[0] = 1;
	while (now(CLOCK_MONOTONIC) < end) {
		for (int i = 0; i < 200; i++) {
			x = x * 1103515245 % 999983 + 1;
			w->turn++;
			abis[j->abi].write(w, x);
			j->changes++;
			for (volatile int spin = 0; spin < 300; spin++)
				;
		}
	}
	return NULL;
}

/* ---- OpenTelemetry's process context, with the names of the attributes ---- */

static uint8_t *put(uint8_t *p, uint8_t tag, const void *bytes, size_t len)
{
	*p++ = tag;
	*p++ = (uint8_t)len; /* short messages only */
	memcpy(p, bytes, len);
	return p + len;
}

static void publish_context(void)
{
	static const char *const keys[] = { "tenant", "x", "y", "text" };
	static uint8_t array[100], any[110], map[120], message[130];
	uint8_t *end = array;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		uint8_t text[32], *e = put(text, 1 << 3 | 2, keys[i], strlen(keys[i]));
		end = put(end, 1 << 3 | 2, text, (size_t)(e - text));
	}
	uint8_t *any_end = put(any, 5 << 3 | 2, array, (size_t)(end - array));
	static const char name[] = "threadlocal.attribute_key_map";
	uint8_t *map_end = put(map, 1 << 3 | 2, name, sizeof(name) - 1);
	map_end = put(map_end, 2 << 3 | 2, any, (size_t)(any_end - any));
	uint8_t *message_end = put(message, 2 << 3 | 2, map, (size_t)(map_end - map));
	uint8_t *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct timespec t;
	if (page == MAP_FAILED)
		abort();
	if (prctl(PR_SET_VMA, 0, page, 4096, "OTEL_CTX")) { /* a kernel without names for memory */
		int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC);
		munmap(page, 4096);
		if (fd < 0 || ftruncate(fd, 4096))
			abort();
		page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
		close(fd);
	}
	const uint32_t version = 2, size = (uint32_t)(message_end - message);
	const uint64_t at = (uint64_t)(uintptr_t)message;
	clock_gettime(CLOCK_BOOTTIME, &t);
	const uint64_t ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	memcpy(page, "OTEL_CTX", 8);
	memcpy(page + 8, &version, 4);
	memcpy(page + 12, &size, 4);
	memcpy(page + 24, &at, 8);
	BARRIER;
	memcpy(page + 16, &ns, 8);
}

EXPORT int foreign_main(const char *abi, double seconds)
{
	struct job job[2] = { { .name = "one", .seconds = seconds },
			      { .name = "two", .seconds = seconds } };
	pthread_t thread[2];
	size_t n = 0;
	while (n < sizeof(abis) / sizeof(abis[0]) && strcmp(abis[n].name, abi))
		n++;
	if (n == sizeof(abis) / sizeof(abis[0]))
		return 2;
	if (!strcmp(abi, "otel"))
		publish_context();
	for (int i = 0; i < 2; i++) {
		job[i].abi = n;
		pthread_create(&thread[i], NULL, run, &job[i]);
	}
	if (!strcmp(abi, "otel_late")) {
		usleep((useconds_t)(seconds * 500000));
		publish_context();
	}
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	printf("{\"changes\": %llu}\n", (unsigned long long)(job[0].changes + job[1].changes));
	return 0;
}
#endif

#ifndef LIBRARY
int main(int argc, char **argv)
{
	if (argc < 3)
		return fprintf(stderr, "usage: foreign ABI SECONDS [LIBRARY]\n"), 2;
	prctl(PR_SET_PDEATHSIG, 9);
#ifdef HOST
	int (*of_library)(const char *, double) = NULL;
	void *lib = argc > 3 ? dlopen(argv[3], RTLD_NOW) : NULL;
	void *sym = lib ? dlsym(lib, "foreign_main") : NULL;
	if (!sym)
		return fprintf(stderr, "%s\n", dlerror()), 2;
	memcpy(&of_library, &sym, sizeof(sym));
	return of_library(argv[1], atof(argv[2]));
#else
	return foreign_main(argv[1], atof(argv[2]));
#endif
}
#endif
