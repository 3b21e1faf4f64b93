/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store on a generated load, beside what else one might keep the samples in.
 * tests/bench/bench_store.sh runs it.
 *
 *   bench_store write DIR low|high|thin WINDOWS SECONDS [STACKS]   write windows so long; time, memory and bytes of it
 *   bench_store query DIR                             open, symbol trie, queries of growing ranges
 *   bench_store cover DIR                             blocks merged for random ranges
 *   bench_store compare DIR SCRATCH WINDOWS           the first windows as pprof and folded stacks, gzipped, and the
 *                                                     store's own blocks in SQLite and LMDB
 *
 * The load: a window of 10 s holds 30,000 samples, stacks drawn by Zipf(1.05). low: a label of 64
 * containers, drawn by Zipf, too, but for the LOW_HOME share of samples that run where their stack
 * is at home: about 12,000 rows. high: a tenant of 200 as well, and 2,800 queries per window with a
 * fresh UUID each; HIGH_HOME of a query's samples are of one stack: about 24,000 rows. thin: 20
 * samples, where only the blocks count. STACKS: a directory of folded stacks from real programs
 * (*.folded, root first), of which 34,670 are taken; without it as many are made up, 22 frames deep
 * on average, of 9,921 functions. All from fixed seeds.
 */
#include "export/export.h"
#include "query/query.h"
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <lmdb.h>
#include <malloc.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>
#include <zlib.h>

#define WINDOW_NS 10000000000ll
#define T0 1767225600000000000ll /* 2026-01-01T00:00:00Z: the beginning of a slot of every level up to a day */
#define SAMPLES 30000
#define CONTAINERS 64
#define TENANTS 200
#define QUERIES 2800
#define ZIPF 1.05
#define STACKS 34670
#define LOW_HOME 0.52
#define HIGH_HOME 0.2
#define MADE_FUNCTIONS 9921

static struct err err;

static void check(int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "bench_store: %s: %s\n", what, err.code ? err.text : strerror(-rc));
	exit(1);
}

static void *need(void *p)
{
	if (!p)
		check(-ENOMEM, "memory");
	return p;
}

/* ---- numbers ---- */

static uint64_t state = 88172645463325252ull;

static uint64_t draw64(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static uint32_t draw(uint32_t below)
{
	return (uint32_t)((draw64() >> 32) * below >> 32);
}

static double wall(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A number of /proc/self/<file>, as it stands there. */
static uint64_t self_number(const char *file, const char *name)
{
	char path[64], line[256];
	uint64_t v = 0;
	snprintf(path, sizeof(path), "/proc/self/%s", file);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)))
			v = strtoull(line + strlen(name), NULL, 10);
	if (f)
		fclose(f);
	return v;
}

static double resident_mib(void)
{
	return (double)self_number("status", "VmRSS:") / 1024;
}

/* Walker's alias method: one draw, whatever the number of outcomes. */
struct zipf {
	uint32_t n, *alias;
	double *keep;
};

static struct zipf zipf_new(uint32_t n)
{
	struct zipf z = { n, need(calloc(n, sizeof(*z.alias))), need(calloc(n, sizeof(*z.keep))) };
	uint32_t *small = need(calloc(2 * (size_t)n, sizeof(*small))), *large = small + n, n_small = 0, n_large = 0;
	double sum = 0;
	for (uint32_t i = 0; i < n; i++)
		sum += z.keep[i] = pow(i + 1, -ZIPF);
	for (uint32_t i = 0; i < n; i++) {
		z.keep[i] *= n / sum;
		*(z.keep[i] < 1 ? &small[n_small++] : &large[n_large++]) = i;
	}
	while (n_small && n_large) {
		uint32_t s = small[--n_small], l = large[n_large - 1];
		z.alias[s] = l;
		z.keep[l] -= 1 - z.keep[s];
		if (z.keep[l] < 1) {
			n_large--;
			small[n_small++] = l;
		}
	}
	while (n_large)
		z.keep[large[--n_large]] = 1;
	while (n_small)
		z.keep[small[--n_small]] = 1;
	free(small);
	return z;
}

static double draw_real(void)
{
	return (double)(draw64() >> 11) * 0x1p-53;
}

static uint32_t zipf_draw(const struct zipf *z)
{
	uint32_t i = draw(z->n);
	return draw_real() < z->keep[i] ? i : z->alias[i];
}

/* ---- files ---- */

/* What the names of segment files begin with, by level. */
static const char *const level_names[] = { "10s-", "1m-", "5m-", "20m-", "1h-", "4h-", "1d-", "1w-", "4w-", "postings-" };
#define N_LEVELS 10

static int level_of(const char *name)
{
	if (name[0] == 'L' && name[1] >= '0' && name[1] <= '9')
		return name[1] - '0';
	for (int i = 0; i < N_LEVELS; i++)
		if (!strncmp(name, level_names[i], strlen(level_names[i])))
			return i;
	return -1;
}

