/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler's part for waits (bpf/offcpu.bpf.h): its programs are loaded and attached only for
 * events of waits.
 */
#include "sampler/sampler_int.h"
#include "util/clock.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ITERATOR_READ 8192
#define TOKEN_SHIFT_MIN 23
#define TOKEN_SHIFT_MAX 27

/*
 * Where a member of a structure begins, also one of an anonymous part of it. -ENOENT: it has none
 * of that name.
 */
static int64_t type_member_at(const struct btf *btf, const struct btf_type *t, const char *member,
			      unsigned depth)
{
	for (unsigned i = 0; t && i < btf_vlen(t); i++) {
		const struct btf_member *m = &btf_members(t)[i];
		const char *name = btf__name_by_offset(btf, m->name_off);
		int64_t at = (int64_t)btf_member_bit_offset(t, i) / 8, inner;
		if (!strcmp(name, member))
			return at;
		const struct btf_type *part =
			*name || !depth ? NULL : btf__type_by_id(btf, m->type);
		if (part && btf_is_composite(part) &&
		    (inner = type_member_at(btf, part, member, depth - 1)) >= 0)
			return at + inner;
	}
	return -ENOENT;
}

static int64_t member_at(const struct btf *btf, const char *type, const char *member)
{
	int id = btf__find_by_name_kind(btf, type, BTF_KIND_STRUCT);
	return type_member_at(btf, id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL, member, 4);
}

static bool has_member(const struct btf *btf, const char *type, const char *member)
{
	return member_at(btf, type, member) >= 0;
}

/* What the kernel says of its types. For tests: of one that has less. */
static struct btf *kernel_types(void)
{
	const char *path = getenv("ASCRIBE_KERNEL_TYPES");
	return path ? btf__parse(path, NULL) : btf__load_vmlinux_btf();
}

static bool has_tracepoint(const struct btf *btf, const char *tracepoint)
{
	char name[64];
	snprintf(name, sizeof(name), "btf_trace_%s", tracepoint);
	return btf__find_by_name_kind(btf, name, BTF_KIND_TYPEDEF) >= 0;
}

#if !defined(__aarch64__)
/*
 * The place of a variable of each CPU among all of them. -ENOENT: the kernel's types do not tell.
 */
static int64_t percpu_at(const struct btf *btf, const char *name)
{
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_VAR),
	    section = btf__find_by_name_kind(btf, ".data..percpu", BTF_KIND_DATASEC);
	const struct btf_type *t = section > 0 ? btf__type_by_id(btf, (uint32_t)section) : NULL;
	for (unsigned i = 0; t && id > 0 && i < btf_vlen(t); i++)
		if (btf_var_secinfos(t)[i].type == (uint32_t)id)
			return btf_var_secinfos(t)[i].offset;
	return -ENOENT;
}

/* Where a CPU keeps its count of interrupts: by itself, from 6.2 to 6.14 in a structure. */
static int64_t preempt_count_at(const struct btf *btf)
{
	int64_t at = percpu_at(btf, "__preempt_count"), hot = percpu_at(btf, "pcpu_hot"),
		member = member_at(btf, "pcpu_hot", "preempt_count");
	return at >= 0 ? at : hot >= 0 && member >= 0 ? hot + member : -ENOENT;
}
#endif

struct kernel_function {
	const char *name;
	__u64 *from, *to; /* 0: not found. The end is where the next function begins */
};

/*
 * Apply a line of /proc/kallsyms, "address type name\n" in the order of addresses. True: the
 * function has its end.
 */
static bool find_function(const struct kernel_function *f, const char *line)
{
	size_t len = strlen(f->name);
	const char *name = strrchr(line, ' ');
	if (*f->to)
		return true;
	if (*f->from) {
		__u64 at = strtoull(line, NULL, 16);
		*f->to = at > *f->from ? at : 0;
	} else if (name && !strncmp(name + 1, f->name, len) && name[1 + len] == '\n') {
		*f->from = strtoull(line, NULL, 16);
	}
	return *f->to;
}

/*
 * Without them who sends to a local socket is an interrupt, too. One pass finds both: the kernel
 * needs tens of milliseconds to print all of its symbols.
 */
