/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile MODE SECONDS: a program that publishes labels that are not what they should be: pointers to nowhere, into the kernel
 * and to themselves, lengths of 2^64, memory that changes while it is read, sets without end.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

struct slice {
	uint64_t len;
	const void *buf;
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

#define EXPORT __attribute__((visibility("default")))
EXPORT uint32_t custom_labels_abi_version = 1;
EXPORT __thread struct custom_set *custom_labels_current_set;
EXPORT __thread struct otel_record *otel_thread_ctx_v1;
EXPORT __thread void *elastic_apm_profiling_correlation_tls_v1;
EXPORT __thread uint64_t context_tls_v1[8];
EXPORT __thread struct {
	uint8_t magic[8];
	const void *text;
	uint64_t len;
} perforator_tls_string_name;

#define NOWHERE ((void *)0x10000000000)
#define KERNEL ((void *)0xffffffff81000000)
#define HUGE 0xffffffffffffffffull

static struct custom_label label[64];
static struct custom_set set = { label, 1, 64 };
static struct otel_record record = { .valid = 1 };
static char *page_end; /* behind it nothing is mapped */
static volatile int stop;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t random64(void)
{
	static __thread uint64_t s = 88172645463325252ull;
	s ^= s << 13;
	s ^= s >> 7;
	return s ^= s << 17;
}

/* One turn of a mode; called again and again. */
static void pointers(void)
{
	void *const where[] = { NOWHERE, KERNEL, (void *)1, (void *)HUGE, page_end - 4, page_end - 27 };
	void *p = where[random64() % 6];
	otel_thread_ctx_v1 = p;
	custom_labels_current_set = p;
	elastic_apm_profiling_correlation_tls_v1 = p;
	perforator_tls_string_name.text = p;
	perforator_tls_string_name.len = 20;
}

static void lengths(void)
{
	static const uint64_t n[] = { HUGE, 1ull << 63, 1ull << 32, 65536, 4096, 300 };
	record.size = 65535;
	otel_thread_ctx_v1 = &record;
	set.count = random64() % 2 ? 3 : HUGE;
	for (int i = 0; i < 3; i++) {
		label[i].key = (struct slice){ random64() % 2 ? 3 : n[random64() % 6], "key" };
		label[i].value = (struct slice){ n[random64() % 6], random64() % 2 ? (const void *)label : page_end - 100 };
	}
	custom_labels_current_set = &set;
	perforator_tls_string_name.text = page_end - 100;
	perforator_tls_string_name.len = n[random64() % 6];
}

static void loops(void)
{
	otel_thread_ctx_v1 = (void *)&otel_thread_ctx_v1;
	custom_labels_current_set = (void *)&set;
	set.storage = (void *)&set;
	set.count = 64;
	elastic_apm_profiling_correlation_tls_v1 = &elastic_apm_profiling_correlation_tls_v1;
	perforator_tls_string_name.text = &perforator_tls_string_name;
	perforator_tls_string_name.len = 24;
	context_tls_v1[2] = (uint64_t)(uintptr_t)context_tls_v1;
}

/* Read while another thread writes. */
static void changes(void)
{
	set.storage = label;
	set.count = 8;
	for (int i = 0; i < 8; i++)
		label[i] = (struct custom_label){ { 3, "key" }, { 5, "value" } };
	custom_labels_current_set = &set;
	otel_thread_ctx_v1 = &record;
}

static void *changer(void *arg)
{
	void *const bytes = record.trace;
	uint64_t *v[] = { (uint64_t *)(void *)label, (uint64_t *)(void *)&set, bytes };
	const size_t n[] = { sizeof(label) / 8, sizeof(set) / 8, 8 };
	(void)arg;
	prctl(PR_SET_NAME, "changer");
	while (!stop) {
		size_t i = random64() % 3;
		v[i][random64() % n[i]] = random64() % 2 ? random64() % 64 : random64();
	}
	return NULL;
}

/* Every turn another set: 100,000 a second and more. Cut in the middle of characters, too. */
static void floods(void)
{
	static char texts[2][4][300];
	static struct custom_label labels[2][4];
	static struct custom_set sets[2];
	static unsigned turn;
	char(*text)[300] = texts[++turn & 1]; /* the one that is not to be seen */
	struct custom_label *own = labels[turn & 1];
	for (int i = 0; i < 4; i++) {
		int len = snprintf(text[i], sizeof(text[i]), "%llu", (unsigned long long)random64());
		if (i == 3) { /* 3 bytes each: no border at 255 + 1 */
			text[i][0] = 'z';
			for (len = 1; len < 295; len += 3)
				memcpy(text[i] + len, "\xe2\x82\xac", 3);
		}
		own[i] = (struct custom_label){ { 4, &"flow\0flox\0floy\0floz"[5 * i] }, { (uint64_t)len, text[i] } };
	}
	sets[turn & 1] = (struct custom_set){ own, 4, 4 };
	__asm__ __volatile__("" : : : "memory");
	custom_labels_current_set = &sets[turn & 1];
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*turn)(void);
	} modes[] = { { "pointers", pointers }, { "lengths", lengths }, { "loops", loops }, { "changes", changes },
		      { "floods", floods } };
	pthread_t thread;
	size_t m = 0, turns = 0;
	if (argc < 3)
		return fprintf(stderr, "usage: hostile MODE SECONDS\n"), 2;
	while (m < 5 && strcmp(modes[m].name, argv[1]))
		m++;
	if (m == 5)
		return 2;
	prctl(PR_SET_PDEATHSIG, 9);
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || munmap(p + 4096, 4096))
		return 1;
	page_end = p + 4096;
	memset(p, 1, 4096);
	memcpy(perforator_tls_string_name.magic, "\x7e\x6f\x06\xa7\x06\x04\xa6\x02", 8);
	if (modes[m].turn == changes)
		pthread_create(&thread, NULL, changer, NULL);
	double end = now() + atof(argv[2]);
	for (; now() < end; turns += 50) {
		for (int i = 0; i < 50; i++) {
			modes[m].turn();
			for (volatile int spin = 0; spin < 100; spin++)
				;
		}
	}
	stop = 1;
	printf("{\"turns\": %zu}\n", turns);
	return 0;
}
