/* SPDX-License-Identifier: Apache-2.0 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "toggle.h"
#include "wire.h"
#include "bench.skel.h"
#include "sample.skel.h"

#define WINDOW_NS 30000000
#define SETTLE_NS 1000000
#define PAIRS_MAX 100000

void die(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
	exit(1);
}

static int data_fd = -1; /* the recorder's variables */
static struct bench_bpf *nothing;

/* The variables of a recorder's programs: a map of its own of that name and size. */
static int find_data(const char *tgid)
{
	char path[64], line[128];
	for (int i = 3; i < 4096; i++) {
		unsigned id = 0;
		struct bpf_map_info info = { 0 };
		__u32 size = sizeof(info);
		snprintf(path, sizeof(path), "/proc/%s/fdinfo/%d", tgid, i);
		FILE *f = fopen(path, "r");
		while (f && fgets(line, sizeof(line), f))
			sscanf(line, "map_id: %u", &id);
		if (f)
			fclose(f);
		int fd = id ? bpf_map_get_fd_by_id(id) : -1;
		if (fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &size) &&
		    !strcmp(info.name, "sample_b.data") &&
		    info.value_size == sizeof(struct sample_bpf__data))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	die(tgid, "no such recorder; start it with --wall, and use the one of this build");
}

static void set(bool on)
{
	struct sample_bpf__data data;
	__u32 zero = 0;
	if (nothing && on) {
		nothing->links.on_nothing = bpf_program__attach(nothing->progs.on_nothing);
		if (!nothing->links.on_nothing)
			die("sched_switch", "no program can be attached");
	} else if (nothing) {
		bpf_link__destroy(nothing->links.on_nothing);
		nothing->links.on_nothing = NULL;
	} else {
		if (bpf_map_lookup_elem(data_fd, &zero, &data))
			die("recorder", "its variables cannot be read");
		data.waits_until = on ? ~0ull : 0;
		if (bpf_map_update_elem(data_fd, &zero, &data, 0))
			die("recorder", "its variables cannot be written");
	}
}

static void open_nothing(void)
{
	struct bpf_program *p;
	nothing = bench_bpf__open();
	if (!nothing)
		die("program", "cannot be opened");
	bpf_object__for_each_program(p, nothing->obj)
		bpf_program__set_autoload(p, p == nothing->progs.on_nothing);
	if (bench_bpf__load(nothing))
		die("program", "cannot be loaded; are you root?");
}

/* ---- pairs of windows ---- */

static void wait_ns(long ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

/* CPU nanoseconds for each thing done; 0: there was none. */
static double window(struct reading (*look)(void), bool on)
{
	set(on);
	wait_ns(SETTLE_NS);
	struct reading a = look();
	wait_ns(WINDOW_NS);
	struct reading b = look();
	return b.done > a.done ? (b.ns - a.ns) / (b.done - a.done) : 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare);
	return n ? v[n / 2] : 0;
}

void toggle(const char *what, double seconds, struct reading (*look)(void))
{
	static double v[2][PAIRS_MAX], more[PAIRS_MAX];
	size_t n = 0;
	if (strcmp(what, "nothing"))
		data_fd = find_data(what);
	else
		open_nothing();
	time_t end = time(NULL) + (time_t)seconds;
	for (bool first = false; time(NULL) < end && n < PAIRS_MAX; first = !first) {
		double a = window(look, first), b = window(look, !first);
		if (a <= 0 || b <= 0)
			continue;
		v[first][n] = a;
		v[!first][n] = b;
		more[n] = v[true][n] - v[false][n];
		n++;
	}
	set(!nothing); /* the recorder goes on */
	double off = median(v[false], n), on = median(v[true], n), middle = median(more, n);
	/* The standard error of a median, of what is distributed as its middle half says. */
	double error = n ? (more[n * 3 / 4] - more[n / 4]) / 1.349 * 1.253 / sqrt((double)n) : 0;
	printf("{\"off\":%.0f,\"on\":%.0f,\"more\":%.1f,\"percent\":%.2f,\"error\":%.2f,\"windows\":%zu}\n",
	       off, on, middle, 100 * middle / off, 100 * error / off, 2 * n);
}