static void find_softirqs(struct sampler *s)
{
	const struct kernel_function functions[] = {
		{ "__local_bh_enable_ip", &s->wake.bottom_half.from, &s->wake.bottom_half.to },
		{ "process_backlog", &s->wake.backlog.from, &s->wake.backlog.to },
	};
	FILE *f = fopen("/proc/kallsyms", "re");
	char line[512];
	bool found = false;
	while (f && !found && fgets(line, sizeof(line), f)) {
		found = find_function(&functions[0], line);
		found &= find_function(&functions[1], line);
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (!*functions[i].to)
			*functions[i].from = 0;
	if (f)
		fclose(f);
}

/*
 * Who wakes can only be told where a thread can be told from an interrupt that has stopped it:
 * bpf/waker.bpf.h.
 */
static int check_wakers(struct sampler *s, const struct btf *btf, struct err *err)
{
	if (!has_tracepoint(btf, "sched_waking"))
		return err_set(
			err, -ENOTSUP,
			"this kernel has no tracepoint sched_waking: who wakes whom (--waker) "
			"cannot be recorded; without it "
			"waits can");
#if defined(__aarch64__)
	bool interrupts = member_at(btf, "thread_info", "preempt_count") >= 0;
#else
	int64_t rq = percpu_at(btf, "runqueues"), at = preempt_count_at(btf);
	bool interrupts = rq >= 0 && at >= 0 && member_at(btf, "cfs_rq", "rq") >= 0;
	s->wake.preempt_count = (uint64_t)(at - rq);
#endif
	return interrupts ? 0
			  : err_set(err, -ENOTSUP,
				    "this kernel's types (BTF) do not say where it counts "
				    "interrupts: who wakes whom (--waker) "
				    "cannot be recorded; without it waits can");
}

int sampler_check_waits(struct sampler *s, struct err *err)
{
	static const char *const tracepoints[] = { "sched_switch", "sched_wakeup_new",
						   "sched_process_fork" };
	if (!s->waits)
		return 0;
	struct btf *btf = kernel_types();
	int rc = 0;
	for (size_t i = 0; !rc && btf && i < sizeof(tracepoints) / sizeof(tracepoints[0]); i++) {
		if (!has_tracepoint(btf, tracepoints[i]))
			rc = err_set(
				err, -ENOTSUP,
				"this kernel has no tracepoint %s: waits (--wall, -e "
				"off-cpu,runq) cannot be recorded; without them everything else "
				"can",
				tracepoints[i]);
	}
	if (!rc && btf && s->wakers)
		rc = check_wakers(s, btf, err);
	if (!rc && s->wakers)
		find_softirqs(s);
	/*
	 * Does it note when a thread came into its queue (CONFIG_SCHED_INFO), by a clock that we
	 * can read?
	 */
	s->queue_times = btf && has_member(btf, "sched_info", "last_queued") &&
			 has_member(btf, "cfs_rq", "rq") &&
			 has_member(btf, "task_struct", "sched_info") &&
			 /* for tests: as on a kernel that does not */
			 !getenv("ASCRIBE_WATCH_WAKEUPS");
	btf__free(btf);
	return rc;
}

/*
 * Take about as many stacks of waits as samples: each costs as much. At 2^23 ns there are 119 a
 * second, at 2^27 ns 7.
 */
static uint32_t token_shift(unsigned hz)
{
	uint32_t shift = TOKEN_SHIFT_MIN;
	while (shift < TOKEN_SHIFT_MAX && 1000000000ull >> (shift + 1) >= hz)
		shift++;
	return shift;
}

int sampler_size_waits(struct sampler *s)
{
	struct sample_bpf *k = s->skel;
	struct bpf_program *programs[] = { k->progs.on_thread,	   k->progs.on_threads,
					   k->progs.on_switch,	   k->progs.on_wakeup,
					   k->progs.on_wakeup_new, k->progs.on_migrate };
	struct bpf_program *wakers[] = { k->progs.on_waking, k->progs.on_switch_waker,
					 k->progs.on_thread_waker, k->progs.on_threads_waker };
	struct bpf_map *maps[] = { k->maps.waits,      k->maps.wait_stacks, k->maps.call_sites,
				   k->maps.sched_cpus, k->maps.waits_out,   k->maps.wait_others };
	int rc = bpf_map__set_autocreate(k->maps.wakings, s->wakers);
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		bpf_program__set_autoload(programs[i], s->waits);
	((struct config *)&k->rodata->cfg)->queue_times = s->queue_times;
	((struct config *)&k->rodata->cfg)->token_shift = token_shift(s->cfg.hz);
	if (s->waits)
		bpf_program__set_autoload(s->queue_times ? k->progs.on_wakeup : k->progs.on_migrate,
					  false);
	for (size_t i = 0; i < sizeof(wakers) / sizeof(wakers[0]); i++)
		bpf_program__set_autoload(wakers[i], s->wakers);
	if (s->wakers)
		bpf_program__set_autoload(k->progs.on_switch, false);
	((struct config *)&k->rodata->cfg)->wakers = s->wakers;
	((struct config *)&k->rodata->cfg)->preempt_count = s->wake.preempt_count;
	((struct config *)&k->rodata->cfg)->bottom_half = s->wake.bottom_half;
	((struct config *)&k->rodata->cfg)->backlog = s->wake.backlog;
	for (size_t i = 0; !rc && i < sizeof(maps) / sizeof(maps[0]); i++)
		rc = bpf_map__set_autocreate(maps[i], s->waits);
	rc = rc ? rc : bpf_map__set_max_entries(k->maps.sched_cpus, s->n_cpus);
	return rc;
}

int sampler_map_waits(struct sampler *s, struct err *err)
{
	if (!s->waits)
		return 0;
	const struct sampler_table others = { s->skel->maps.wait_others,
					      s->sizes.n_halves * sizeof(*s->others),
					      (void **)&s->others };
	return sampler_map_tables(&others, 1, err);
}

void sampler_unmap_waits(struct sampler *s)
{
	if (s->others)
		munmap(s->others, s->sizes.n_halves * sizeof(*s->others));
}

uint32_t sampler_row_words(const struct row *row)
{
	uint32_t stack = (uint32_t)row->n_kernel + row->n_user + row->n_python;
	switch (row->kind) {
	case ROW_WAIT:
		return 0;
	case ROW_BLAME:
		return OCCUPANT_WORDS;
	case ROW_WAKER:
		return OCCUPANT_WORDS + stack;
	default:
		return stack;
	}
}

/*
 * Run the iterator over all threads; pass each record to on_wait. The kernel has room for 32 KiB.
 * It asks the program again for a thread whose records did not fit, but the program reports a wait
 * once. So 8 KiB are read at a time, to which no thread adds 24.
 */
static int iterate(struct bpf_link *threads,
		   void (*on_wait)(void *, const struct row *, const uint64_t *), void *ctx)
{
	static struct wire_wait buf[1 + ITERATOR_READ / sizeof(struct wire_wait) + 1];
	size_t have = 0;
	int fd = bpf_iter_create(bpf_link__fd(threads)), rc = 0;
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
			size_t size = sizeof(row) + sampler_row_words(&row) * sizeof(uint64_t);
			if (row.kind == ROW_TASK && row.stack == WAIT_HAS_HANG)
				size += sizeof(struct wire_hang);
			if (size > sizeof(buf[0]) || have - at < size)
				break;
			if (on_wait)
				on_wait(ctx, &row,
					(const uint64_t *)(const void *)((char *)buf + at +
									 sizeof(row)));
			at += size;
		}
		have -= at;
		memmove(buf, (char *)buf + at, have);
	}
	close(fd);
	return rc;
}

