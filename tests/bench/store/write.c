/* SPDX-License-Identifier: Apache-2.0 */
/* Write a store of a generated load. */
#include "bench_store.h"
#include "store/writer.h"

static struct label text(const char *key, const char *value)
{
	return (struct label){ .key = key,
			       .key_len = (uint32_t)strlen(key),
			       .str = value,
			       .str_len = (uint32_t)strlen(value),
			       .type = LABEL_STRING };
}

static void uuid(char *out)
{
	uint64_t a = draw64(), b = draw64();
	snprintf(out, 37, "%08x-%04x-4%03x-%04x-%012" PRIx64, (uint32_t)(a >> 32),
		 (uint32_t)a >> 16, (uint32_t)a & 0xfff, (uint32_t)(b >> 48 & 0x3fff) | 0x8000,
		 b & 0xffffffffffff);
}

struct load {
	struct store_writer *w;
	const struct corpus *c;
	struct zipf stacks, containers, tenants;
	bool high;
	struct recorded *recorded; /* [n_recorded] real: the windows, in turns */
	size_t n_recorded;
	uint32_t samples; /* of a window */
	int64_t window_ns;
	uint32_t n_containers, n_queries, *sets;
	char id[37]; /* of one query of the newest window */
};

static void make_sets(struct load *l)
{
	char container[16], tenant[16], id[37];
	struct label v[3];
	for (uint32_t i = 0; i < (l->high ? l->n_queries : l->n_containers); i++) {
		size_t n = 0;
		snprintf(container, sizeof(container), "%012x",
			 0x9e3779b1u * (l->high ? zipf_draw(&l->containers) : i));
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

/* A stack has its samples in one container: the one it is at home in. */
static void replay_window(struct load *l, uint32_t event, const struct recorded *r)
{
	make_sets(l);
	l->samples = 0;
	for (size_t i = 0; i < r->n; i++) {
		uint32_t set =
			(uint32_t)((uint64_t)(r->v[i].stack * 0x9e3779b1u) * l->n_containers >> 32);
		l->samples += r->v[i].samples;
		check(store_add_row(l->w, l->sets[set], stack_id(l->c, r->v[i].stack), event,
				    r->v[i].samples, 10101010ull * r->v[i].samples),
		      "row");
	}
}

static void make_window(struct load *l, uint32_t event)
{
	uint32_t home[QUERIES_MAX];
	make_sets(l);
	for (uint32_t i = 0; i < l->n_queries; i++)
		home[i] = zipf_draw(&l->stacks);
	for (uint32_t i = 0; i < l->samples; i++) {
		uint32_t stack = zipf_draw(&l->stacks), set;
		if (l->high) {
			set = draw(l->n_queries);
			stack = draw_real() < HIGH_HOME ? home[set] : stack;
		} else {
			set = draw_real() < LOW_HOME ? (uint32_t)((uint64_t)(stack * 0x9e3779b1u) *
									  l->n_containers >>
								  32)
						     : zipf_draw(&l->containers);
		}
		check(store_add_row(l->w, l->sets[set], stack_id(l->c, stack), event, 1, 10101010),
		      "row");
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
	check(store_commit_window(l->w, t0, t0 + l->window_ns, (int64_t)(i + 1) * l->window_ns, &t,
				  &err),
	      "commit");
}

/* Begin a new file where one is due, as the recorder does: all ids are void then. */
static void renew(struct load *l, const struct store_event *event, uint32_t *ret_event)
{
	if (!store_renew(l->w))
		return;
	memset(l->c->ids, 0, l->c->n * sizeof(*l->c->ids));
	check(store_add_event(l->w, event, ret_event), "event");
	store_renew_end(l->w);
}

static uint64_t size_of(const char *dir)
{
	measure(dir);
	return sizes.all;
}

/* The script that runs this says which load it was. */
static void tell(const char *name, double v)
{
	char id[64];
	snprintf(id, sizeof(id), "W/%s", name);
	figure(id, "ascribe", &v, 1, 1);
}

static void print_write(const char *kind, const struct load *l, uint64_t windows, double samples,
			const double *ms, const double *sorted, uint64_t written, double grown)
{
	double sum = 0, parents = 0;
	for (uint64_t i = 0; i < windows; i++)
		sum += ms[i];
	printf("%s: %" PRIu64 " windows of %.0f s (%.1f h), %.0f samples\n", kind, windows,
	       (double)l->window_ns / 1e9, (double)windows * (double)l->window_ns / 3.6e12,
	       samples);
	for (int k = 0; k < N_LEVELS; k++) {
		if (sizes.level[k])
			printf("  level %d %-10.*s %12" PRIu64 " bytes  %7.3f per sample\n", k,
			       (int)strlen(level_names[k]) - 1, level_names[k], sizes.level[k],
			       (double)sizes.level[k] / samples);
		parents += k ? (double)sizes.level[k] : 0;
	}
	printf("  parents / level 0              %7.3f\n",
	       sizes.level[0] ? parents / (double)sizes.level[0] : 0);
	printf("  CPU per window     median %.1f ms, p95 %.1f (rows, sets and commit)\n",
	       sorted[windows / 2], sorted[windows * 95 / 100]);
	tell("bytes", (double)sizes.all / samples);
	tell("written", (double)written / (double)sizes.level[0]);
	tell("window", sum / (double)windows);
	tell("commit", sorted[windows - 1]);
	tell("writer", grown);
}

void write_store(const char *dir, const char *kind, uint64_t windows, int64_t seconds,
		 const char *stacks)
{
	static const char *const lost[] = { "lost" }, *const flagged[] = { "idle" };
	const struct store_meta meta = { "bench", "bench", kind, lost, 1, flagged, 1, T0 };
	const struct store_event clock = { "cpu-clock", "nanoseconds", 10101010, 10101010 };
	struct corpus c = { 0 };
	struct load l = { .c = &c,
			  .high = !strcmp(kind, "high"),
			  .samples = strcmp(kind, "thin") ? SAMPLES : 20 };
	l.window_ns = seconds * 1000000000;
	bool real = !strcmp(kind, "real");
	double samples = 0, *ms = need(calloc(2 * windows + 1, sizeof(*ms))),
	       *sorted = ms + windows;
	uint64_t largest = 0;
	uint32_t event, want = setting("N_STACKS", real ? UINT32_MAX : 34670);
	char id[37];
	/* So that it is resident before, as the stacks are */
	memset(ms, 1, 2 * windows * sizeof(*ms));
	stacks && *stacks ? real_stacks(&c, stacks, want) : made_stacks(&c, want);
	if (real)
		l.n_recorded = real_windows(&c, stacks, &l.recorded);
	l.stacks = zipf_new((uint32_t)c.n);
	l.n_containers = setting("CONTAINERS", 64);
	l.n_queries = setting("QUERIES", QUERIES_MAX);
	if (l.n_queries > QUERIES_MAX)
		l.n_queries = QUERIES_MAX;
	l.containers = zipf_new(l.n_containers);
	l.sets = need(calloc(QUERIES_MAX + l.n_containers, sizeof(*l.sets)));
	l.tenants = zipf_new(TENANTS);
	malloc_trim(0);
	double before = resident_mib(), began = wall();
	struct store_options options;
	store_options_default(&options);
	options.max_bytes = (uint64_t)setting("CAP_MIB", 0) << 20;
	check(store_writer_open_with(&c.w, dir, &meta, &options, &err), "open");
	l.w = c.w;
	check(store_add_event(c.w, &clock, &event), "event");
	printf("%zu stacks, %s\n", c.n, stacks && *stacks ? "real" : "made up");
	uint64_t written = self_number("io", "wchar:");
	for (uint64_t i = 0; i < windows; i++) {
		double at = cpu();
		if (l.n_recorded)
			replay_window(&l, event, &l.recorded[i % l.n_recorded]);
		else
			make_window(&l, event);
		samples += l.samples;
		commit(&l, i);
		renew(&l, &clock, &event);
		ms[i] = sorted[i] = 1e3 * (cpu() - at);
		uint64_t now = options.max_bytes ? size_of(dir) : 0;
		largest = now > largest ? now : largest;
		if (i <= windows - (windows < 20 ? windows : 20))
			memcpy(id, l.id, sizeof(id));
	}
	double grown = resident_mib() - before;
	store_writer_close(c.w);
	written = self_number("io", "wchar:") - written;
	qsort(sorted, windows, sizeof(*sorted), by_value);
	measure(dir);
	print_write(kind, &l, windows, samples, ms, sorted, written, grown);
	if (options.max_bytes)
		tell("cap", 100.0 * (double)largest / (double)options.max_bytes);
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
