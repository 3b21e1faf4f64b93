/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mkstore DIR [host|empty|wide|crowd|long|cut|grow|drip|names [HOST]]: a synthetic store, and on
 * stdout what is in it, as JSON: the oracle of tests/cli.
 *
 *   host   3 windows, 2 CPUs, two events, idle samples, losses, tenants a, b, c; names made to
 *          break formats
 *   empty  no window
 *   wide   one window, a tree of some 100,000 nodes, up to 200 frames deep
 *   crowd  one window of 100,000 rows: 20,000 stacks of 30 frames, 50 label sets; at this moment
 *   long   1,200 windows, a minute apart, with parents; query_id has some 80 values in each, one of
 *          them always the same
 *   cut    900 windows, a day apart, of which a cap on bytes leaves the last year
 *   grow   300 windows at about 100 a second: something to read while it is written
 *   drip   60 windows, four a second, the newest of them now
 *   names  names and label values that are as long as they can be, turn the direction of text, have
 *          control characters or markup
 */
#include "store/store.h"
#include "store/writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define T0 1777629600000000000ll /* 2026-05-01T10:00:00Z */
#define WINDOW 10000000000ll
#define N_WINDOWS 3

static const char *const lost_names[] = {
#define LOST(id, help) #id,
#define FLAG(id, help)
#include "counters.def"
#undef LOST
#undef FLAG
};
static const char *const flagged_names[] = {
#define LOST(id, help)
#define FLAG(id, help) #id,
#include "counters.def"
#undef LOST
#undef FLAG
};

#define N_LOST (sizeof(lost_names) / sizeof(lost_names[0]))
#define N_FLAGGED (sizeof(flagged_names) / sizeof(flagged_names[0]))

static struct store_writer *w;
static struct err err;

static void check(int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "mkstore: %s: %s (%s)\n", what, err.text, strerror(-rc));
	exit(1);
}

/* A fixed sequence: the same store every time. */
static uint32_t draw(uint32_t below)
{
	static uint64_t state = 42;
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(state >> 33) % below;
}

static uint32_t string(const char *s)
{
	uint32_t id;
	check(store_add_string(w, s, strlen(s), &id), "string");
	return id;
}

static uint32_t frame_at(enum frame_kind kind, const char *function, const char *module,
			 const char *file, uint32_t line, uint64_t offset, uint32_t flags)
{
	struct store_frame f = { .kind = kind,
				 .flags = flags,
				 .function = function ? string(function) : 0,
				 .module = string(module),
				 .file = string(file),
				 .line = line,
				 .offset = offset };
	uint32_t id;
	if (module[0] == '/')
		f.build_id = string("0123456789abcdef0123456789abcdef01234567");
	check(store_add_frame(w, &f, &id), "frame");
	return id;
}

static uint32_t frame(enum frame_kind kind, const char *function, const char *module)
{
	return frame_at(kind, function, module, "", 0, 0, 0);
}

static uint32_t push(uint32_t stack, uint32_t f)
{
	uint32_t id;
	check(store_add_stack(w, stack, f, &id), "stack");
	return id;
}

static struct label text_label(const char *key, const char *value)
{
	return (struct label){ .key = key,
			       .key_len = (uint32_t)strlen(key),
			       .str = value,
			       .str_len = (uint32_t)strlen(value),
			       .type = LABEL_STRING };
}

static uint32_t set(const char *comm, const char *tenant, int64_t query)
{
	struct label l[4];
	size_t n = 0;
	uint32_t id;
	l[n++] = text_label("comm", comm);
	l[n++] = text_label("thread", "worker");
	if (tenant)
		l[n++] = text_label("tenant", tenant);
	if (query >= 0)
		l[n++] = (struct label){
			.key = "query_id", .key_len = 8, .num = query, .type = LABEL_INT
		};
	n = labels_normalize(l, n);
	check(store_add_set(w, l, n, &id), "set");
	return id;
}

static uint32_t event(const char *name, const char *unit, uint64_t ns, uint64_t period)
{
	struct store_event e = { name, unit, ns, period };
	uint32_t id;
	check(store_add_event(w, &e, &id), "event");
	return id;
}

static struct {
	uint64_t samples, stored, fired, lost, idle, tenant[3], none, faults;
} sums;

static void row(uint32_t s, uint32_t stack, uint32_t e, uint64_t n, uint64_t value)
{
	check(store_add_row(w, s, stack, e, n, value), "row");
	sums.stored += n;
}

static void flag(uint64_t *flagged, const char *name, uint64_t n)
{
	for (size_t i = 0; i < N_FLAGGED; i++)
		if (!strcmp(flagged_names[i], name))
			flagged[i] = n;
}