int sampler_waits(struct sampler *s, void (*on_wait)(void *, const struct row *, const uint64_t *),
		  void *ctx)
{
	return s->threads ? iterate(s->threads, on_wait, ctx) : 0;
}

/* Allocate every thread's storage for wakers. */
static int make_wakings(struct sampler *s)
{
	struct bpf_link *all = bpf_program__attach_iter(s->skel->progs.on_threads_waker, NULL);
	int rc = all ? iterate(all, NULL, NULL) : -errno;
	bpf_link__destroy(all);
	return rc;
}

/*
 * Attach to new threads first, then give storage to the old ones, and only then attach to the
 * scheduler: then each thread that is switched out has its storage.
 */
int sampler_attach_waits(struct sampler *s, struct err *err)
{
	struct sample_bpf *k = s->skel;
	if (!s->waits)
		return 0;
	s->sched[0] = bpf_program__attach(k->progs.on_thread);
	s->sched[1] = s->wakers ? bpf_program__attach(k->progs.on_thread_waker) : NULL;
	if (!s->sched[0] || (s->wakers && !s->sched[1]))
		return err_sys(err, -errno, "attaching to sched_process_fork");
	s->threads = bpf_program__attach_iter(k->progs.on_threads, NULL);
	if (!s->threads)
		return err_sys(err, -errno, "attaching the iterator over all threads");
	k->bss->waits_begin = true;
	int rc = s->wakers ? make_wakings(s) : 0;
	rc = rc ? rc : iterate(s->threads, NULL, NULL);
	k->bss->waits_begin = false;
	if (rc)
		return err_sys(err, rc, "reading the iterator over all threads");
	struct bpf_program *programs[] = { k->progs.on_wakeup,	k->progs.on_wakeup_new,
					   k->progs.on_migrate, k->progs.on_waking,
					   k->progs.on_switch,	k->progs.on_switch_waker };
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		if (!bpf_program__autoload(programs[i]))
			continue;
		s->sched[i + 2] = bpf_program__attach(programs[i]);
		if (!s->sched[i + 2])
			return err_sys(
				err, -errno,
				"attaching to the scheduler's tracepoints (sched_switch, sched_wakeup)");
	}
	return 0;
}

