/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/loader.h"
#include "sampler/sampler_int.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- sizes ---- */

unsigned sampler_drain_ms(const struct sampler *s)
{
	return s->programs.sizes.drain_ms;
}

unsigned sampler_n_cpus(const struct sampler *s)
{
	return s->n_cpus;
}

size_t sampler_sideband_bytes(const struct sampler *s)
{
	return s->programs.sizes.ring_bytes;
}

uint32_t sampler_table_rows(const struct sampler *s, bool *ret_may_grow)
{
	*ret_may_grow = s->programs.sizes.may_grow;
	return s->programs.sizes.rows;
}

/* ---- CPUs ---- */

static void max_cpu(void *ctx, unsigned cpu)
{
	unsigned *n = ctx;
	if (cpu + 1 > *n)
		*n = cpu + 1;
}

static int map_tables(struct sampler *s, struct err *err)
{
	const struct sizes *z = &s->programs.sizes;
	const struct sampler_table table[] = {
		{ MAP_halves, (size_t)z->n_halves * z->half_bytes, (void **)&s->halves },
		{ MAP_cpu_states, s->n_cpus * sizeof(*s->states), (void **)&s->states },
		{ MAP_procs, s->n_procs * sizeof(*s->procs), (void **)&s->procs },
		{ MAP_proc_labels, s->n_procs * sizeof(*s->labels), (void **)&s->labels },
		{ MAP_label_steps, LABEL_STEPS * sizeof(*s->steps), (void **)&s->steps },
		{ MAP_bss, sizeof(*s->bss), (void **)&s->bss },
		{ MAP_data, sizeof(*s->data), (void **)&s->data },
	};
	const struct sampler_table selected = { MAP_selected, SELECT_ENTRIES * sizeof(uint64_t),
						(void **)&s->selected };
	const struct sampler_table chosen = { MAP_chosen, CHOSEN_CELLS * sizeof(*s->chosen),
					      (void **)&s->chosen };
	int rc = sampler_map_tables(s, table, sizeof(table) / sizeof(table[0]), err);
	rc = rc ? rc : sampler_map_tables(s, &selected, s->cfg.selection != SELECTION_NONE, err);
	rc = rc ? rc : sampler_map_tables(s, &chosen, s->cfg.chooses, err);
	rc = rc ? rc : sampler_map_unwind(s, err);
	return rc ? rc : sampler_map_waits(s, err);
}

static int on_ring(void *ctx, void *data, size_t size)
{
	struct sampler *s = ctx;
	const struct wire_record *r = data;
	if (size < sizeof(*r) || r->size > size - sizeof(*r) || !s->on_record)
		return 0;
	s->on_record(s->record_ctx, r, r + 1);
	return 0;
}

static int on_copies(void *ctx, void *data, size_t size)
{
	struct sampler *s = ctx;
	const struct wire_copy *c = data;
	if (size < sizeof(*c) || c->n_stack > size - sizeof(*c) ||
	    c->n_other > size - sizeof(*c) - c->n_stack || !s->on_copy)
		return 0;
	s->on_copy(s->copy_ctx, c, (const uint8_t *)(c + 1));
	return 0;
}

static int add_ring(struct sampler *s, const struct ring_buffer *r)
{
	struct epoll_event e = { .events = EPOLLIN };
	return s->rings >= 0 && !epoll_ctl(s->rings, EPOLL_CTL_ADD, ring_buffer__epoll_fd(r), &e)
		       ? 0
		       : -errno;
}

static int open_rings(struct sampler *s, struct err *err)
{
	s->ring = ring_buffer__new(s->programs.fd[MAP_ring], on_ring, s, NULL);
	int rc = s->ring ? 0 : -errno;
	s->copies = rc ? NULL : ring_buffer__new(s->programs.fd[MAP_copies], on_copies, s, NULL);
	rc = rc ? rc : s->copies ? 0 : -errno;
	s->rings = rc ? -1 : epoll_create1(EPOLL_CLOEXEC);
	rc = rc ? rc : add_ring(s, s->ring);
	rc = rc ? rc : add_ring(s, s->copies);
	return rc ? err_sys(err, rc, "mapping the BPF ring buffers") : 0;
}