/* Two CPUs share what the window stored, a part of it waits; the first loses some. */
static void commit_at(int64_t t0, uint64_t stored, uint64_t lost, uint64_t idle)
{
	uint64_t lost0[N_LOST] = { lost, lost / 2 }, lost1[N_LOST] = { 0 };
	uint64_t flagged0[N_FLAGGED] = { idle, 0, 1, 0, 5 }, flagged1[N_FLAGGED] = { 0 };
	flag(flagged0, "waits", stored / 4);
	flag(flagged0, "wait_summed", stored / 8);
	flag(flagged0, "wait_parts_full", 3 * stored);
	struct store_cpu_totals cpu[2] = {
		{ 0, stored / 2 + lost + lost / 2, stored / 2, lost0, flagged0 },
		{ 1, stored - stored / 2, stored - stored / 2, lost1, flagged1 },
	};
	struct store_totals t = { cpu, 2, 7, 2000000, 20 << 20 };
	check(store_commit_window(w, t0, t0 + WINDOW, 1000 * WINDOW + t0 - T0, &t, &err), "commit");
	sums.fired += cpu[0].fired + cpu[1].fired;
	sums.lost += lost + lost / 2;
}

static void commit(int i, uint64_t stored, uint64_t lost, uint64_t idle)
{
	commit_at(T0 + i * WINDOW, stored, lost, idle);
}

/* Function names as programs have them, and some that no program should have. */
static const char *const functions[] = {
	"main",
	"serve_request(request const&)",
	"std::vector<std::pair<std::string, int>>::push_back(value_type&&)",
	"compress_block",
	"deflate_slow",
	"hash_lookup",
	"qsort_r",
	"parse;with;semicolons",
	"</script><script>document.title='injected'</script>",
	"<img src=x onerror=document.title='injected'>",
	"line\nbreak\tand \033[31mescape",
	"bad utf-8 \xff\xfe\xc0\x80",
	"\"quoted\" & 'single' \\ back",
	"\xe2\x80\xa8 separator \xe5\x90\x8d\xe5\x89\x8d \xf0\x9f\x94\xa5",
	"<!--",
	"regex_match",
	"memcpy",
	"read_row",
};

#define N_FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

static uint32_t random_stack(size_t depth)
{
	static const char *const modules[] = { "/usr/bin/server",
					       "/usr/lib/x86_64-linux-gnu/libc.so.6",
					       "/usr/lib/libz.so.1", "[jit]" };
	uint32_t s = push(0, frame(FRAME_USER, "_start", "/usr/bin/server"));
	s = push(s, frame_at(FRAME_USER, "main", "/usr/bin/server", "server.c", 12, 0, 0));
	for (size_t i = 0; i < depth; i++) {
		size_t f = draw(draw(2) ? 6 : N_FUNCTIONS);
		s = push(s, frame(FRAME_USER, functions[f], modules[f % 4]));
	}
	if (draw(4) == 0) {
		s = push(s, frame_at(FRAME_USER, "outer", "/usr/bin/server", "server.c", 40, 0, 0));
		s = push(s, frame_at(FRAME_USER, "inner", "/usr/bin/server", "server.h", 7, 0,
				     FRAME_INLINED));
	} else if (draw(3) == 0) {
		s = push(s, frame_at(FRAME_USER, NULL, "/opt/stripped/libsecret.so", "", 0,
				     0x1234 + draw(4) * 16, 0));
	} else if (draw(2) == 0) {
		s = push(s, frame(FRAME_KERNEL, "entry_SYSCALL_64_after_hwframe", "[kernel]"));
		s = push(s, frame(FRAME_KERNEL, "do_syscall_64", "[kernel]"));
		s = push(s, frame(FRAME_KERNEL, draw(2) ? "vfs_read" : "ext4_file_write_iter",
				  draw(2) ? "[kernel]" : "[ext4]"));
	}
	return s;
}

static void host_window(int i, uint32_t clock, uint32_t faults)
{
	static const char *const tenants[] = { "a", "b", "<script>alert(1)</script>" };
	uint64_t before = sums.stored, idle = 400 + 10u * (unsigned)i;
	for (int k = 0; k < 300; k++) {
		size_t t = draw(4) ? draw(2) ? 0 : 1 : 2;
		uint64_t n = 1 + draw(4);
		row(set("server", tenants[t], k % 5 ? (int64_t)draw(40) : -1),
		    random_stack(draw(12)), clock, n, n * 10101010);
		sums.samples += n;
		sums.tenant[t] += n;
	}
	for (int k = 0; k < 40; k++) {
		uint64_t n = 1 + draw(3);
		row(set(k % 2 ? "kworker/0:1" : "evil;comm\n", k % 3 ? NULL : "", -1),
		    random_stack(draw(3)), clock, n, n * 10101010);
		sums.samples += n;
		sums.none += k % 3 ? n : 0;
		row(set("server", "a", 0), random_stack(2), faults, n, n);
		sums.faults += n;
	}
	row(set("swapper", NULL, -1), push(0, frame(FRAME_IDLE, "[idle]", "[kernel]")), clock, idle,
	    idle * 10101010);
	sums.idle += idle;
	commit(i, sums.stored - before, 11 + (unsigned)i, idle);
}

