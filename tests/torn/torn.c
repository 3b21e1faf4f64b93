/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torn [SAMPLES]: label sets that change every microsecond, read by the real resolver
 * (bpf/labels.bpf.h, bpf/foreign.bpf.h) in interrupts as frequent as the kernel gives them. Each
 * sample is held against the thread's own log, read at the same instant.
 *
 * One writer thread for each way of publishing. Set number n of writer w has four labels, all of
 * which follow from w and n. The log says `next = n + 1` before a change and `now = n + 1` after
 * it. So a sample must show exactly set `now`, or, while a change is under way, set `next`. Or it
 * shows what the way of publishing allows between them: nothing, or the first labels of `next`.
 * Anything else is a mixed set, or another thread's. Every half second all definitions are asked
 * for again. At some 50,000 samples a second most of a thread's time is spent in interrupts, which
 * is what makes many samples possible.
 */
#include <ascribe/label.h>

#include <linux/perf_event.h>
#include <linux/types.h>

#include "labels/foreign.h"
#include "labels/record.h"
#include "wire.h"
#include "label_wire.h"
#include "torn.h"
#include "torn.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#define SETS 512 /* different sets of a writer; then they begin anew */
#define LABELS 4 /* w, n, a, b */
#define TEXT 80
#define PERIOD_NS 10000 /* the kernel's shortest */
#define CHANGE_NS 1000
#define BARRIER __asm__ __volatile__("" : : : "memory")

static const char *const keys[LABELS] = { "w", "n", "a", "b" };

/* ---- what the sets are ---- */

struct texts {
	char v[LABELS][TEXT];
	uint32_t len[LABELS];
};

static void make_texts(unsigned w, uint64_t n, struct texts *t)
{
	uint64_t h = (n * 6 + w + 1) * 0x9e3779b97f4a7c15ull;
	n %= SETS;
	t->len[0] = (uint32_t)sprintf(t->v[0], "writer%u", w);
	t->len[1] = (uint32_t)sprintf(t->v[1], "%u", (unsigned)n);
	t->len[2] = 1 + (uint32_t)(n * 7 + w) % 60;
	memset(t->v[2], 'a' + (int)((n + w) % 26), t->len[2]);
	h = ((n << 8 | w) + 1) * 0x9e3779b97f4a7c15ull;
	t->len[3] = (uint32_t)sprintf(t->v[3], "%0*llx", 1 + (int)(n % 17), (unsigned long long)h);
}

/* ---- writers ---- */

static __thread struct torn_log torn_log;

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
	uint8_t trace[16], span[8], valid, flags, attrs_size[2], attrs[612];
} __attribute__((packed));
struct object { /* what a label path follows */
	const char *b;
	uint64_t len_b, n;
	char w[16], a[64];
};

static __thread struct otel_record *otel;
static __thread struct custom_set *custom;
static __thread struct object *object;

static struct texts expected[8][SETS];
static atomic_int stop;

static void fill_otel(struct otel_record *r, const struct texts *t)
{
	uint8_t *p = r->attrs;
	for (int i = 0; i < LABELS; i++) {
		*p++ = (uint8_t)i;
		*p++ = (uint8_t)t->len[i];
		memcpy(p, t->v[i], t->len[i]);
		p += t->len[i];
	}
	uint16_t size = (uint16_t)(p - r->attrs);
	memcpy(r->attrs_size, &size, 2);
}

struct writer {
	unsigned w;
	struct ascribe_label_set set[2];
	struct ascribe_scope scope;
	struct otel_record otel[2];
	struct custom_set custom[2];
	struct custom_label label[2][LABELS];
	char text[2][LABELS][TEXT];
	struct object object[2];
};

/* Our own library: a set that is built where the last but one was. */
static void write_own(struct writer *w, uint64_t n, const struct texts *t)
{
	struct ascribe_label_set *s = &w->set[n & 1];
	ascribe_set_init(s);
	for (int i = 0; i < LABELS; i++)
		ascribe_set_add_bytes(s, keys[i], 1, t->v[i], t->len[i]);
	torn_log.next = n;
	BARRIER;
	ascribe_swap(&s->header);
}