static struct {
	uint64_t level[N_LEVELS], symbols, strings, labels, other, all;
} sizes;

static int add_size(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	const char *name = path + ftw->base;
	uint64_t n = (uint64_t)st->st_size;
	if (type != FTW_F)
		return 0;
	sizes.all += n;
	if (strstr(path, "/seg/") && level_of(name) >= 0)
		sizes.level[level_of(name)] += n;
	else if (strstr(path, "/sym/"))
		sizes.symbols += n;
	else if (strstr(path, "/lab/"))
		sizes.labels += n;
	else
		sizes.other += n;
	if (strstr(path, "/strings"))
		sizes.strings += n;
	return 0;
}

static void measure(const char *dir)
{
	memset(&sizes, 0, sizeof(sizes));
	nftw(dir, add_size, 16, FTW_PHYS);
}

/* ---- stacks ---- */

/* Stacks as folded text, root first; a store is told of one when it is drawn first, as by a recorder. */
struct corpus {
	struct store_writer *w;
	char **lines;
	uint32_t *ids; /* 0: not yet in the store */
	size_t n, cap;
};

static uint32_t add_string(struct store_writer *w, const char *s, size_t len)
{
	uint32_t id;
	check(store_add_string(w, s, len, &id), "string");
	return id;
}

static uint32_t add_frame(struct store_writer *w, const char *name, size_t len)
{
	struct store_frame f = { 0 };
	uint32_t id;
	bool kernel = len > 4 && !memcmp(name + len - 4, "_[k]", 4);
	f.kind = kernel ? FRAME_KERNEL : FRAME_USER;
	f.function = add_string(w, name, kernel ? len - 4 : len);
	f.module = kernel ? add_string(w, "[kernel]", 8) : add_string(w, "/usr/bin/server", 15);
	check(store_add_frame(w, &f, &id), "frame");
	return id;
}