/* ---- events ---- */

void sampler_detach(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int attached(int fd, int *ret_fd)
{
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int sampler_attach_traced(const struct sampler *s, enum program_fd program, int *ret_fd)
{
	return attached(bpf_raw_tracepoint_open(NULL, s->programs.fd[program]), ret_fd);
}

int sampler_attach_iterator(const struct sampler *s, enum program_fd program, int *ret_fd)
{
	return attached(bpf_link_create(s->programs.fd[program], 0, BPF_TRACE_ITER, NULL), ret_fd);
}

int sampler_attach_event(const struct sampler *s, enum program_fd program, int event_fd,
			 uint64_t cookie, int *ret_fd)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = cookie);
	return attached(bpf_link_create(s->programs.fd[program], event_fd, BPF_PERF_EVENT, &opts),
			ret_fd);
}

/* Once for all CPUs: a program that is attached to an event of a tracepoint runs at every hit. */
static int attach_tracepoint(struct sampler *s, unsigned i, struct err *err)
{
	const struct event *e = &s->cfg.event[i];
	int fd, rc = loader_event(e, 0, &fd, err);
	if (rc)
		return rc;
	rc = sampler_attach_event(s, PROGRAM_on_tracepoint, fd, i, &s->tracepoint[i]);
	if (!rc && ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		rc = -errno;
	close(fd); /* the link keeps it */
	return rc ? err_sys(err, rc, "attaching to tracepoint '%s'", e->name) : 0;
}

static int attach_tracepoints(struct sampler *s, struct err *err)
{
	for (unsigned i = 0; i < s->cfg.n_events; i++) {
		int rc = s->cfg.event[i].tracepoint ? attach_tracepoint(s, i, err) : 0;
		if (rc)
			return rc;
		/* Hits before the program was there are not ours. */
		for (unsigned c = 0; s->cfg.event[i].tracepoint && c < s->n_cpus; c++) {
			uint64_t v;
			if (s->cpu[c].fd[i] >= 0 && !event_count(s->cpu[c].fd[i], &v))
				s->cpu[c].base[i] -= v;
		}
	}
	return 0;
}

static int attach_selection(struct sampler *s, struct err *err)
{
	for (size_t i = 0; i < s->cfg.n_ids; i++)
		if (sampler_select(s, s->cfg.ids[i]))
			return err_set(err, -E2BIG, "too many ids selected (%zu)", s->cfg.n_ids);
	if (s->cfg.selection != SELECTION_TGIDS)
		return 0;
	int rc = sampler_attach_traced(s, PROGRAM_on_fork, &s->fork);
	rc = rc ? rc
		: sampler_attach_traced(s, s->cfg.pid_namespace ? PROGRAM_on_exit : PROGRAM_on_free,
					&s->ended);
	return rc ? err_sys(err, rc, "attaching to sched_process_fork and the end of processes")
		  : 0;
}

struct attach_ctx {
	struct sampler *s;
	struct err *err;
	int rc;
};

static void attach_online(void *ctx, unsigned cpu)
{
	struct attach_ctx *a = ctx;
	if (!a->rc && cpu < a->s->n_cpus)
		a->rc = sampler_attach_cpu(a->s, cpu, a->err);
}

/* All descriptors are -1: none. */
static struct sampler *make(const struct sampler_config *cfg)
{
	struct sampler *s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->cfg = *cfg;
	s->n_procs = cfg->processes ? cfg->processes : SAMPLER_PROCESSES;
	s->waits = sampler_config_waits(cfg);
	s->wakers = s->waits && cfg->wakers;
	s->latency = s->waits && cfg->latency[0];
	s->rings = s->fork = s->ended = s->calls_exit = s->threads = -1;
	memset(s->programs.fd, -1, sizeof(s->programs.fd));
	memset(s->tracepoint, -1, sizeof(s->tracepoint));
	memset(s->sched, -1, sizeof(s->sched));
	sampler_cpu_list("/sys/devices/system/cpu/present", max_cpu, &s->n_cpus);
	if (!s->n_cpus)
		s->n_cpus = (unsigned)sysconf(_SC_NPROCESSORS_CONF);
	if (s->n_cpus < cfg->claim_cpus)
		s->n_cpus = cfg->claim_cpus;
	s->cpu = calloc(s->n_cpus, sizeof(*s->cpu));
	for (unsigned c = 0; s->cpu && c < s->n_cpus; c++) {
		memset(s->cpu[c].fd, -1, sizeof(s->cpu[c].fd));
		memset(s->cpu[c].link, -1, sizeof(s->cpu[c].link));
	}
	return s;
}

static int load(struct sampler *s, struct err *err)
{
	struct programs_wanted w = { .cfg = s->cfg, .n_cpus = s->n_cpus, .n_procs = s->n_procs };
	return loader_programs(&s->programs, &w, err);
}

static int attach_cpus(struct sampler *s, struct err *err)
{
	struct attach_ctx a = { s, err, 0 };
	int rc = sampler_cpu_list("/sys/devices/system/cpu/online", attach_online, &a);
	return rc ? err_sys(err, rc, "/sys/devices/system/cpu/online") : a.rc;
}

int sampler_open(struct sampler **ret, const struct sampler_config *cfg, struct err *err)
{
	struct sampler *s = make(cfg);
	struct err e = { 0 };
	int rc = s && s->cpu ? 0 : err_set(&e, -ENOMEM, "out of memory");
	rc = rc ? rc : load(s, &e);
	rc = rc ? rc : map_tables(s, &e);
	rc = rc ? rc : sampler_give_halves(s);
	rc = rc ? rc : open_rings(s, &e);
	rc = rc ? rc : attach_selection(s, &e);
	rc = rc ? rc : attach_cpus(s, &e);
	rc = rc ? rc : sampler_open_probes(s, &e);
	if (!rc) {
		*ret = s;
		return 0;
	}
	if (err)
		*err = e;
	sampler_close(s);
	return rc;
}

void sampler_close(struct sampler *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < MAX_EVENTS; i++)
		sampler_detach(&s->tracepoint[i]);
	sampler_close_probes(s);
	sampler_detach(&s->calls_exit);
	sampler_detach(&s->fork);
	sampler_detach(&s->ended);
	sampler_detach_waits(s);
	sampler_end_bpf_time(s);
	sampler_detach(&s->threads);
	for (unsigned c = 0; s->cpu && c < s->n_cpus; c++)
		sampler_detach_cpu(s, c);
	if (s->rings >= 0)
		close(s->rings);
	ring_buffer__free(s->ring);
	ring_buffer__free(s->copies);
	if (s->halves)
		munmap(s->halves,
		       (size_t)s->programs.sizes.n_halves * s->programs.sizes.half_bytes);
	if (s->states)
		munmap(s->states, s->n_cpus * sizeof(*s->states));
	if (s->procs)
		munmap(s->procs, s->n_procs * sizeof(*s->procs));
	if (s->labels)
		munmap(s->labels, s->n_procs * sizeof(*s->labels));
	if (s->steps)
		munmap(s->steps, LABEL_STEPS * sizeof(*s->steps));
	if (s->selected)
		munmap(s->selected, SELECT_ENTRIES * sizeof(uint64_t));
	if (s->chosen)
		munmap(s->chosen, CHOSEN_CELLS * sizeof(*s->chosen));
	sampler_unmap_unwind(s);
	sampler_unmap_waits(s);
	sampler_free_drain(s);
	if (s->bss)
		munmap(s->bss, sizeof(*s->bss));
	if (s->data)
		munmap(s->data, sizeof(*s->data));
	programs_close(&s->programs);
	free(s->cpu);
	free(s);
}