static void host(void)
{
	uint32_t clock = event("cpu-clock", "nanoseconds", 10101010, 10101010);
	uint32_t faults = event("page-faults", "count", 0, 1);
	for (int i = 0; i < N_WINDOWS; i++)
		host_window(i, clock, faults);
}

static void wide(void)
{
	uint32_t clock = event("cpu-clock", "nanoseconds", 10101010, 10101010);
	for (int k = 0; k < 6000; k++) {
		uint32_t s = random_stack(draw(3));
		size_t depth = k ? draw(30) : 200;
		for (size_t i = 0; i < depth; i++) {
			char name[40];
			snprintf(name, sizeof(name), "f%u", draw(5000));
			s = push(s, frame(FRAME_USER, name, "/usr/bin/big"));
		}
		row(set("big", NULL, -1), s, clock, k % 100 ? 1u : 500u, 0);
		sums.samples += k % 100 ? 1u : 500u;
	}
	commit(0, sums.stored, 0, 0);
}

static void grow(void)
{
	uint32_t clock = event("cpu-clock", "nanoseconds", 10101010, 10101010);
	for (int i = 0; i < 300; i++) {
		uint64_t before = sums.stored;
		for (int k = 0; k < 40; k++) {
			char comm[24];
			snprintf(comm, sizeof(comm), "comm%d", (int)draw(10 + (uint32_t)i));
			row(set(comm, "a", (int64_t)draw(1000)), random_stack(draw(12)), clock,
			    1 + draw(9), 0);
		}
		sums.samples += sums.stored - before;
		commit(i, sums.stored - before, (uint64_t)i % 7, 0);
		usleep(8000);
	}
}

static void drip(void)
{
	uint32_t clock = event("cpu-clock", "nanoseconds", 10101010, 10101010);
	int64_t begin = (int64_t)time(NULL) / 10 * WINDOW - 60 * WINDOW;
	for (int i = 0; i < 60; i++) {
		uint64_t before = sums.stored;
		row(set("server", "a", i), random_stack(draw(12)), clock, 100, 0);
		sums.samples += sums.stored - before;
		commit_at(begin + i * WINDOW, sums.stored - before, 0, 0);
		usleep(250000);
	}
}

static void names(void)
{
	static char longest[65001];
	uint32_t clock = event("cpu-clock", "nanoseconds", 10101010, 10101010);
	const char *const values[] = { "\xe2\x80\xae"
				       "drawkcab",
				       "</script><script>alert(1)</script>",
				       "\x01\x02\x1b[2Jcontrol\r\n",
				       "\"><img src=x onerror=alert(2)>",
				       "",
				       "bad \xff\xfe",
				       "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d",
				       "javascript:alert(3)",
				       "a\\b\"c'd`e",
				       "{x=\"y\"}",
				       longest };
	memset(longest, 'x', sizeof(longest) - 1);
	for (uint32_t k = 0; k < 200; k++) {
		const char *v = values[k % 11];
		uint32_t s = push(0, frame(FRAME_USER, v[0] ? v : "empty", "/usr/bin/<b>bold</b>"));
		s = push(s, frame(FRAME_USER, values[k / 11 % 11], v[0] ? v : "/usr/bin/x"));
		row(set(k % 3 ? "\xe2\x81\xa7"
				"comm"
			      : "<i>comm</i>",
			v, -1),
		    s, clock, 1 + k % 7, 0);
	}
	sums.samples = sums.stored;
	commit(0, sums.stored, 3, 0);
}

static void spread(int n, int64_t apart, int queries)
{
	uint32_t clock = event("cpu-clock", "nanoseconds", 10101010, 10101010);
	for (int i = 0; i < n; i++) {
		uint64_t before = sums.stored;
		for (int k = 0; k < queries; k++) {
			int64_t query = k ? (int64_t)i * 1000 + (int64_t)draw(1000) : 7;
			row(set(k % 2 ? "postgres" : "nginx", "a", query), random_stack(draw(12)),
			    clock, k ? 1 + draw(9) : 20, 0);
		}
		sums.samples += sums.stored - before;
		commit_at(T0 + i * apart, sums.stored - before, 0, 0);
	}
}

