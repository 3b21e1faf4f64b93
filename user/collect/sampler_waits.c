/* SPDX-License-Identifier: Apache-2.0 */
/* The side of the sampler that watches the scheduler (bpf/sched.bpf.h): loaded, attached and asked only when waits are wanted. */
#include "collect/sampler_int.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ITERATOR_READ 16384

static bool has_member(const struct btf *btf, const char *type, const char *member)
{
	int id = btf__find_by_name_kind(btf, type, BTF_KIND_STRUCT);
	const struct btf_type *t = id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;
	for (unsigned i = 0; t && i < btf_vlen(t); i++)
		if (!strcmp(btf__name_by_offset(btf, btf_members(t)[i].name_off), member))
			return true;
	return false;
}

/* What the kernel says of its types. For tests: of one that has less. */
static struct btf *kernel_types(void)
{
	const char *path = getenv("ASCRIBE_KERNEL_TYPES");
	return path ? btf__parse(path, NULL) : btf__load_vmlinux_btf();
}

int sampler_check_waits(struct sampler *s, struct err *err)
{
	static const char *const tracepoints[] = { "sched_switch", "sched_wakeup_new", "sched_process_fork" };
	if (!s->waits)
		return 0;
	struct btf *btf = kernel_types();
	int rc = 0;
	for (size_t i = 0; !rc && btf && i < sizeof(tracepoints) / sizeof(tracepoints[0]); i++) {
		char name[64];
		snprintf(name, sizeof(name), "btf_trace_%s", tracepoints[i]);
		if (btf__find_by_name_kind(btf, name, BTF_KIND_TYPEDEF) < 0)
			rc = err_set(err, -ENOTSUP, "this kernel has no tracepoint %s: waits (--wall, -e off-cpu,runq) cannot be recorded; without "
				     "them everything else can", tracepoints[i]);
	}
	/* Does it note when a thread came into its queue (CONFIG_SCHED_INFO), by a clock that we can read? */
	s->queue_times = btf && has_member(btf, "sched_info", "last_queued") && has_member(btf, "cfs_rq", "rq") &&
			 has_member(btf, "task_struct", "sched_info") &&
			 !getenv("ASCRIBE_WATCH_WAKEUPS"); /* for tests: as on a kernel that does not */
	btf__free(btf);
	return rc;
}

int sampler_size_waits(struct sampler *s)
{
	struct sample_bpf *k = s->skel;
	struct bpf_program *programs[] = { k->progs.on_thread, k->progs.on_threads, k->progs.on_switch, k->progs.on_wakeup,
					   k->progs.on_wakeup_new, k->progs.on_migrate };
	struct bpf_map *maps[] = { k->maps.waits, k->maps.places, k->maps.spots, k->maps.sched_cpus, k->maps.waits_out, k->maps.wait_others };
	int rc = 0;
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		bpf_program__set_autoload(programs[i], s->waits);
	((struct config *)&k->rodata->cfg)->queue_times = s->queue_times;
	if (s->waits)
		bpf_program__set_autoload(s->queue_times ? k->progs.on_wakeup : k->progs.on_migrate, false);
	for (size_t i = 0; !rc && i < sizeof(maps) / sizeof(maps[0]); i++)
		rc = bpf_map__set_autocreate(maps[i], s->waits);
	rc = rc ? rc : bpf_map__set_max_entries(k->maps.sched_cpus, s->n_cpus);
	return rc ? rc : bpf_map__set_max_entries(k->maps.wait_others, s->n_cpus * 2);
}

int sampler_map_waits(struct sampler *s, struct err *err)
{
	if (!s->waits)
		return 0;
	s->others = sampler_map_shared(s->skel->maps.wait_others, s->n_cpus * 2 * sizeof(*s->others), err);
	return s->others ? 0 : err->code;
}