int sampler_start(struct sampler *s, struct err *err)
{
	int rc = sampler_attach_waits(s, err); /* takes a while; they begin with the others */
	for (unsigned c = 0; c < s->n_cpus; c++)
		sampler_set_cpu(s, c, PERF_EVENT_IOC_ENABLE);
	s->running = true;
	rc = rc ? rc : attach_tracepoints(s, err);
	rc = rc ? rc : sampler_attach_probes(s, err);
	sampler_begin_waits(s);
	return rc;
}

void sampler_stop(struct sampler *s)
{
	/*
	 * Counts first: a tracepoint's last hits may then have run without being counted, never the
	 * reverse.
	 */
	for (unsigned c = 0; c < s->n_cpus; c++)
		sampler_set_cpu(s, c, PERF_EVENT_IOC_DISABLE);
	for (unsigned i = 0; i < MAX_EVENTS; i++)
		sampler_detach(&s->tracepoint[i]);
	sampler_detach_probes(s);
	sampler_end_waits(s);
	s->running = false;
}

/* ---- records ---- */

void sampler_on_record(struct sampler *s,
		       void (*on_record)(void *, const struct wire_record *, const void *),
		       void *ctx)
{
	s->on_record = on_record;
	s->record_ctx = ctx;
}

void sampler_on_copy(struct sampler *s,
		     void (*on_copy)(void *, const struct wire_copy *, const uint8_t *), void *ctx)
{
	s->on_copy = on_copy;
	s->copy_ctx = ctx;
}