/*
 * Half an hour, in the last five minutes of which tenant b of the server renders reports; a gap of
 * two windows.
 */
static void incident(void)
{
	uint32_t clock = event("cpu-clock", "nanoseconds", 10101010, 10101010);
	for (int i = 0; i < 180; i++) {
		uint64_t before = sums.stored;
		uint32_t work = push(push(0, frame(FRAME_USER, "main", "/usr/bin/server")),
				     frame(FRAME_USER, "serve", "/usr/bin/server"));
		uint32_t reports =
			push(work, frame(FRAME_USER, "render_report", "/usr/bin/server"));
		if (i == 120 || i == 121)
			continue;
		row(set("server", "a", -1), work, clock, 90 + draw(20), 0);
		row(set("server", "b", -1), i < 150 ? work : reports, clock,
		    (i < 150 ? 90 : 790) + draw(20), 0);
		row(set("postgres", "a", -1), random_stack(3), clock, 180 + draw(40), 0);
		sums.samples += sums.stored - before;
		commit_at(T0 + i * WINDOW, sums.stored - before, 0, 0);
	}
}

static void crowd(void)
{
	enum { STACKS = 20000, SETS = 50, ROWS_OF_STACK = 5, DEPTH = 30 };
	const int64_t now = (int64_t)time(NULL) * 1000000000;
	uint32_t clock = event("cpu-clock", "nanoseconds", 10101010, 10101010), sets[SETS];
	for (int i = 0; i < SETS; i++)
		sets[i] = set("crowd", i % 2 ? "a" : "b", i);
	for (int k = 0; k < STACKS; k++) {
		uint32_t s = 0;
		for (int d = 0; d < DEPTH; d++) {
			char name[40];
			/* As in programs: wide near the leaf. */
			snprintf(name, sizeof(name), "crowd_function_%d_%d", d,
				 k / ((STACKS >> d / 2) + 1));
			s = push(s, frame(FRAME_USER, name, "/usr/bin/crowd"));
		}
		char leaf[40];
		snprintf(leaf, sizeof(leaf), "leaf_%d", k);
		s = push(s, frame(FRAME_USER, leaf, "/usr/bin/crowd"));
		for (int i = 0; i < ROWS_OF_STACK; i++)
			row(sets[(k + i * 7) % SETS], s, clock, 1 + draw(3), 10101010);
	}
	commit_at(now - WINDOW, sums.stored, 0, 0);
}

int main(int argc, char **argv)
{
	const char *kind = argc > 2 ? argv[2] : "host";
	const struct store_meta meta = {
		.host = argc > 3 ? argv[3] : "test\033[31mhost\xff",
		.os = "Linux 6.1.0 x86_64",
		.what = "all processes, cpu-clock at 99 Hz",
		.lost_names = lost_names,
		.n_lost = N_LOST,
		.flagged_names = flagged_names,
		.n_flagged = N_FLAGGED,
		.created_ns = T0,
	};
	struct store_options options;
	if (argc < 2 || argv[1][0] == '-')
		return 2;
	store_options_default(&options);
	options.max_bytes = !strcmp(kind, "cut");
	check(store_writer_open_with(&w, argv[1], &meta, &options, &err), "open");
	if (!strcmp(kind, "host"))
		host();
	else if (!strcmp(kind, "wide"))
		wide();
	else if (!strcmp(kind, "crowd"))
		crowd();
	else if (!strcmp(kind, "long"))
		spread(1200, 6 * WINDOW, 80);
	else if (!strcmp(kind, "cut"))
		spread(900, 8640 * WINDOW, 5);
	else if (!strcmp(kind, "grow"))
		grow();
	else if (!strcmp(kind, "drip"))
		drip();
	else if (!strcmp(kind, "incident"))
		incident();
	else if (!strcmp(kind, "names"))
		names();
	store_writer_close(w);
	printf("{\"samples\":%llu,\"stored\":%llu,\"fired\":%llu,\"lost\":%llu,\"idle\":%llu,\"faults\":%llu,"
	       "\"a\":%llu,\"b\":%llu,\"c\":%llu,\"none\":%llu}\n",
	       (unsigned long long)sums.samples, (unsigned long long)sums.stored,
	       (unsigned long long)sums.fired, (unsigned long long)sums.lost,
	       (unsigned long long)sums.idle, (unsigned long long)sums.faults,
	       (unsigned long long)sums.tenant[0], (unsigned long long)sums.tenant[1],
	       (unsigned long long)sums.tenant[2], (unsigned long long)sums.none);
	return 0;
}
