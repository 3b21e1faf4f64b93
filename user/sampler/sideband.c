/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/sideband.h"

#include "sampler/loader.h"
#include "util/buf.h"

#include <errno.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define RECORD_MAX (PATH_MAX + 256) /* bytes: a mapping with the longest path */

struct ring {
	int fd;		     /* -1: no ring */
	uint64_t read_to_ns; /* all records before this time were read, or are known to be lost */
	struct perf_event_mmap_page *head;
};

struct news {
	uint64_t ns;
	size_t at; /* of the record in the copy */
	size_t order;
};

struct sideband {
	unsigned n_cpus;
	size_t data_size, page;
	struct buf copy;	   /* records of one drain */
	struct buf index;	   /* struct news */
	struct sideband_loss loss; /* of this drain */
	struct ring ring[];
};

/*
 * Layouts: include/uapi/linux/perf_event.h, enum perf_event_type; sample_id holds the time alone.
 */
struct rec_comm {
	struct perf_event_header h;
	uint32_t tgid, tid;
	char comm[];
};

struct rec_task { /* fork, exit */
	struct perf_event_header h;
	uint32_t tgid, parent, tid, parent_tid;
	uint64_t ns;
};

struct rec_mmap2 {
	struct perf_event_header h;
	uint32_t tgid, tid;
	uint64_t addr, len, pgoff;
	union {
		struct {
			uint32_t maj, min;
			uint64_t ino, generation;
		};
		struct {
			uint8_t build_id_size, reserved[3];
			uint8_t build_id[20];
		};
	};
	uint32_t prot, flags;
	char path[];
};

struct rec_lost {
	struct perf_event_header h;
	uint64_t id, lost;
};

static void ring_close(struct sideband *sb, struct ring *r)
{
	if (r->head)
		munmap(r->head, sb->page + sb->data_size);
	if (r->fd >= 0)
		close(r->fd);
	r->head = NULL;
	r->fd = -1;
}

int sideband_event(unsigned cpu, size_t ring_bytes, int *ret_fd, struct err *err)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.mmap = 1,
		.mmap2 = 1,
		.build_id = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.use_clockid = 1,
		.clockid = CLOCK_BOOTTIME,
		.watermark = 1,
		.wakeup_watermark = (uint32_t)(ring_bytes / 4),
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return err_sys(
			err, -errno,
			"perf side-band on CPU %u (be root, or run with CAP_PERFMON; needs Linux "
			"5.12)",
			cpu);
	*ret_fd = fd;
	return 0;
}