static void write_otel_swap(struct writer *w, uint64_t n, const struct texts *t)
{
	struct otel_record *r = &w->otel[n & 1];
	r->valid = 1;
	fill_otel(r, t);
	torn_log.next = n;
	BARRIER;
	otel = r;
}

static void write_otel_place(struct writer *w, uint64_t n, const struct texts *t)
{
	struct otel_record *r = &w->otel[0];
	torn_log.next = n;
	otel = r;
	BARRIER;
	*(volatile uint8_t *)&r->valid = 0;
	BARRIER;
	fill_otel(r, t);
	BARRIER;
	*(volatile uint8_t *)&r->valid = 1;
}

static void fill_label(struct writer *w, unsigned half, int i, const struct texts *t)
{
	memcpy(w->text[half][i], t->v[i], t->len[i]);
	w->label[half][i] =
		(struct custom_label){ { 1, keys[i] }, { t->len[i], w->text[half][i] } };
}

static void write_custom_swap(struct writer *w, uint64_t n, const struct texts *t)
{
	unsigned half = n & 1;
	for (int i = 0; i < LABELS; i++)
		fill_label(w, half, i, t);
	w->custom[half] = (struct custom_set){ w->label[half], LABELS, LABELS };
	torn_log.next = n;
	BARRIER;
	custom = &w->custom[half];
}

static void write_custom_place(struct writer *w, uint64_t n, const struct texts *t)
{
	volatile uint64_t *count = &w->custom[0].count;
	w->custom[0].storage = w->label[0];
	torn_log.next = n;
	custom = &w->custom[0];
	BARRIER;
	*count = 0;
	for (int i = 0; i < LABELS; i++) {
		BARRIER;
		fill_label(w, 0, i, t);
		BARRIER;
		*count = (uint64_t)i + 1;
	}
}

static void write_path(struct writer *w, uint64_t n, const struct texts *t)
{
	struct object *o = &w->object[n & 1];
	memcpy(o->w, t->v[0], t->len[0] + 1);
	memcpy(o->a, t->v[2], t->len[2]);
	o->a[t->len[2]] = 0;
	o->n = n % SETS;
	o->b = t->v[3];
	o->len_b = t->len[3];
	torn_log.next = n;
	BARRIER;
	object = o;
}

static const struct way {
	const char *name;
	void (*write)(struct writer *w, uint64_t n, const struct texts *t);
	bool between; /* while it changes there may be no labels, or the first ones alone */
} ways[] = {
	{ "own ABI", write_own, false },
	{ "OpenTelemetry, pointer swapped", write_otel_swap, false },
	{ "OpenTelemetry, changed in place", write_otel_place, true },
	{ "custom-labels, pointer swapped", write_custom_swap, false },
	{ "custom-labels, changed in place", write_custom_place, true },
	{ "label path", write_path, false },
};
#define WRITERS (sizeof(ways) / sizeof(ways[0]))

static atomic_uint begun;
static pid_t tids[WRITERS];
static double ns_a_change[WRITERS];

static double cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void change(struct writer *w, uint64_t n, unsigned spins)
{
	ways[w->w].write(w, n, &expected[w->w][n % SETS]);
	BARRIER;
	torn_log.now = n;
	for (volatile unsigned i = 0; i < spins; i++)
		;
}

/* How long to do nothing so that one change takes CHANGE_NS. */
static unsigned calibrate(struct writer *w, uint64_t *n)
{
	double bare = cpu_ns(), spin;
	for (int i = 0; i < 20000; i++)
		change(w, ++*n, 0);
	bare = (cpu_ns() - bare) / 20000;
	spin = cpu_ns();
	for (int i = 0; i < 20000; i++)
		change(w, ++*n, 100);
	spin = ((cpu_ns() - spin) / 20000 - bare) / 100;
	unsigned spins =
		bare >= CHANGE_NS ? 0 : (unsigned)((CHANGE_NS - bare) / (spin > 0.1 ? spin : 0.1));
	double all = cpu_ns();
	for (int i = 0; i < 20000; i++)
		change(w, ++*n, spins);
	ns_a_change[w->w] = (cpu_ns() - all) / 20000;
	return spins;
}