static void keep_stack(struct corpus *c, const char *line, size_t len)
{
	if (c->n == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 65536;
		c->lines = need(reallocarray(c->lines, c->cap, sizeof(*c->lines)));
	}
	c->lines[c->n++] = need(strndup(line, len));
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Each once, in an order that has nothing to do with the files': the rank in Zipf's law. */
static void distinct(struct corpus *c)
{
	size_t n = 0;
	if (c->n)
		qsort(c->lines, c->n, sizeof(*c->lines), by_text);
	for (size_t i = 0; i < c->n; i++)
		if (!n || strcmp(c->lines[i], c->lines[n - 1]))
			c->lines[n++] = c->lines[i];
	c->n = n;
	for (size_t i = n; i > 1; i--) {
		uint32_t j = draw((uint32_t)i);
		char *t = c->lines[j];
		c->lines[j] = c->lines[i - 1];
		c->lines[i - 1] = t;
	}
	c->ids = need(calloc(n + 1, sizeof(*c->ids)));
}

static uint32_t stack_id(const struct corpus *c, uint32_t i)
{
	const char *p = c->lines[i], *end = p + strlen(p);
	if (c->ids[i])
		return c->ids[i];
	for (const char *q; p < end; p = q + 1) {
		q = strchrnul(p, ';');
		check(store_add_stack(c->w, c->ids[i], add_frame(c->w, p, (size_t)(q - p)), &c->ids[i]), "stack");
	}
	return c->ids[i];
}

/*
 * ---- real stacks, read twice: the first time only their hashes are kept, the smallest of which
 * are the choice ----
 */

struct chosen {
	uint64_t *hashes, limit;
	size_t n, cap;
};

static int by_hash(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static void choose_some(struct chosen *h)
{
	size_t n = 0;
	if (h->n)
		qsort(h->hashes, h->n, sizeof(*h->hashes), by_hash);
	for (size_t i = 0; i < h->n; i++)
		if (!n || h->hashes[i] != h->hashes[n - 1])
			h->hashes[n++] = h->hashes[i];
	h->n = n < STACKS ? n : STACKS;
	h->limit = n < STACKS ? UINT64_MAX : h->hashes[STACKS - 1];
}

/* add: the second time. */
static void read_folded(struct corpus *c, struct chosen *h, const char *path, bool add)
{
	char *line = NULL;
	size_t cap = 0;
	ssize_t len;
	FILE *f = fopen(path, "re");
	if (!f)
		check(-errno, path);
	while ((len = getline(&line, &cap, f)) > 0) {
		char *end = memrchr(line, ' ', (size_t)len);
		uint64_t hash = end ? XXH3_64bits(line, (size_t)(end - line)) : UINT64_MAX;
		if (!end || hash > h->limit)
			continue;
		if (add) {
			keep_stack(c, line, (size_t)(end - line));
			continue;
		}
		if (h->n == h->cap) {
			choose_some(h);
			h->cap = h->n * 2 > 1 << 20 ? h->n * 2 : 1 << 20;
			h->hashes = need(reallocarray(h->hashes, h->cap, sizeof(*h->hashes)));
		}
		h->hashes[h->n++] = hash;
	}
	free(line);
	fclose(f);
}

static int is_folded(const struct dirent *e)
{
	const char *dot = strrchr(e->d_name, '.');
	return dot && !strcmp(dot, ".folded");
}

static void real_stacks(struct corpus *c, const char *dir)
{
	struct dirent **names;
	struct chosen h = { .limit = UINT64_MAX };
	int n = scandir(dir, &names, is_folded, alphasort);
	if (n <= 0)
		check(-ENOENT, dir);
	for (int i = 0; i < 2 * n; i++) {
		char path[4096];
		if (i == n)
			choose_some(&h);
		snprintf(path, sizeof(path), "%s/%s", dir, names[i % n]->d_name);
		read_folded(c, &h, path, i >= n);
	}
	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
	free(h.hashes);
	distinct(c);
}

/* ---- made-up stacks ---- */

/* Some 50 bytes: words as programs have them, in a few name spaces. */
static int made_name(char *out, size_t cap)
{
	static const char *const words[] = {
		"read", "write", "lock", "page", "node", "hash", "table", "index", "query", "parse", "token", "buffer",
		"stream", "frame", "block", "cache", "merge", "sort", "scan", "visit", "expr", "plan", "commit", "send",
	};
	int n = snprintf(out, cap, "%s::%s_%s::", words[draw(4)], words[draw(12)], words[draw(24)]);
	for (uint32_t i = 0, k = 3 + draw(3); i < k; i++)
		n += snprintf(out + n, cap - (size_t)n, "%s%s", words[draw(24)], i + 1 < k ? "_" : "");
	return n + snprintf(out + n, cap - (size_t)n, "%u(%s)", draw(100), draw(2) ? "int" : "std::string const&");
}

/* Each stack leaves an earlier one somewhere on its way: shared prefixes, as in programs. */
static void made_stacks(struct corpus *c)
{
	uint32_t(*paths)[64] = need(calloc(STACKS, sizeof(*paths)));
	uint8_t *depth = need(calloc(STACKS, 1));
	char(*names)[160] = need(calloc(MADE_FUNCTIONS, sizeof(*names)));
	static char line[64 * 161];
	for (uint32_t i = 0; i < MADE_FUNCTIONS; i++)
		made_name(names[i], sizeof(names[i]));
	for (uint32_t i = 0; i < STACKS; i++) {
		uint32_t from = i ? draw(i) : 0, leave = 1 + draw(draw(8) + 1u);
		uint32_t keep = depth[from] > leave ? depth[from] - leave : 0, want = 8 + draw(14) + draw(15);
		memcpy(paths[i], paths[from], keep * sizeof(uint32_t));
		if (keep >= want || keep > 60)
			want = keep + 1;
		else if (i > 64 && want > keep + 6)
			want = keep + 1 + draw(6);
		depth[i] = (uint8_t)(want > 63 ? 63 : want);
		keep = keep < depth[i] ? keep : depth[i] - 1u;
		for (uint32_t k = keep; k < depth[i]; k++)
			paths[i][k] = draw(MADE_FUNCTIONS);
		char *p = line;
		for (uint32_t k = 0; k < depth[i]; k++)
			p += sprintf(p, "%s%s", k ? ";" : "", names[paths[i][k]]);
		keep_stack(c, line, (size_t)(p - line));
	}
	free(paths);
	free(depth);
	free(names);
	distinct(c);
}

/* ---- write ---- */

static struct label text(const char *key, const char *value)
{
	return (struct label){ .key = key, .key_len = (uint32_t)strlen(key), .str = value,
			       .str_len = (uint32_t)strlen(value), .type = LABEL_STRING };
}

static void uuid(char *out)
{
	uint64_t a = draw64(), b = draw64();
	snprintf(out, 37, "%08x-%04x-4%03x-%04x-%012" PRIx64, (uint32_t)(a >> 32), (uint32_t)a >> 16, (uint32_t)a & 0xfff,
		 (uint32_t)(b >> 48 & 0x3fff) | 0x8000, b & 0xffffffffffff);
}

struct load {
	struct store_writer *w;
	const struct corpus *c;
	struct zipf stacks, containers, tenants;
	bool high;
	uint32_t samples; /* of a window */
	int64_t window_ns;
	uint32_t sets[QUERIES];
	char id[37]; /* of one query of the newest window */
};

static void make_sets(struct load *l)
{
	char container[16], tenant[16], id[37];
	struct label v[3];
	for (uint32_t i = 0; i < (l->high ? QUERIES : CONTAINERS); i++) {
		size_t n = 0;
		snprintf(container, sizeof(container), "%012x", 0x9e3779b1u * (l->high ? zipf_draw(&l->containers) : i));
		v[n++] = text("container", container);
		if (l->high) {
			snprintf(tenant, sizeof(tenant), "tenant-%u", zipf_draw(&l->tenants));
			uuid(id);
			v[n++] = text("query_id", id);
			v[n++] = text("tenant", tenant);
			memcpy(l->id, id, sizeof(id));
		}
		check(store_add_set(l->w, v, n, &l->sets[i]), "set");
	}
}

static void make_window(struct load *l, uint32_t event)
{
	uint32_t home[QUERIES];
	make_sets(l);
	for (uint32_t i = 0; i < QUERIES; i++)
		home[i] = zipf_draw(&l->stacks);
	for (uint32_t i = 0; i < l->samples; i++) {
		uint32_t stack = zipf_draw(&l->stacks), set;
		if (l->high) {
			set = draw(QUERIES);
			stack = draw_real() < HIGH_HOME ? home[set] : stack;
		} else {
			set = draw_real() < LOW_HOME ? stack * 0x9e3779b1u >> 26 : zipf_draw(&l->containers);
		}
		check(store_add_row(l->w, l->sets[set], stack_id(l->c, stack), event, 1, 10101010), "row");
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void commit(struct load *l, uint64_t i)
{
	uint64_t lost[1] = { 0 };
	struct store_cpu_totals c[2] = { { 0, l->samples / 2, l->samples / 2, lost, lost },
					 { 1, l->samples / 2, l->samples / 2, lost, lost } };
	struct store_totals t = { c, 2, 0, 0, 0 };
	int64_t t0 = T0 + (int64_t)i * l->window_ns;
	check(store_commit_window(l->w, t0, t0 + l->window_ns, (int64_t)(i + 1) * l->window_ns, &t, &err), "commit");
}

static void print_write(const char *kind, const struct load *l, uint64_t windows, const double *ms, const double *sorted, uint64_t written,
			double grown)
{
	double samples = (double)windows * l->samples, sum = 0, parents = 0;
	for (uint64_t i = 0; i < windows; i++)
		sum += ms[i];
	printf("%s: %" PRIu64 " windows of %.0f s (%.1f h), %.0f samples\n", kind, windows, (double)l->window_ns / 1e9,
	       (double)windows * (double)l->window_ns / 3.6e12, samples);
	for (int k = 0; k < N_LEVELS; k++) {
		if (sizes.level[k])
			printf("  level %d %-10.*s %12" PRIu64 " bytes  %7.3f per sample\n", k,
			       (int)strlen(level_names[k]) - 1, level_names[k], sizes.level[k],
			       (double)sizes.level[k] / samples);
		parents += k ? (double)sizes.level[k] : 0;
	}
	printf("  symbols            %12" PRIu64 " bytes  %7.3f per sample\n", sizes.symbols, (double)sizes.symbols / samples);
	printf("  label sets         %12" PRIu64 " bytes  %7.3f per sample\n", sizes.labels, (double)sizes.labels / samples);
	printf("  all                %12" PRIu64 " bytes  %7.3f per sample; without symbols %.3f\n", sizes.all,
	       (double)sizes.all / samples, (double)(sizes.all - sizes.symbols) / samples);
	printf("  write amplification            %7.3f  (bytes written / level 0 and label sets, both without symbols)\n",
	       ((double)written - (double)sizes.symbols) / (double)(sizes.level[0] + sizes.labels));
	printf("  parents / level 0              %7.3f\n", sizes.level[0] ? parents / (double)sizes.level[0] : 0);
	printf("  CPU per window     mean %.1f ms, median %.1f, p95 %.1f, most %.1f (rows, sets and commit)\n",
	       sum / (double)windows, sorted[windows / 2], sorted[windows * 95 / 100], sorted[windows - 1]);
	printf("  writer resident    %.1f MiB above what the load itself takes\n", grown);
}

static void write_store(const char *dir, const char *kind, uint64_t windows, int64_t seconds, const char *stacks)
{
	static const char *const lost[] = { "lost" }, *const flagged[] = { "idle" };
	const struct store_meta meta = { "bench", "bench", kind, lost, 1, flagged, 1, T0 };
	const struct store_event clock = { "cpu-clock", "nanoseconds", 10101010, 10101010 };
	struct corpus c = { 0 };
	struct load l = { .c = &c, .high = !strcmp(kind, "high"), .samples = strcmp(kind, "thin") ? SAMPLES : 20 };
	l.window_ns = seconds * 1000000000;
	double *ms = need(calloc(2 * windows + 1, sizeof(*ms))), *sorted = ms + windows;
	uint32_t event;
	char id[37];
	memset(ms, 1, 2 * windows * sizeof(*ms)); /* so that it is resident before, as the stacks are */
	stacks && *stacks ? real_stacks(&c, stacks) : made_stacks(&c);
	l.stacks = zipf_new((uint32_t)c.n);
	l.containers = zipf_new(CONTAINERS);
	l.tenants = zipf_new(TENANTS);
	malloc_trim(0);
	double before = resident_mib(), began = wall();
	check(store_writer_open(&c.w, dir, &meta, &err), "open");
	l.w = c.w;
	check(store_add_event(c.w, &clock, &event), "event");
	printf("%zu stacks, %s\n", c.n, stacks && *stacks ? "real" : "made up");
	uint64_t written = self_number("io", "wchar:");
	for (uint64_t i = 0; i < windows; i++) {
		double at = cpu();
		make_window(&l, event);
		commit(&l, i);
		ms[i] = sorted[i] = 1e3 * (cpu() - at);
		if (i <= windows - (windows < 20 ? windows : 20))
			memcpy(id, l.id, sizeof(id));
	}
	double grown = resident_mib() - before;
	store_writer_close(c.w);
	written = self_number("io", "wchar:") - written;
	qsort(sorted, windows, sizeof(*sorted), by_value);
	measure(dir);
	print_write(kind, &l, windows, ms, sorted, written, grown);
	printf("  time               %.0f s for all\n", wall() - began);
	if (l.high) {
		char path[4096];
		snprintf(path, sizeof(path), "%s.id", dir);
		FILE *f = fopen(path, "we");
		if (f) {
			fprintf(f, "%s\n", id);
			fclose(f);
		}
	}
}

/* ---- query ---- */

static int64_t span(const char *name)
{
	static const struct {
		const char *name;
		int64_t s;
	} v[] = { { "10 s", 10 }, { "1 m", 60 }, { "10 m", 600 }, { "1 h", 3600 }, { "6 h", 21600 }, { "24 h", 86400 },
		  { "7 d", 604800 }, { "30 d", 2592000 }, { "1 y", 31536000 } };
	for (size_t i = 0; i < 9; i++)
		if (!strcmp(v[i].name, name))
			return v[i].s * 1000000000;
	return 0;
}

struct timing {
	double query_ms, tree_ms;
	uint64_t blocks, samples;
	size_t nodes;
};

/* CPU time, the best of three: warm, in memory, and whatever else the machine does. */
static struct timing time_query(struct store *s, const struct query_spec *spec, const char *key)
{
	struct timing best = { .query_ms = 1e12 };
	double began = wall();
	for (int i = 0; i < 3 && (!i || wall() - began < 10); i++) {
		struct query *q;
		struct query_table *t = NULL;
		const struct query_node *nodes = NULL;
		size_t n = 0;
		double at = cpu();
		check(query_open(&q, s, spec, &err), "query");
		double mid = cpu();
		if (key)
			check(query_table(q, &key, 1, &t, &err), "table");
		else
			check(query_tree(q, &nodes, &n, &err), "tree");
		double end = cpu();
		if (1e3 * (end - at) < best.query_ms + best.tree_ms)
			best = (struct timing){ 1e3 * (mid - at), 1e3 * (end - mid), query_info(q)->blocks,
						query_info(q)->samples, key ? t->n_rows : n };
		query_table_free(t);
		query_close(q);
	}
	return best;
}

static void print_query(const char *name, const char *what, const struct timing *t)
{
	printf("  %-5s %-22s %9.2f ms = %9.2f + %8.2f  %6" PRIu64 " blocks  %12" PRIu64 " samples  %7zu %s\n", name, what,
	       t->query_ms + t->tree_ms, t->query_ms, t->tree_ms, t->blocks, t->samples, t->nodes,
	       strcmp(what, "flame graph") ? "rows" : "nodes");
	fflush(stdout);
}

static void query_range(struct store *s, const char *name, int64_t from, int64_t to, const char *id)
{
	static const char *const container[] = { "container" }, *const query_id[] = { "query_id" };
	char where[64];
	struct query_spec spec = { .from_ns = from, .to_ns = to, .labels = QUERY_NO_LABELS };
	struct timing t = time_query(s, &spec, NULL);
	print_query(name, "flame graph", &t);
	spec.labels = QUERY_KEYS;
	spec.keys = container;
	spec.n_keys = 1;
	t = time_query(s, &spec, "container");
	print_query(name, "by container", &t);
	if (!*id)
		return;
	snprintf(where, sizeof(where), "query_id=\"%s\"", id);
	spec.where = where;
	spec.keys = query_id;
	t = time_query(s, &spec, "query_id");
	print_query(name, "one query_id", &t);
}

static void time_open(const char *dir)
{
	double ms = 1e12, before = resident_mib(), grown = 0;
	for (int i = 0; i < 3; i++) {
		struct store *s;
		double at = wall();
		check(store_open(&s, dir, &err), "open");
		double took = 1e3 * (wall() - at);
		ms = took < ms ? took : ms;
		grown = i ? grown : resident_mib() - before;
		store_close(s);
	}
	printf("  open               %.1f ms warm, %.1f MiB resident\n", ms, grown);
}

static void time_strings(struct store *s)
{
	uint32_t n = store_n_strings(s), *ids = need(calloc(1 << 20, sizeof(*ids)));
	uint64_t raw = 0, sum = 0;
	for (uint32_t i = 1; i < n; i++) {
		size_t len;
		store_string(s, i, &len);
		raw += len;
	}
	for (size_t i = 0; i < 1 << 20; i++)
		ids[i] = n > 1 ? 1 + draw(n - 1) : 0;
	double at = wall();
	for (size_t i = 0; i < 1 << 20; i++) {
		size_t len;
		sum += (uint8_t)*store_string(s, ids[i], &len) + len;
	}
	double ns = 1e9 * (wall() - at) / (1 << 20);
	printf("  symbol trie        %u strings, %" PRIu64 " bytes of %" PRIu64 " raw: %.3f; id -> string %.1f ns (sum %" PRIu64
	       ")\n", n - 1, sizes.strings, raw, raw ? (double)sizes.strings / (double)raw : 0, ns, sum & 1);
	free(ids);
}

static void query_store(const char *dir)
{
	static const char *const names[] = { "10 s", "1 m", "10 m", "1 h", "6 h", "24 h", "7 d", "30 d", "1 y" };
	struct query_spec all = { .from_ns = INT64_MIN, .to_ns = INT64_MAX, .labels = QUERY_NO_LABELS };
	char id[64] = "", path[4096];
	struct store *s;
	struct query *q;
	snprintf(path, sizeof(path), "%s.id", dir);
	FILE *f = fopen(path, "re");
	if (f && fgets(id, sizeof(id), f))
		id[strcspn(id, "\n")] = 0;
	if (f)
		fclose(f);
	time_open(dir);
	measure(dir);
	check(store_open(&s, dir, &err), "open");
	check(query_open(&q, s, &all, &err), "query");
	int64_t first = query_info(q)->from_ns, last = query_info(q)->to_ns;
	query_close(q);
	time_strings(s);
	puts("  range what                    warm, CPU = query     + tree/table");
	for (size_t i = 0; i < 9; i++) {
		/* Not on a round time: the worst covers begin and end between slots. */
		int64_t to = last - (last - first > span(names[i]) ? 7 * WINDOW_NS : 0), from = to - span(names[i]);
		if (from < first)
			break;
		query_range(s, names[i], from, to, id);
	}
	query_range(s, "all", INT64_MIN, INT64_MAX, id);
	store_close(s);
}

/* ---- cover ---- */

/*
 * The mean and the most of the blocks that random ranges of a length need, for stacks alone and by
 * a narrow key.
 */
static void cover_range(struct store *s, const char *name, int64_t first, int64_t last)
{
	static const char *const container[] = { "container" };
	for (int labels = 0; labels < 2; labels++) {
		uint64_t sum = 0, most = 0, n = 2000;
		double at = cpu();
		for (uint64_t i = 0; i < n; i++) {
			struct store_cover c;
			int64_t from = first + (int64_t)(draw_real() * (double)(last - first - span(name)));
			int64_t to = from + span(name);
			check(store_round(s, &from, &to, &err), "round");
			check(store_cover(s, from, to, labels ? STORE_NARROW_KEYS : STORE_FOLDED, container,
					  labels ? 1 : 0, &c, &err), "cover");
			sum += c.n;
			most = c.n > most ? c.n : most;
			store_cover_free(&c);
		}
		printf("  any %-5s %-13s %5.1f blocks on average, at most %3" PRIu64 " (of %" PRIu64 " ranges, %.2f ms each)\n", name,
		       labels ? "by container" : "stacks", (double)sum / (double)n, most, n, 1e3 * (cpu() - at) / (double)n);
	}
}

static void cover_store(const char *dir)
{
	static const char *const names[] = { "1 h", "24 h", "7 d", "30 d", "1 y" };
	struct query_spec all = { .from_ns = INT64_MIN, .to_ns = INT64_MAX, .labels = QUERY_NO_LABELS };
	struct store *s;
	struct query *q;
	check(store_open(&s, dir, &err), "open");
	check(query_open(&q, s, &all, &err), "query");
	int64_t first = query_info(q)->from_ns, last = query_info(q)->to_ns;
	query_close(q);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (last - first > span(names[i]))
			cover_range(s, names[i], first, last);
	store_close(s);
}

/* ---- compare ---- */

struct blob {
	uint8_t *data;
	size_t len;
};

static size_t gzipped(const char *data, size_t len)
{
	z_stream z = { 0 };
	size_t cap = compressBound(len) + 32, n;
	uint8_t *out = need(malloc(cap));
	if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		check(-ENOMEM, "zlib");
	z.next_in = (Bytef *)data;
	z.avail_in = (uInt)len;
	z.next_out = out;
	z.avail_out = (uInt)cap;
	deflate(&z, Z_FINISH);
	n = z.total_out;
	deflateEnd(&z);
	free(out);
	return n;
}

/* One window as a file of another format; the bytes it takes. */
static size_t window_as(struct store *s, int64_t from, bool pprof, double *ms, uint64_t *rows)
{
	struct query_spec spec = { .from_ns = from, .to_ns = from + WINDOW_NS };
	struct export_source src = { .store = s };
	char *data = NULL;
	size_t len = 0, n;
	check(query_open(&src.query, s, &spec, &err), "query");
	FILE *f = need(open_memstream(&data, &len));
	double at = cpu();
	check((pprof ? export_pprof : export_folded)(&src, EXPORT_BY_EVENT, f, &err), "export");
	fclose(f);
	len = pprof ? len : gzipped(data, len);
	*ms += 1e3 * (cpu() - at);
	free(data);
	query_rows(src.query, &n);
	*rows += n;
	query_close(src.query);
	return len;
}

/* Blobs of the sizes that the store's windows have, of bytes that do not compress: what a block is. */
static struct blob *make_blobs(uint64_t n, size_t bytes)
{
	struct blob *v = need(calloc(n, sizeof(*v)));
	for (uint64_t i = 0; i < n; i++) {
		v[i].len = bytes * (75 + draw(50)) / 100 + 1;
		v[i].data = need(malloc(v[i].len + 8));
		for (size_t k = 0; k < v[i].len; k += 8) {
			uint64_t x = draw64();
			memcpy(v[i].data + k, &x, 8);
		}
	}
	return v;
}

struct substrate {
	double s;
	uint64_t written, size, payload;
};

static void print_substrate(const char *name, const struct substrate *r, uint64_t n, uint64_t live)
{
	printf("  %-28s %7.2f MB for %" PRIu64 " live of %" PRIu64 " blobs, written %5.2fx the payload, %6.2f ms each\n", name,
	       (double)r->size / 1e6, live, n, (double)r->written / (double)r->payload, 1e3 * r->s / (double)n);
}

static void sql(sqlite3 *db, const char *text)
{
	if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK) {
		fprintf(stderr, "bench_store: %s: %s\n", text, sqlite3_errmsg(db));
		exit(1);
	}
}

static struct substrate in_sqlite(const char *dir, const struct blob *v, uint64_t n, uint64_t live)
{
	struct substrate r = { 0 };
	sqlite3 *db;
	sqlite3_stmt *put, *cut;
	char path[4096];
	snprintf(path, sizeof(path), "%s/sqlite", dir);
	if (mkdir(path, 0700))
		check(-errno, path);
	snprintf(path, sizeof(path), "%s/sqlite/db", dir);
	uint64_t before = self_number("io", "wchar:");
	double at = wall();
	if (sqlite3_open(path, &db) != SQLITE_OK)
		check(-EIO, path);
	sql(db, "PRAGMA journal_mode=WAL");
	sql(db, "PRAGMA synchronous=FULL");
	sql(db, "CREATE TABLE blocks (t INTEGER PRIMARY KEY, b BLOB)");
	sqlite3_prepare_v2(db, "INSERT INTO blocks VALUES (?, ?)", -1, &put, NULL);
	sqlite3_prepare_v2(db, "DELETE FROM blocks WHERE t < ?", -1, &cut, NULL);
	for (uint64_t i = 0; i < n; i++) {
		sql(db, "BEGIN");
		sqlite3_bind_int64(put, 1, (sqlite3_int64)i);
		sqlite3_bind_blob(put, 2, v[i].data, (int)v[i].len, SQLITE_STATIC);
		sqlite3_bind_int64(cut, 1, (sqlite3_int64)(i > live ? i - live : 0));
		if (sqlite3_step(put) != SQLITE_DONE || sqlite3_step(cut) != SQLITE_DONE)
			check(-EIO, "sqlite");
		sqlite3_reset(put);
		sqlite3_reset(cut);
		sql(db, "COMMIT");
		r.payload += v[i].len;
	}
	sqlite3_finalize(put);
	sqlite3_finalize(cut);
	r.s = wall() - at;
	snprintf(path, sizeof(path), "%s/sqlite", dir);
	measure(path); /* with its log, as it is while in use */
	r.size = sizes.all;
	sqlite3_close(db);
	r.written = self_number("io", "wchar:") - before;
	return r;
}

static void lmdb(int rc)
{
	if (!rc)
		return;
	fprintf(stderr, "bench_store: lmdb: %s\n", mdb_strerror(rc));
	exit(1);
}

static struct substrate in_lmdb(const char *dir, const struct blob *v, uint64_t n, uint64_t live)
{
	struct substrate r = { 0 };
	MDB_env *env;
	MDB_dbi dbi = 0;
	char path[4096];
	snprintf(path, sizeof(path), "%s/lmdb", dir);
	if (mkdir(path, 0700))
		check(-errno, path);
	uint64_t before = self_number("io", "wchar:");
	double at = wall();
	lmdb(mdb_env_create(&env));
	lmdb(mdb_env_set_mapsize(env, (size_t)8 << 30));
	lmdb(mdb_env_open(env, path, 0, 0600));
	for (uint64_t i = 0; i < n; i++) {
		MDB_txn *txn;
		uint64_t key = i, old = i - live;
		MDB_val k = { sizeof(key), &key }, d = { v[i].len, v[i].data }, o = { sizeof(old), &old };
		lmdb(mdb_txn_begin(env, NULL, 0, &txn));
		if (!i)
			lmdb(mdb_dbi_open(txn, NULL, MDB_INTEGERKEY, &dbi));
		lmdb(mdb_put(txn, dbi, &k, &d, MDB_APPEND));
		if (i >= live)
			lmdb(mdb_del(txn, dbi, &o, NULL));
		lmdb(mdb_txn_commit(txn));
		r.payload += v[i].len;
	}
	r.s = wall() - at;
	measure(path);
	r.size = sizes.all;
	mdb_env_close(env);
	r.written = self_number("io", "wchar:") - before;
	return r;
}

/* What the store does with a block: append and sync; here without the block's making. */
static struct substrate in_files(const char *dir, const struct blob *v, uint64_t n, uint64_t live)
{
	struct substrate r = { 0 };
	char path[4096];
	uint64_t before = self_number("io", "wchar:"), per = live / 8 ? live / 8 : 1;
	double at = wall();
	int fd = -1;
	snprintf(path, sizeof(path), "%s/files", dir);
	if (mkdir(path, 0700))
		check(-errno, path);
	for (uint64_t i = 0; i < n; i++) {
		if (i % per == 0) {
			if (fd >= 0)
				close(fd);
			snprintf(path, sizeof(path), "%s/files/%" PRIu64, dir, i / per);
			fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
			snprintf(path, sizeof(path), "%s/files/%" PRIu64, dir, i / per - live / per - 1);
			if (i / per > live / per)
				unlink(path);
		}
		if (write(fd, v[i].data, v[i].len) != (ssize_t)v[i].len || fdatasync(fd))
			check(-EIO, "append");
		r.payload += v[i].len;
	}
	close(fd);
	r.s = wall() - at;
	snprintf(path, sizeof(path), "%s/files", dir);
	measure(path);
	r.size = sizes.all;
	r.written = self_number("io", "wchar:") - before;
	return r;
}

static void compare(const char *dir, const char *scratch, uint64_t windows)
{
	struct store *s;
	uint64_t n_pprof = 0, n_folded = 0, n_blobs = 400, live = 100, rows = 0;
	double pprof_ms = 0, folded_ms = 0;
	measure(dir);
	uint64_t level0 = sizes.level[0];
	check(store_open(&s, dir, &err), "open");
	struct query_spec all = { .from_ns = INT64_MIN, .to_ns = INT64_MAX, .labels = QUERY_NO_LABELS };
	struct query *q;
	check(query_open(&q, s, &all, &err), "query");
	uint64_t have = query_info(q)->windows;
	query_close(q);
	windows = windows < have ? windows : have;
	for (uint64_t i = 0; i < windows; i++) {
		n_pprof += window_as(s, T0 + (int64_t)i * WINDOW_NS, true, &pprof_ms, &rows);
		n_folded += window_as(s, T0 + (int64_t)i * WINDOW_NS, false, &folded_ms, &rows);
	}
	store_close(s);
	double samples = (double)windows * SAMPLES;
	printf("  rows per window    %" PRIu64 "\n", rows / (2 * windows));
	printf("  pprof.gz           %7.3f bytes per sample, %5.1f ms per window (of %" PRIu64 " windows)\n", (double)n_pprof / samples,
	       pprof_ms / (double)windows, windows);
	printf("  folded.gz          %7.3f bytes per sample, %5.1f ms per window%s\n", (double)n_folded / samples,
	       folded_ms / (double)windows, " (labels but comm are not in it)");
	struct blob *v = make_blobs(n_blobs, (size_t)(level0 / (have ? have : 1)));
	struct substrate r = in_files(scratch, v, n_blobs, live);
	printf("  blobs of the size of our blocks, %.1f KB, each synced, on %s:\n", (double)r.payload / (double)n_blobs / 1e3, scratch);
	print_substrate("append, unlink (as we do)", &r, n_blobs, live);
	r = in_sqlite(scratch, v, n_blobs, live);
	print_substrate("SQLite, WAL, FULL", &r, n_blobs, live);
	r = in_lmdb(scratch, v, n_blobs, live);
	print_substrate("LMDB", &r, n_blobs, live);
	for (uint64_t i = 0; i < n_blobs; i++)
		free(v[i].data);
	free(v);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc >= 6 && !strcmp(argv[1], "write") && atoll(argv[4]) > 0 && atoll(argv[5]) > 0)
		write_store(argv[2], argv[3], (uint64_t)atoll(argv[4]), atoll(argv[5]), argc > 6 ? argv[6] : NULL);
	else if (argc == 3 && !strcmp(argv[1], "cover"))
		cover_store(argv[2]);
	else if (argc == 3 && !strcmp(argv[1], "query"))
		query_store(argv[2]);
	else if (argc == 5 && !strcmp(argv[1], "compare") && atoll(argv[4]) > 0)
		compare(argv[2], argv[3], (uint64_t)atoll(argv[4]));
	else
		return fputs("usage: see the head of bench_store.c\n", stderr), 2;
	return 0;
}