void sampler_unmap_waits(struct sampler *s)
{
	if (s->others)
		munmap(s->others, s->n_cpus * 2 * sizeof(*s->others));
}

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Words behind a record of the iterator. */
static size_t n_words(const struct row *row)
{
	if (row->kind == ROW_WAIT)
		return 0;
	if (row->kind == ROW_BLAME)
		return OCCUPANT_WORDS;
	return (size_t)row->n_kernel + row->n_user;
}

/*
 * Let the iterator see every thread; what it writes goes, record by record, to on_wait. The kernel has room for 32 KiB; what would not
 * fit any more it asks the program for again, which has told it already: so half of that is read at a time, to which no thread adds as much.
 */
static int iterate(struct sampler *s, void (*on_wait)(void *, const struct row *, const uint64_t *), void *ctx)
{
	static struct wire_wait buf[1 + ITERATOR_READ / sizeof(struct wire_wait) + 1];
	size_t have = 0;
	int fd = bpf_iter_create(bpf_link__fd(s->threads)), rc = 0;
	if (fd < 0)
		return fd;
	for (;;) {
		ssize_t n = read(fd, (char *)buf + have, ITERATOR_READ);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0) {
			rc = n ? -errno : 0;
			break;
		}
		have += (size_t)n;
		size_t at = 0;
		for (;;) {
			struct row row;
			if (have - at < sizeof(row))
				break;
			memcpy(&row, (char *)buf + at, sizeof(row));
			size_t size = sizeof(row) + n_words(&row) * sizeof(uint64_t);
			if (size > sizeof(buf[0]) || have - at < size)
				break;
			if (on_wait)
				on_wait(ctx, &row, (const uint64_t *)(const void *)((char *)buf + at + sizeof(row)));
			at += size;
		}
		have -= at;
		memmove(buf, (char *)buf + at, have);
	}
	close(fd);
	return rc;
}

int sampler_waits(struct sampler *s, void (*on_wait)(void *, const struct row *, const uint64_t *), void *ctx)
{
	return s->threads ? iterate(s, on_wait, ctx) : 0;
}

/*
 * New threads first, then the old ones, which begin their wait now; only then the scheduler: it then knows each thread that
 * leaves a CPU.
 */
int sampler_attach_waits(struct sampler *s, struct err *err)
{
	struct sample_bpf *k = s->skel;
	if (!s->waits)
		return 0;
	s->sched[0] = bpf_program__attach(k->progs.on_thread);
	if (!s->sched[0])
		return err_sys(err, -errno, "attaching to sched_process_fork");
	s->threads = bpf_program__attach_iter(k->progs.on_threads, NULL);
	if (!s->threads)
		return err_sys(err, -errno, "attaching the iterator over all threads");
	k->bss->waits_begin = true;
	int rc = iterate(s, NULL, NULL);
	k->bss->waits_begin = false;
	if (rc)
		return err_sys(err, rc, "reading the iterator over all threads");
	struct bpf_program *programs[] = { k->progs.on_wakeup, k->progs.on_wakeup_new, k->progs.on_migrate, k->progs.on_switch };
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		if (!bpf_program__autoload(programs[i]))
			continue;
		s->sched[i + 1] = bpf_program__attach(programs[i]);
		if (!s->sched[i + 1])
			return err_sys(err, -errno, "attaching to the scheduler's tracepoints (sched_switch, sched_wakeup)");
	}
	return 0;
}

void sampler_begin_waits(struct sampler *s)
{
	if (s->waits)
		__atomic_store_n(&s->skel->data->waits_from, now_ns(), __ATOMIC_SEQ_CST);
}

/* All at one instant, for it takes a while; then until none of the programs is under way on any CPU. */
void sampler_detach_waits(struct sampler *s)
{
	if (!s->waits || !s->threads)
		return;
	__atomic_store_n(&s->skel->data->waits_until, now_ns(), __ATOMIC_SEQ_CST);
	for (size_t i = SAMPLER_SCHED_LINKS; i-- > 0;) {
		bpf_link__destroy(s->sched[i]);
		s->sched[i] = NULL;
	}
	syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	s->skel->bss->waits_over = true;
}