int sampler_poll_ring(struct sampler *s)
{
	int n = ring_buffer__consume(s->ring), m = ring_buffer__consume(s->copies);
	return n < 0 ? n : m < 0 ? m : 0;
}

int sampler_ring_fd(const struct sampler *s)
{
	return s->rings;
}

/* ---- accounting ---- */

/*
 * Samples that fired and did not run: the event's count beyond that of the ticks that ran, in
 * periods of a sample. For events whose period the kernel adapts, by the mean period.
 */
static uint64_t not_run(const struct sampler *s, const struct cpu *c, unsigned i)
{
	const struct event *e = &s->cfg.event[i];
	uint64_t count = c->count[i];
	if (count <= c->covered[i])
		return 0;
	uint64_t period = e->tracepoint ? 1 : e->fixed_period ? e->attr.sample_period : 0;
	if (!period)
		period = c->ran[i] ? c->covered[i] / c->ran[i] : 0;
	return period ? (count - c->covered[i]) / period : 0;
}

void sampler_fired(struct sampler *s, unsigned cpu, struct sampler_fired *ret)
{
	const struct cpu *c = &s->cpu[cpu];
	*ret = (struct sampler_fired){ .idle = c->idle };
	for (unsigned i = 0; c->counted && i < s->cfg.n_events; i++) {
		uint64_t missing = not_run(s, c, i);
		ret->ran += c->ran[i];
		ret->fired += c->ran[i] + missing;
		ret->behind += missing > 0;
		if (s->cfg.event[i].ns_per_sample && s->cfg.event[i].fixed_period)
			ret->clock_ns = s->cfg.event[i].ns_per_sample;
	}
	if (!cpu) /* hits are counted for all CPUs together */
		ret->fired += s->bss->probes_missed;
}

uint64_t sampler_pending(const struct sampler *s)
{
	uint64_t n = 0;
	for (unsigned c = 0; c < s->n_cpus; c++) {
		const struct half *h = sampler_half_of(s, c);
		for (unsigned i = 0; i < s->cfg.n_events; i++)
			n += h->ran[i] - h->outside[i];
		n -= h->thinned;
	}
	return n;
}

uint64_t sampler_bad_cpu(const struct sampler *s)
{
	return s->bss->lost_bad_cpu;
}

uint32_t sampler_new_generation(struct sampler *s)
{
	return ++s->data->generation;
}