static void *run_writer(void *arg)
{
	struct writer *w = arg;
	uint64_t n = 0;
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 5); /* who counts comes first */
	unsigned spins = calibrate(w, &n);
	torn_log.writer = w->w + 1;
	BARRIER;
	tids[w->w] = (pid_t)syscall(SYS_gettid);
	atomic_fetch_add(&begun, 1);
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		change(w, ++n, spins);
	torn_log.writer = 0;
	return NULL;
}

/* ---- what is read ---- */

struct meaning {
	uint64_t set_id;
	int writer;	/* -1: not of the first label yet */
	int n;		/* -1 likewise */
	unsigned count; /* labels that it has, the first ones */
};

#define MEANINGS (1u << 16)
static struct meaning meanings[MEANINGS];
static char key_text[ASCRIBE_KEYS_TEXT_MAX];
static size_t key_bytes;
static struct torn_bpf *skel;

static uint64_t checked, during, wrong, bad_sets, undefined, early, faults, n_definitions;
static uint64_t of_writer[WRITERS], during_of[WRITERS];

static struct meaning *meaning_of(uint64_t id)
{
	for (uint32_t i = (uint32_t)(id >> 40) % MEANINGS;; i = (i + 1) % MEANINGS)
		if (!meanings[i].set_id || meanings[i].set_id == id)
			return &meanings[i];
}

static void complain(const char *what, const struct label *v, size_t n)
{
	fprintf(stderr, "%s:", what);
	for (size_t i = 0; i < n; i++) {
		char text[300];
		label_text(&v[i], text, sizeof(text));
		fprintf(stderr, " %.*s=%s", (int)v[i].key_len, v[i].key, text);
	}
	fputc('\n', stderr);
}

/* The labels must be the first ones of one set of one writer. */
static bool understand(struct label *v, size_t n, struct meaning *m)
{
	char text[LABELS][300] = { "", "", "", "" };
	unsigned have = 0;
	for (size_t i = 0; i < n; i++)
		for (int k = 0; k < LABELS; k++)
			if (v[i].key_len == 1 && v[i].key[0] == keys[k][0]) {
				label_text(&v[i], text[k], sizeof(text[k]));
				have |= 1u << k;
			}
	if (n > LABELS || have != (1u << n) - 1 || sscanf(text[0], "writer%d", &m->writer) != 1 ||
	    m->writer < 0 || m->writer >= (int)WRITERS)
		return false;
	m->count = (unsigned)n;
	m->n = n > 1 ? atoi(text[1]) : -1;
	if (n > 1 && (m->n < 0 || m->n >= SETS))
		return false;
	const struct texts *t = &expected[m->writer][n > 1 ? m->n : 0];
	for (size_t k = 0; k < n; k++)
		if (strcmp(text[k], t->v[k]) != 0)
			return false;
	return true;
}

static const struct foreign_field path_fields[] = {
	{ .key = "w", .form = FOREIGN_TEXT },
	{ .key = "n", .form = FOREIGN_UINT },
	{ .key = "a", .form = FOREIGN_TEXT },
	{ .key = "b", .form = FOREIGN_TEXT },
};
static const struct foreign_source decoders[] = {
	{ .kind = LABEL_OTEL, .keys = (char *const *)keys, .n_keys = LABELS },
	{ .kind = LABEL_CUSTOM },
	{ .kind = LABEL_PATH, .fields = path_fields, .n_fields = LABELS },
};

static void on_definition(const struct wire_record *r)
{
	struct label v[RECORD_LABELS_MAX + FOREIGN_LABELS_MAX];
	static struct foreign_side foreign;
	static struct record_side own;
	struct meaning m = { .set_id = r->set_id }, *known = meaning_of(r->set_id);
	size_t n = 0;
	bool good = r->n_parts == 1;
	if (r->kind == WIRE_FOREIGN)
		n = foreign_decode(r + 1, r->size, decoders, 3, v, &foreign);
	else
		good = good && !record_decode(r + 1, r->size, key_text, key_bytes, v, &n, &own);
	n_definitions++;
	good = good && n && understand(v, n, &m);
	if (!good || (known->set_id && memcmp(known, &m, sizeof(m)) != 0)) {
		if (bad_sets++ < 5)
			complain("a set that nobody attached", v, n);
		m.writer = -2;
	}
	*known = m;
}

