/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/lent.h"

#include "util/clock.h"

#include "maps.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define ROWS_MAX (LENT_LOADS_MAX * UNWIND_SHARDS)
#define IDS_MAX (LENT_LOADS_MAX * PROGRAM_MAPS_MAX)
/* Of an event that is a probe, before Linux 6.6: its places, entered and left. */
#define PROBE_EVENTS (2u * PROBE_PLACES_MAX)
#define FREED_MS 2000u
#define LOOK_MS 20u

struct lent_map {
	uint32_t id, load; /* load: from 1 on; 0: a shard of rows */
	bool alive;
};

static struct {
	struct lent_map map[IDS_MAX + ROWS_MAX];
	size_t n;
	struct {
		uint32_t id;
		size_t bytes;
	} load[LENT_LOADS_MAX];
	size_t n_loads, n_rows;
	uint32_t last_load;
	int list;	 /* the link of the iterator; -1: not made yet */
	int events;	 /* the epoll set; -1: not made yet */
	size_t n_events; /* at most: some may be closed */
} lent = { .list = -1, .events = -1 };

/* ---- maps ---- */

static int open_list(struct err *err)
{
	struct maps_bpf *k = maps_bpf__open_and_load();
	int rc = k ? 0 : -errno;
	if (!rc)
		lent.list =
			bpf_link_create(bpf_program__fd(k->progs.on_maps), 0, BPF_TRACE_ITER, NULL);
	if (!rc && lent.list < 0)
		rc = -errno;
	maps_bpf__destroy(k);
	return rc ? err_sys(err, rc, "reading the kernel's list of BPF maps") : 0;
}

static void mark(uint32_t id)
{
	for (size_t i = 0; i < lent.n; i++)
		if (lent.map[i].id == id)
			lent.map[i].alive = true;
}

static int read_list(struct err *err)
{
	uint32_t id[1024];
	ssize_t n = 0;
	int rc = lent.list < 0 ? open_list(err) : 0;
	if (rc)
		return rc;
	int fd = bpf_iter_create(lent.list);
	if (fd < 0)
		return err_sys(err, -errno, "reading the kernel's list of BPF maps");
	for (size_t i = 0; i < lent.n; i++)
		lent.map[i].alive = false;
	while ((n = read(fd, id, sizeof(id))) > 0)
		for (size_t i = 0; i < (size_t)n / sizeof(id[0]); i++)
			mark(id[i]);
	rc = n < 0 ? err_sys(err, -errno, "reading the kernel's list of BPF maps") : 0;
	close(fd);
	return rc;
}

/* A load is there while one of its maps is: each program refers to some. */
static bool load_lives(uint32_t load)
{
	bool lives = false;
	for (size_t i = 0; i < lent.n; i++)
		lives |= lent.map[i].load == load;
	return lives;
}

static int look(struct err *err)
{
	size_t n = 0, n_loads = 0;
	int rc = read_list(err);
	if (rc)
		return rc;
	lent.n_rows = 0;
	for (size_t i = 0; i < lent.n; i++) {
		if (!lent.map[i].alive)
			continue;
		lent.n_rows += !lent.map[i].load;
		lent.map[n++] = lent.map[i];
	}
	lent.n = n;
	for (size_t i = 0; i < lent.n_loads; i++)
		if (load_lives(lent.load[i].id))
			lent.load[n_loads++] = lent.load[i];
	lent.n_loads = n_loads;
	return 0;
}

static size_t bytes_max(void)
{
	const size_t host = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
	return host / 4 > LENT_BYTES_LEAST ? host / 4 : LENT_BYTES_LEAST;
}

static size_t bytes_lent(void)
{
	size_t n = lent.n_rows * SHARD_BYTES;
	for (size_t i = 0; i < lent.n_loads; i++)
		n += lent.load[i].bytes;
	return n;
}