int sideband_add_cpu(struct sideband *sb, unsigned cpu, struct err *err)
{
	struct ring *r = &sb->ring[cpu];
	int fd = -1, rc = r->fd >= 0 ? 0 : loader_sideband(cpu, sb->data_size, &fd, err);
	if (rc || r->fd >= 0)
		return rc;
	void *m = mmap(NULL, sb->page + sb->data_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (m == MAP_FAILED) {
		rc = err_sys(err, -errno, "perf side-band on CPU %u: mapping its ring of %zu KiB",
			     cpu, sb->data_size / 1024);
		close(fd);
		return rc;
	}
	r->fd = fd;
	r->head = m;
	return 0;
}

void sideband_remove_cpu(struct sideband *sb, unsigned cpu)
{
	ring_close(sb, &sb->ring[cpu]);
}

int sideband_open(struct sideband **ret, unsigned n_cpus, size_t ring_bytes, struct err *err)
{
	(void)err;
	struct sideband *sb = calloc(1, sizeof(*sb) + n_cpus * sizeof(sb->ring[0]));
	if (!sb)
		return -ENOMEM;
	sb->n_cpus = n_cpus;
	sb->page = (size_t)sysconf(_SC_PAGESIZE);
	sb->data_size = ring_bytes > sb->page ? ring_bytes : sb->page;
	for (unsigned i = 0; i < n_cpus; i++)
		sb->ring[i].fd = -1;
	*ret = sb;
	return 0;
}

void sideband_close(struct sideband *sb)
{
	if (!sb)
		return;
	for (unsigned i = 0; i < sb->n_cpus; i++)
		ring_close(sb, &sb->ring[i]);
	buf_fini(&sb->copy);
	buf_fini(&sb->index);
	free(sb);
}

int sideband_fd(const struct sideband *sb, unsigned cpu)
{
	return sb->ring[cpu].fd;
}

/* Every record ends with its sample_id, the time; fork and exit carry it inside too. */
static uint64_t record_time(const uint8_t *rec, size_t size)
{
	uint64_t ns;
	memcpy(&ns, rec + size - sizeof(ns), sizeof(ns));
	return ns;
}

/* Records that came to this ring after read_to_ns may be missing. */
static void note_loss(struct sideband *sb, const struct ring *r)
{
	if (!sb->loss.any || r->read_to_ns < sb->loss.from_ns)
		sb->loss.from_ns = r->read_to_ns;
	sb->loss.any = true;
}

/* Index the records from base on, up to the first one that is not older than before_ns. */
static int index_records(struct sideband *sb, struct ring *r, size_t base, uint64_t before_ns,
			 size_t *ret_end)
{
	size_t at = base;
	while (at + sizeof(struct perf_event_header) <= sb->copy.len) {
		struct perf_event_header h;
		memcpy(&h, sb->copy.data + at, sizeof(h));
		if (h.size < sizeof(h) + 8 || h.size > sb->copy.len - at) {
			at = sb->copy.len; /* cannot be: skip it rather than stay here */
			break;
		}
		struct news n = { .ns = record_time(sb->copy.data + at, h.size),
				  .at = at,
				  .order = at };
		if (n.ns >= before_ns)
			break;
		int rc = buf_add(&sb->index, &n, sizeof(n));
		if (rc)
			return rc;
		if (h.type == PERF_RECORD_LOST)
			note_loss(sb, r);
		r->read_to_ns = n.ns;
		at += h.size;
	}
	*ret_end = at;
	return 0;
}

int sideband_read(struct sideband *sb, unsigned cpu, uint64_t before_ns)
{
	struct ring *r = &sb->ring[cpu];
	if (!r->head)
		return 0;
	uint64_t head = __atomic_load_n(&r->head->data_head, __ATOMIC_ACQUIRE),
		 tail = r->head->data_tail;
	const uint8_t *data = (const uint8_t *)r->head + sb->page;
	size_t mask = sb->data_size - 1, len = head - tail, base = sb->copy.len,
	       indexed = sb->index.len, end;
	int rc = len ? buf_reserve(&sb->copy, len) : 0;
	if (!len)
		r->read_to_ns = before_ns;
	if (!len || rc)
		return rc;
	size_t first = sb->data_size - (tail & mask) < len ? sb->data_size - (tail & mask) : len;
	buf_add(&sb->copy, data + (tail & mask), first);
	buf_add(&sb->copy, data, len - first);
	rc = index_records(sb, r, base, before_ns, &end);
	if (rc) { /* without memory for all, take none */
		sb->copy.len = base;
		sb->index.len = indexed;
		return rc;
	}
	sb->copy.len = end;
	/* No room for the largest record: the kernel may have dropped one */
	if (sb->data_size - len < RECORD_MAX)
		note_loss(sb, r);
	r->read_to_ns = before_ns;
	__atomic_store_n(&r->head->data_tail, tail + (end - base), __ATOMIC_RELEASE);
	return 0;
}

static int by_time(const void *a, const void *b)
{
	const struct news *x = a, *y = b;
	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* As proc/scan.c has it. */
static const char *without_mark(const char *path, char out[PATH_MAX])
{
	if (path[0] != '/' || strlen(path) >= PATH_MAX)
		return path;
	proc_path_unmark(strcpy(out, path));
	return out;
}

static struct proc_file *apply_mmap(struct procs *procs, const struct rec_mmap2 *m, uint64_t ns)
{
	char unmarked[PATH_MAX];
	const char *path = m->path[0] ? without_mark(m->path, unmarked) : "[anon]";
	if (!strcmp(path, "//anon"))
		path = "[anon]";
	if (m->h.misc & PERF_RECORD_MISC_MMAP_BUILD_ID)
		return procs_mmap(procs, m->tgid, m->addr, m->len, m->pgoff, path, 0, 0,
				  m->build_id, m->build_id_size, ns);
	return procs_mmap(procs, m->tgid, m->addr, m->len, m->pgoff, path, makedev(m->maj, m->min),
			  m->ino, NULL, 0, ns);
}

/* A process outside of our PID namespace has 0 there, and -1 when it has ended. */
static bool is_hidden(uint32_t tgid)
{
	return tgid == 0 || tgid == UINT32_MAX;
}

static void apply(const struct perf_event_header *h, uint64_t ns, struct procs *procs,
		  sideband_on_map *on_map, void *ctx, uint64_t *io_lost)
{
	const struct rec_comm *c = (const void *)h;
	const struct rec_task *t = (const void *)h;
	const struct rec_mmap2 *m = (const void *)h;
	if (h->type != PERF_RECORD_LOST && is_hidden(c->tgid))
		return;
	switch (h->type) {
	case PERF_RECORD_COMM:
		if (h->misc & PERF_RECORD_MISC_COMM_EXEC)
			procs_exec(procs, c->tgid, c->comm, ns);
		else if (c->tgid == c->tid)
			procs_comm(procs, c->tgid, c->comm, ns);
		break;
	case PERF_RECORD_FORK:
		if (t->tgid != t->parent)
			procs_fork(procs, t->tgid, t->parent, ns);
		else
			procs_thread(procs, t->tgid);
		break;
	case PERF_RECORD_EXIT:
		if (t->tgid == t->tid)
			procs_exit(procs, t->tgid, ns);
		break;
	case PERF_RECORD_MMAP2:
		if (apply_mmap(procs, m, ns) && on_map)
			on_map(ctx, m->tgid, m->addr);
		break;
	case PERF_RECORD_LOST:
		*io_lost += ((const struct rec_lost *)h)->lost;
		break;
	default:
		break;
	}
}

void sideband_apply(struct sideband *sb, struct procs *procs, sideband_on_map *on_map, void *ctx,
		    struct sideband_loss *ret_loss)
{
	struct news *v = (struct news *)sb->index.data;
	size_t n = sb->index.len / sizeof(*v);
	uint64_t lost = 0;
	if (n)
		qsort(v, n, sizeof(*v), by_time);
	for (size_t i = 0; i < n; i++)
		apply((const void *)(sb->copy.data + v[i].at), v[i].ns, procs, on_map, ctx, &lost);
	sb->loss.records = lost;
	*ret_loss = sb->loss;
	sb->loss = (struct sideband_loss){ 0 };
	sb->copy.len = sb->index.len = 0;
}

int sideband_drain(struct sideband *sb, struct procs *procs, sideband_on_map *on_map, void *ctx,
		   struct sideband_loss *ret_loss)
{
	uint64_t before_ns = proc_now_ns();
	int rc = 0;
	for (unsigned cpu = 0; cpu < sb->n_cpus && !rc; cpu++)
		rc = sideband_read(sb, cpu, before_ns);
	sideband_apply(sb, procs, on_map, ctx, ret_loss);
	return rc;
}