static void on_sample(const struct torn_sample *s)
{
	unsigned w = (unsigned)s->log.writer - 1;
	uint64_t now = s->log.now, next = s->log.next;
	bool changing = now != next, good;
	if (w >= WRITERS)
		return;
	faults += s->failed != 0;
	if (!s->head.set_id) {
		good = changing && ways[w].between;
		if (s->flag == COUNTER_new_process) {
			early++;
			return;
		}
	} else {
		const struct meaning *m = meaning_of(s->head.set_id);
		if (!m->set_id) { /* its definition found no room in the ring */
			undefined++;
			return;
		}
		good = m->writer == (int)w;
		if (m->count == LABELS)
			good = good && ((uint64_t)m->n == now % SETS ||
					(changing && (uint64_t)m->n == next % SETS));
		else
			good = good && changing && ways[w].between &&
			       (m->n < 0 || (uint64_t)m->n == next % SETS);
		if (!good && wrong < 5)
			fprintf(stderr,
				"wrong: writer %u, now %llu, next %llu, read: writer %d, n %d, %u labels\n",
				w, (unsigned long long)now, (unsigned long long)next, m->writer,
				m->n, m->count);
	}
	checked++;
	of_writer[w]++;
	during += changing;
	during_of[w] += changing;
	wrong += !good;
}

static int on_record(void *ctx, void *data, size_t size)
{
	const struct wire_record *r = data;
	(void)ctx;
	(void)size;
	if (r->kind == WIRE_TORN)
		on_sample(data);
	else if (r->kind == WIRE_KEYS)
		memcpy(key_text, r + 1, key_bytes = r->size);
	else if (r->kind == WIRE_DEFINITION || r->kind == WIRE_FOREIGN)
		on_definition(r);
	return 0;
}

/* ---- the program ---- */

static int64_t from_tp(const void *at)
{
	return (int64_t)((const char *)at - (const char *)__builtin_thread_pointer());
}

static void *map_of(const struct bpf_map *m, size_t size)
{
	void *p = mmap(NULL, (size + 4095) & ~4095ul, PROT_READ | PROT_WRITE, MAP_SHARED,
		       bpf_map__fd(m), 0);
	if (p == MAP_FAILED) {
		perror("torn: mmap of a map");
		exit(1);
	}
	return p;
}

static void publish(void)
{
	static const struct label_step steps[] = {
		{ .op = STEP_FIELD, .field = 0 },
		{ .op = STEP_START },
		{ .op = STEP_DEREF },
		{ .op = STEP_CSTRING, .len = 16, .imm = offsetof(struct object, w) },
		{ .op = STEP_FIELD, .field = 1 },
		{ .op = STEP_START },
		{ .op = STEP_DEREF },
		{ .op = STEP_NUMBER, .len = 8, .imm = offsetof(struct object, n) },
		{ .op = STEP_INT, .field = 1 },
		{ .op = STEP_FIELD, .field = 2 },
		{ .op = STEP_START },
		{ .op = STEP_DEREF },
		{ .op = STEP_CSTRING, .len = 64, .imm = offsetof(struct object, a), .field = 2 },
		{ .op = STEP_FIELD, .field = 3 },
		{ .op = STEP_START },
		{ .op = STEP_DEREF },
		{ .op = STEP_NUMBER, .len = 8, .imm = offsetof(struct object, len_b) },
		{ .op = STEP_DEREF, .imm = offsetof(struct object, b) },
		{ .op = STEP_TEXT, .len = LABEL_TEXT_BYTES, .field = 3 },
	};
	const uint32_t n = sizeof(steps) / sizeof(steps[0]);
	memcpy(map_of(skel->maps.label_steps, sizeof(steps)), steps, sizeof(steps));
	struct proc_labels *l = map_of(skel->maps.proc_labels, sizeof(*l));
	l->source[0] = (struct label_source){ .kind = LABEL_OTEL,
					      .start = LABEL_AT_TP,
					      .fault = COUNTER_otel_fault,
					      .at = from_tp(&otel) };
	l->source[1] = (struct label_source){ .kind = LABEL_CUSTOM,
					      .start = LABEL_AT_TP,
					      .fault = COUNTER_custom_fault,
					      .at = from_tp(&custom) };
	l->source[2] = (struct label_source){ .kind = LABEL_PATH,
					      .start = LABEL_AT_TP,
					      .fault = COUNTER_path_fault,
					      .at = from_tp(&object),
					      .arg = 0,
					      .arg2 = n };
	struct proc_entry *e = map_of(skel->maps.procs, sizeof(*e));
	e->start_ns = e->exec_id = 1;
	e->n_slots = 1;
	e->slot[0].tp_offset = ascribe_descriptor_v1.tp_offset;
	e->slot[0].key_table = ascribe_descriptor_v1.key_table;
	e->n_sources = 3;
	__atomic_store_n(&e->tgid, (uint32_t)getpid(), __ATOMIC_RELEASE);
}