static bool has_room(size_t loads, size_t rows, size_t bytes)
{
	return lent.n_loads + loads <= LENT_LOADS_MAX && lent.n_rows + rows <= ROWS_MAX &&
	       bytes_lent() + bytes <= bytes_max();
}

/* Maps of programs are freed some milliseconds after the last descriptor was closed. */
static int make_room(size_t loads, size_t rows, size_t bytes, struct err *err)
{
	const uint64_t until_ns = clock_ns(CLOCK_MONOTONIC) + FREED_MS * 1000000ull;
	while (!has_room(loads, rows, bytes)) {
		int rc = look(err);
		if (rc || has_room(loads, rows, bytes))
			return rc;
		if (clock_ns(CLOCK_MONOTONIC) >= until_ns)
			return err_set(err, -EDQUOT,
				       "the recorder has %zu sets of BPF programs, %zu tables of "
				       "unwind rows, %zu MiB, and more than %u, %u or %zu MiB is "
				       "more than a recording needs",
				       lent.n_loads, lent.n_rows, bytes_lent() >> 20,
				       LENT_LOADS_MAX, ROWS_MAX, bytes_max() >> 20);
		poll(NULL, 0, LOOK_MS);
	}
	return 0;
}

int lent_may_load(struct err *err)
{
	return make_room(1, 0, 0, err);
}

int lent_may_add_rows(struct err *err)
{
	return make_room(0, 1, SHARD_BYTES, err);
}

int lent_load(const struct programs *p, struct err *err)
{
	const size_t bytes = p->table_bytes + p->ring_bytes;
	int rc = make_room(1, 0, bytes, err);
	if (rc)
		return rc;
	lent.load[lent.n_loads].id = ++lent.last_load;
	lent.load[lent.n_loads++].bytes = bytes;
	for (size_t i = 0; i < p->n_maps; i++)
		lent.map[lent.n++] = (struct lent_map){ p->map_id[i], lent.last_load, true };
	return 0;
}

int lent_rows(int fd, struct err *err)
{
	struct bpf_map_info info = { 0 };
	uint32_t len = sizeof(info);
	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return err_sys(err, -errno, "a table of unwind rows");
	lent.map[lent.n++] = (struct lent_map){ info.id, 0, true };
	lent.n_rows++;
	return 0;
}

/* ---- events ---- */

size_t lent_events_max(unsigned n_cpus)
{
	return LENT_LOADS_MAX *
	       ((size_t)n_cpus * (MAX_EVENTS + 1) + (size_t)MAX_EVENTS * PROBE_EVENTS);
}

/* A line of /proc/self/fdinfo for each file that is still open. */
static int count_events(size_t *ret)
{
	char path[64], line[256];
	size_t n = 0;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", lent.events);
	FILE *f = fopen(path, "re");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f))
		n += !strncmp(line, "tfd:", 4);
	int rc = ferror(f) ? -EIO : 0;
	fclose(f);
	*ret = rc ? *ret : n;
	return rc;
}

int lent_event(int fd, struct err *err)
{
	const int n_cpus = libbpf_num_possible_cpus();
	const size_t most = lent_events_max(n_cpus > 0 ? (unsigned)n_cpus : 1);
	struct epoll_event e = { .events = EPOLLONESHOT };
	int rc = 0;
	if (lent.events < 0)
		lent.events = epoll_create1(EPOLL_CLOEXEC);
	if (lent.events < 0)
		return err_sys(err, -errno, "counting perf events");
	if (lent.n_events >= most)
		rc = count_events(&lent.n_events);
	if (rc)
		return err_sys(err, rc, "counting perf events");
	if (lent.n_events >= most)
		return err_set(err, -EDQUOT,
			       "the recorder has %zu perf events, which is more than a recording "
			       "needs",
			       lent.n_events);
	if (epoll_ctl(lent.events, EPOLL_CTL_ADD, fd, &e))
		return err_sys(err, -errno, "counting perf events");
	lent.n_events++;
	return 0;
}
