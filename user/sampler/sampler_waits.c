/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler's part for waits (bpf/offcpu.bpf.h): its programs are loaded and attached only for
 * events of waits.
 */
#include "sampler/sampler_int.h"
#include "util/clock.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ITERATOR_READ 8192
int sampler_map_waits(struct sampler *s, struct err *err)
{
	if (!s->waits)
		return 0;
	const struct sampler_table others = { MAP_wait_others,
					      s->programs.sizes.n_halves * sizeof(*s->others),
					      (void **)&s->others };
	int rc = sampler_map_tables(s, &others, 1, err);
	return rc ? rc : sampler_map_latency(s, err);
}

void sampler_unmap_waits(struct sampler *s)
{
	if (s->others)
		munmap(s->others, s->programs.sizes.n_halves * sizeof(*s->others));
	sampler_unmap_latency(s);
}

uint32_t sampler_row_words(const struct row *row)
{
	uint32_t stack = (uint32_t)row->n_kernel + row->n_user + row->n_script;
	switch (row->kind) {
	case ROW_WAIT:
		return 0;
	case ROW_BLAME:
		return OCCUPANT_WORDS;
	case ROW_WAKER:
		return OCCUPANT_WORDS + (row->waker_flags & WAKER_FUTEX ? FUTEX_WORDS : 0) + stack;
	default:
		return stack;
	}
}

/*
 * Run the iterator over all threads; pass each record to on_wait. The kernel has room for 32 KiB.
 * It asks the program again for a thread whose records did not fit, but the program reports a wait
 * once. So 8 KiB are read at a time, to which no thread adds 24.
 */
static int iterate(int threads, sampler_on_wait *on_wait, void *ctx)
{
	static struct wire_wait buf[1 + ITERATOR_READ / sizeof(struct wire_wait) + 1];
	size_t have = 0;
	int fd = bpf_iter_create(threads), rc = 0;
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
			const struct wire_wait *o = (const void *)((char *)buf + at);
			if (have - at < WIRE_WAIT_BYTES)
				break;
			const struct row row = o->row;
			size_t size = WIRE_WAIT_BYTES + sampler_row_words(&row) * sizeof(uint64_t);
			if (row.kind == ROW_TASK && row.stack == WAIT_HAS_HANG)
				size += sizeof(struct wire_hang);
			if (size > sizeof(buf[0]) || have - at < size)
				break;
			if (on_wait)
				on_wait(ctx, &row, (const uint64_t *)o->words, o->futex);
			at += size;
		}
		have -= at;
		memmove(buf, (char *)buf + at, have);
	}
	close(fd);
	return rc;
}

int sampler_waits(struct sampler *s, sampler_on_wait *on_wait, void *ctx)
{
	return s->threads >= 0 ? iterate(s->threads, on_wait, ctx) : 0;
}

/* Allocate every thread's storage for wakers. */
static int make_wakings(struct sampler *s)
{
	int all, rc = sampler_attach_iterator(s, PROGRAM_on_threads_waker, &all);
	if (rc)
		return rc;
	rc = iterate(all, NULL, NULL);
	close(all);
	return rc;
}

/*
 * Attach to new threads first, then give storage to the old ones, and only then attach to the
 * scheduler: then each thread that is switched out has its storage.
 */
int sampler_attach_waits(struct sampler *s, struct err *err)
{
	static const enum program_fd scheduler[] = {
		PROGRAM_on_wakeup,	 PROGRAM_on_wakeup_new,	    PROGRAM_on_migrate,
		PROGRAM_on_waking,	 PROGRAM_on_wakeup_latency, PROGRAM_on_switch,
		PROGRAM_on_switch_waker, PROGRAM_on_switch_latency, PROGRAM_on_switch_waker_latency
	};
	if (!s->waits)
		return 0;
	int rc = sampler_attach_traced(s, PROGRAM_on_thread, &s->sched[0]);
	if (!rc && s->wakers)
		rc = sampler_attach_traced(s, PROGRAM_on_thread_waker, &s->sched[1]);
	if (rc)
		return err_sys(err, rc, "attaching to sched_process_fork");
	rc = sampler_attach_iterator(s, PROGRAM_on_threads, &s->threads);
	if (rc)
		return err_sys(err, rc, "attaching the iterator over all threads");
	s->bss->waits_begin = true;
	rc = s->wakers ? make_wakings(s) : 0;
	rc = rc ? rc : iterate(s->threads, NULL, NULL);
	s->bss->waits_begin = false;
	if (rc)
		return err_sys(err, rc, "reading the iterator over all threads");
	for (size_t i = 0; i < sizeof(scheduler) / sizeof(scheduler[0]); i++) {
		if (s->programs.fd[scheduler[i]] < 0)
			continue;
		rc = sampler_attach_traced(s, scheduler[i], &s->sched[i + 2]);
		if (rc)
			return err_sys(
				err, rc,
				"attaching to the scheduler's tracepoints (sched_switch, sched_wakeup)");
	}
	return 0;
}

void sampler_take_wait_stacks(struct sampler *s, bool take)
{
	if (s->waits)
		__atomic_store_n(&s->bss->no_wait_stacks, !take, __ATOMIC_RELAXED);
}

void sampler_begin_waits(struct sampler *s)
{
	if (s->waits)
		__atomic_store_n(&s->data->waits_from, clock_ns(CLOCK_BOOTTIME), __ATOMIC_SEQ_CST);
}

/*
 * Until no program that runs now is under way on any CPU. On kernels with nohz_full there is no
 * membarrier (EINVAL, kernel/sched/membarrier.c): programs take microseconds, so a sleep will do.
 * Going to each CPU would not: the sandbox forbids it, and isolated CPUs are for others.
 */
static void await_programs(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
		usleep(10000);
}

/*
 * End all waits at one instant, since detaching takes a while; return when no program that runs now
 * is left. The one on sched_switch stays attached: threads that exit before the iterator flush
 * their sums.
 */
void sampler_end_waits(struct sampler *s)
{
	if (!s->waits || s->threads < 0 || s->bss->waits_over)
		return;
	__atomic_store_n(&s->data->waits_until, clock_ns(CLOCK_BOOTTIME), __ATOMIC_SEQ_CST);
	for (size_t i = SAMPLER_SWITCH_LINKS; i-- > 0;)
		sampler_detach(&s->sched[i]);
	await_programs();
	s->bss->waits_over = true;
}

void sampler_detach_waits(struct sampler *s)
{
	sampler_end_waits(s);
	for (size_t i = 0; i < SAMPLER_SCHED_LINKS; i++)
		sampler_detach(&s->sched[i]);
}