void sampler_take_wait_stacks(struct sampler *s, bool take)
{
	if (s->waits)
		__atomic_store_n(&s->skel->bss->no_wait_stacks, !take, __ATOMIC_RELAXED);
}

void sampler_begin_waits(struct sampler *s)
{
	if (s->waits)
		__atomic_store_n(&s->skel->data->waits_from, clock_ns(CLOCK_BOOTTIME),
				 __ATOMIC_SEQ_CST);
}

/*
 * Until no program that runs now is under way on any CPU. Where membarrier is not to be had (EINVAL
 * on kernels with nohz_full, kernel/sched/membarrier.c), be on each CPU once: what ran there with
 * interrupts off has ended then.
 */
static void await_programs(unsigned n_cpus)
{
	if (!syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
		return;
	size_t size = CPU_ALLOC_SIZE(n_cpus);
	cpu_set_t *mine = CPU_ALLOC(n_cpus), *one = CPU_ALLOC(n_cpus);
	bool can = mine && one && !sched_getaffinity(0, size, mine);
	for (unsigned c = 0; can && c < n_cpus; c++) {
		CPU_ZERO_S(size, one);
		CPU_SET_S(c, size, one);
		sched_setaffinity(0, size, one); /* one that is offline runs nothing */
	}
	if (can)
		sched_setaffinity(0, size, mine);
	else
		usleep(10000); /* they take microseconds */
	CPU_FREE(mine);
	CPU_FREE(one);
}

/*
 * End all waits at one instant, since detaching takes a while; return when no program that runs now
 * is left. The one on sched_switch stays attached: threads that exit before the iterator flush
 * their sums.
 */
void sampler_end_waits(struct sampler *s)
{
	if (!s->waits || !s->threads || s->skel->bss->waits_over)
		return;
	__atomic_store_n(&s->skel->data->waits_until, clock_ns(CLOCK_BOOTTIME), __ATOMIC_SEQ_CST);
	for (size_t i = SAMPLER_SWITCH_LINKS; i-- > 0;) {
		bpf_link__destroy(s->sched[i]);
		s->sched[i] = NULL;
	}
	await_programs(s->n_cpus);
	s->skel->bss->waits_over = true;
}

void sampler_detach_waits(struct sampler *s)
{
	sampler_end_waits(s);
	for (size_t i = 0; i < SAMPLER_SCHED_LINKS; i++)
		bpf_link__destroy(s->sched[i]);
	memset(s->sched, 0, sizeof(s->sched));
}