static void attach(pid_t tid)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.size = sizeof(attr),
					.sample_period = PERIOD_NS };
	int fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0 || !bpf_program__attach_perf_event(skel->progs.on_torn, fd)) {
		fprintf(stderr, "torn: sampling thread %d: %s\n", (int)tid, strerror(errno));
		exit(1);
	}
}

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void start_writers(pthread_t *thread)
{
	for (unsigned w = 0; w < WRITERS; w++) {
		struct writer *p = calloc(1, sizeof(*p));
		if (!p)
			abort();
		p->w = w;
		for (uint64_t n = 0; n < SETS; n++)
			make_texts(w, n, &expected[w][n]);
		if (pthread_create(&thread[w], NULL, run_writer, p))
			abort();
	}
	while (atomic_load(&begun) < WRITERS)
		usleep(1000);
}

int main(int argc, char **argv)
{
	uint64_t target = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
	/* a machine that cannot give samples must not hang the test */
	double limit = 30 + (double)target / 2000;
	pthread_t thread[WRITERS];
	if (geteuid()) {
		puts("root is needed to sample");
		return 77;
	}
	skel = torn_bpf__open();
	if (!skel)
		return perror("torn: the program"), 1;
	skel->rodata->torn_tgid = (uint32_t)getpid();
	skel->rodata->torn_log_at = from_tp(&torn_log);
	skel->rodata->cfg.secret = 0x5eed5eed5eed5eedull;
	skel->rodata->cfg.ring_wake = 1 << 18;
	if (torn_bpf__load(skel))
		return perror("torn: loading the program"), 1;
	publish();
	start_writers(thread);
	for (unsigned w = 0; w < WRITERS; w++)
		attach(tids[w]);
	struct ring_buffer *ring =
		ring_buffer__new(bpf_map__fd(skel->maps.ring), on_record, NULL, NULL);
	if (!ring)
		return perror("torn: the ring"), 1;
	double begin = seconds(), took = 0, again = 0;
	while (checked < target && took < limit && !wrong && !bad_sets) {
		ring_buffer__consume(ring);
		usleep(500);
		took = seconds() - begin;
		if (took > again + 0.5) {
			again = took;
			skel->data->generation++;
		}
	}
	atomic_store(&stop, 1);
	for (unsigned w = 0; w < WRITERS; w++)
		pthread_join(thread[w], NULL);
	for (unsigned w = 0; w < WRITERS; w++)
		printf("  %-34s %9llu samples, %7llu within a change, a change every %.0f ns when not interrupted\n",
		       ways[w].name, (unsigned long long)of_writer[w],
		       (unsigned long long)during_of[w], ns_a_change[w]);
	printf("%llu samples held against the log in %.0f s, %llu of them within a change, %llu definitions: %llu mixed or foreign, "
	       "%llu sets that nobody attached; not held: %llu without a definition, %llu lost in the ring; %llu with a failed read\n",
	       (unsigned long long)checked, took, (unsigned long long)during,
	       (unsigned long long)n_definitions, (unsigned long long)wrong,
	       (unsigned long long)bad_sets, (unsigned long long)undefined,
	       (unsigned long long)skel->bss->torn_lost, (unsigned long long)faults);
	int status = wrong || bad_sets || checked < target;
	for (unsigned w = 0; w < WRITERS; w++)
		if (!of_writer[w])
			status = 1, printf("no sample of: %s\n", ways[w].name);
	if (checked < target && !wrong && !bad_sets)
		printf("only %llu of %llu samples in %.0f s\n", (unsigned long long)checked,
		       (unsigned long long)target, took);
	return status;
}
