/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile MODE SECONDS: a program that publishes labels that are not what they should be, in every
 * way that is read. There are pointers to nowhere, into the kernel and to themselves, lengths of
 * 2^64, memory that changes while it is read, ids that lie, sets without end.
 */
#define ASCRIBE_NO_OTEL /* the variable is ours, below */
#include <ascribe/label.h>

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

EXPORT __thread struct node_context {
	void *slot, *key;
	uint32_t hash;
	uint8_t at, reserved[3];
	uint64_t undefined;
} otel_thread_ctx_nodejs_v1;
__attribute__((section(".go.buildinfo"), aligned(16), used)) static const char go_buildinfo[64] =
	"\xff Go buildinf:\x08\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x08go1.24.1";
__thread void *go_g __asm__("runtime.tlsg");
EXPORT void *hostile_root; /* of a label path */

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
	void *const where[] = { NOWHERE,      KERNEL,	    (void *)1,
				(void *)HUGE, page_end - 4, page_end - 27 };
	void *p = where[random64() % 6];
	otel_thread_ctx_v1 = p;
	custom_labels_current_set = p;
	elastic_apm_profiling_correlation_tls_v1 = p;
	perforator_tls_string_name.text = p;
	perforator_tls_string_name.len = 20;
	otel_thread_ctx_nodejs_v1 = (struct node_context){ .slot = p, .key = p };
	go_g = p;
	hostile_root = p;
}

/* The pointer of our own ABI, and records that are none. */
static void own(void)
{
	void *const where[] = { NOWHERE,      KERNEL,	     (void *)1,	     (void *)HUGE,
				page_end - 4, page_end - 59, page_end - 200, &record };
	ascribe_swap(where[random64() % 8]);
}

static struct ascribe_label_set honest_set;

static void honest(void)
{
	if (!honest_set.keys) {
		ascribe_set_init(&honest_set);
		ascribe_set_add_string(&honest_set, "tenant", "acme");
	}
	ascribe_swap(&honest_set.header);
}

/* One id for several sets, and it is that of a set that another process has. */
static void lies(void)
{
	static const char *const tenant[] = { "stolen", "taken", "false" };
	static struct ascribe_label_set sets[3];
	static size_t i;
	if (!honest_set.keys)
		honest();
	struct ascribe_label_set *s = &sets[++i % 3];
	ascribe_set_init(s);
	ascribe_set_add_string(s, "tenant", tenant[i % 3]);
	s->prefix.set_id = honest_set.prefix.set_id;
	ascribe_swap(&s->header);
}

static void lengths(void)
{
	static const uint64_t n[] = { HUGE, 1ull << 63, 1ull << 32, 65536, 4096, 300 };
	record.size = 65535;
	otel_thread_ctx_v1 = &record;
	set.count = random64() % 2 ? 3 : HUGE;
	for (int i = 0; i < 3; i++) {
		label[i].key = (struct slice){ random64() % 2 ? 3 : n[random64() % 6], "key" };
		label[i].value =
			(struct slice){ n[random64() % 6],
					random64() % 2 ? (const void *)label : page_end - 100 };
	}
	custom_labels_current_set = &set;
	perforator_tls_string_name.text = page_end - 100;
	perforator_tls_string_name.len = n[random64() % 6];
	/*
	 * Go: g, its m, which runs it, a list of labels without end. Node: a map whose buckets are
	 * no power of two.
	 */
	static uint64_t g[64], m[64], list[3], frame[1], object[8], table[8];
	list[0] = (uint64_t)(uintptr_t)label;
	list[1] = list[2] = HUGE;
	g[6] = (uint64_t)(uintptr_t)m;
	m[24] = (uint64_t)(uintptr_t)g;
	g[44] = (uint64_t)(uintptr_t)list;
	go_g = g;
	frame[0] = (uint64_t)(uintptr_t)object + 1;
	object[3] = (uint64_t)(uintptr_t)table + 1;
	table[4] = 3ull << 32;
	otel_thread_ctx_nodejs_v1 = (struct node_context){ .slot = frame, .key = frame };
	hostile_root = (void *)HUGE;
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
		int len =
			snprintf(text[i], sizeof(text[i]), "%llu", (unsigned long long)random64());
		if (i == 3) { /* 3 bytes each: no border at 255 + 1 */
			text[i][0] = 'z';
			for (len = 1; len < 295; len += 3)
				memcpy(text[i] + len, "\xe2\x82\xac", 3);
		}
		own[i] = (struct custom_label){ { 4, &"flow\0flox\0floy\0floz"[5 * i] },
						{ (uint64_t)len, text[i] } };
	}
	sets[turn & 1] = (struct custom_set){ own, 4, 4 };
	__asm__ __volatile__("" : : : "memory");
	custom_labels_current_set = &sets[turn & 1];
}

/*
 * At the end of the page the first bytes of a record that would go on behind it, and one with an
 * impossible size.
 */
static void label_page(char *page)
{
	const uint32_t magic = ASCRIBE_RECORD_MAGIC, sizes = 0xffff0001;
	memcpy(page + 4096 - 200 - 32, &magic, 4);
	memcpy(page + 4096 - 200 - 28, &sizes, 4);
	memcpy(page + 4096 - 59 - 32, &magic, 4);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*turn)(void);
	} modes[] = { { "pointers", pointers }, { "lengths", lengths }, { "loops", loops },
		      { "changes", changes },	{ "floods", floods },	{ "own", own },
		      { "lies", lies },		{ "honest", honest } };
	pthread_t thread;
	size_t m = 0, turns = 0;
	if (argc < 3)
		return fprintf(stderr, "usage: hostile MODE SECONDS\n"), 2;
	while (m < sizeof(modes) / sizeof(modes[0]) && strcmp(modes[m].name, argv[1]))
		m++;
	if (m == sizeof(modes) / sizeof(modes[0]))
		return 2;
	prctl(PR_SET_PDEATHSIG, 9);
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || munmap(p + 4096, 4096))
		return 1;
	page_end = p + 4096;
	memset(p, 1, 4096);
	label_page(p);
	memcpy(perforator_tls_string_name.magic, "\x7e\x6f\x06\xa7\x06\x04\xa6\x02", 8);
	if (modes[m].turn == changes)
		pthread_create(&thread, NULL, changer, NULL);
	/* On a busy host a quarter of them in CPU time, too: else hardly any turn is sampled. */
	const double seconds = atof(argv[2]), end = now() + seconds;
	for (; now() < end || clock() < seconds / 4 * CLOCKS_PER_SEC; turns += 50) {
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
