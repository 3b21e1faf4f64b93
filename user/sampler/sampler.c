/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/sampler_int.h"

#include "unwind/walk.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define RING_BYTES (1u << 20)
#define WAIT_NS 1000000

/* ---- the last warning of libbpf, to tell when loading fails ---- */

static char last_warning[256];

static int on_libbpf(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	if (level == LIBBPF_WARN && !last_warning[0]) {
		vsnprintf(last_warning, sizeof(last_warning), fmt, ap);
		last_warning[strcspn(last_warning, "\n")] = 0;
	}
	return 0;
}

/* ---- sizes ---- */

static void choose_sizes(struct sampler *s)
{
	struct sizes_question q = {
		.n_cpus = s->n_cpus,
		.window_s = s->cfg.window_s,
		.waits = s->waits,
		.wakers = s->wakers,
		.rows = s->cfg.table_rows || !s->cfg.table_bytes
				? s->cfg.table_rows
				: sizes_first_rows(s->n_cpus, s->cfg.table_bytes),
		.half_extra_bytes = s->waits ? sizeof(struct wait_others) : 0,
		.run_bytes = s->waits ? CPU_RUN_BYTES : 0,
		.reuse_bytes = REUSE_SLOT_BYTES,
		.copy_bytes = bpf_map__value_size(s->skel->maps.copy_cpus),
	};
	for (unsigned i = 0; i < s->cfg.n_events; i++)
		q.hz += s->cfg.event[i].wait ? 0 : s->cfg.hz;
	sampler_fixed_bytes(s, &q.fixed_bytes, &q.cpu_fixed_bytes);
	sizes_choose(&q, &s->sizes);
}

unsigned sampler_drain_ms(const struct sampler *s)
{
	return s->sizes.drain_ms;
}

unsigned sampler_n_cpus(const struct sampler *s)
{
	return s->n_cpus;
}

size_t sampler_sideband_bytes(const struct sampler *s)
{
	return s->sizes.ring_bytes;
}

uint32_t sampler_table_rows(const struct sampler *s, bool *ret_may_grow)
{
	*ret_may_grow = s->sizes.may_grow;
	return s->sizes.rows;
}

/* ---- CPUs ---- */

static void max_cpu(void *ctx, unsigned cpu)
{
	unsigned *n = ctx;
	if (cpu + 1 > *n)
		*n = cpu + 1;
}

/* ---- loading ---- */

/*
 * May we load BPF at all? Asked with a map of one word: a program can also be refused by the
 * verifier with EACCES.
 */
static bool may_use_bpf(void)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "ascribe_probe", 4, 8, 1, NULL);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static int load_error(struct err *err, int rc)
{
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		return err_set(err, rc,
			       "this kernel has no BTF (/sys/kernel/btf/vmlinux): it needs "
			       "CONFIG_DEBUG_INFO_BTF=y, as "
			       "distribution kernels since 5.4 have");
	if ((rc == -EPERM || rc == -EACCES) && !may_use_bpf())
		return err_set(
			err, rc,
			"loading the BPF programs: not permitted: be root, or run with CAP_BPF "
			"and CAP_PERFMON (%s)",
			last_warning);
	return err_sys(err, rc,
		       "the kernel refused the BPF programs (Linux 5.17 or later is needed; %s)",
		       last_warning);
}

/* Cgroups that are chosen while recording, and their rates. */
static int set_choice(struct sampler *s, struct config *c)
{
	const struct sampler_config *cfg = &s->cfg;
	c->chooses = cfg->chooses;
	c->chosen_mask = CHOSEN_CELLS - 1;
	c->skip_idle = cfg->selection != SELECTION_NONE || cfg->selects;
	c->n_rates = cfg->n_rates;
	for (unsigned i = 0; i < cfg->n_rates; i++) {
		c->rate_hz[i] = cfg->rates[i];
		if (cfg->rates[i] <= c->most_hz)
			continue;
		c->most_hz = cfg->rates[i];
		c->most_rate = i;
	}
	for (unsigned i = 0; i < cfg->n_events; i++)
		c->thins[i] = cfg->event[i].ns_per_sample && !cfg->event[i].wait;
	return bpf_map__set_max_entries(s->skel->maps.chosen, cfg->chooses ? CHOSEN_CELLS : 1);
}

/* Those that depend on how much room there is: after all others are set. */
static int set_chosen_sizes(struct sampler *s, struct config *c)
{
	struct sample_bpf *k = s->skel;
	const struct sizes *z = &s->sizes;
	choose_sizes(s);
	c->row_mask = c->ref_mask = z->rows - 1;
	c->rows_max = z->rows - z->rows / 8;
	c->arena_mask = z->words - 1;
	c->half_size = z->half_bytes;
	c->run_mask = z->runs - 1;
	c->reuse_mask = z->reuse - 1;
	c->copy_mask = z->copies - 1;
	const uint32_t runs = bpf_map__value_size(k->maps.sched_cpus) + z->runs * CPU_RUN_BYTES;
	const uint32_t reuse =
		bpf_map__value_size(k->maps.reuse_cpus) + z->reuse * REUSE_SLOT_BYTES;
	int rc = bpf_map__set_max_entries(k->maps.halves, z->n_halves);
	rc = rc ? rc : bpf_map__set_value_size(k->maps.halves, z->half_bytes);
	rc = rc ? rc : bpf_map__set_max_entries(k->maps.wait_others, z->n_halves);
	rc = rc ? rc : bpf_map__set_value_size(k->maps.sched_cpus, runs);
	rc = rc ? rc : bpf_map__set_value_size(k->maps.reuse_cpus, reuse);
	return rc ? rc : bpf_map__set_max_entries(k->maps.copy_cpus, z->copies);
}

static int set_sizes(struct sampler *s)
{
	struct sample_bpf *k = s->skel;
	struct config *c = (struct config *)&k->rodata->cfg;
	long max = KERNEL_FRAMES_MAX;
	FILE *f = fopen("/proc/sys/kernel/perf_event_max_stack", "re");
	if (f) {
		if (fscanf(f, "%ld", &max) != 1 || max > KERNEL_FRAMES_MAX || max < 1)
			max = KERNEL_FRAMES_MAX;
		fclose(f);
	}
	*c = (struct config){
		.n_cpus = s->n_cpus,
		.proc_mask = s->n_procs - 1,
		.max_frames = (uint32_t)max,
		.address_mask = unwind_address_bits(),
		.selection = s->cfg.selection,
		.selected_mask = SELECT_ENTRIES - 1,
		.n_cgroups = (uint32_t)s->cfg.n_cgroups,
		.cgroup_others = 1,
		.ring_wake = RING_BYTES / 4,
		.cmdline = s->cfg.cmdline,
		.wait_ns = s->cfg.wait_ns ? s->cfg.wait_ns : WAIT_NS,
		.pid_namespace = s->cfg.pid_namespace,
	};
	for (size_t i = 0; i < s->cfg.n_cgroups; i++) {
		c->cgroup[i] = s->cfg.cgroups[i];
		c->cgroup_others &= s->cfg.cgroups[i].excluded;
	}
	if (getrandom(&c->secret, sizeof(c->secret), 0) != sizeof(c->secret))
		return -EIO;
	int rc = bpf_map__set_max_entries(k->maps.cpu_states, s->n_cpus);
	rc = rc ? rc : bpf_map__set_max_entries(k->maps.procs, s->n_procs);
	rc = rc ? rc : bpf_map__set_max_entries(k->maps.proc_labels, s->n_procs);
	rc = rc ? rc
		: bpf_map__set_max_entries(k->maps.selected,
					   s->cfg.selection == SELECTION_NONE ? 1 : SELECT_ENTRIES);
	bool tracepoints = false, clocks = false;
	for (unsigned i = 0; i < s->cfg.n_events; i++) {
		const struct event *e = &s->cfg.event[i];
		tracepoints |= e->tracepoint;
		clocks |= !e->tracepoint && !e->wait;
		c->period_ns[i] = event_is_clock(e) ? e->attr.sample_period : 0;
		if (e->wait)
			*(strcmp(e->name, EVENT_OFF) ? &c->event_runq : &c->event_off) = i;
	}
	/* Each program costs the verifier some milliseconds: only those that are attached. */
	bpf_program__set_autoload(k->progs.on_event, clocks);
	bpf_program__set_autoload(k->progs.on_tracepoint, tracepoints);
	bool follows = s->cfg.selection == SELECTION_TGIDS, inner = s->cfg.pid_namespace;
	bpf_program__set_autoload(k->progs.on_fork, follows);
	bpf_program__set_autoload(k->progs.on_free, follows && !inner);
	bpf_program__set_autoload(k->progs.on_exit, follows && inner);
	rc = rc ? rc : set_choice(s, c);
	rc = rc ? rc : sampler_size_waits(s);
	return rc ? rc : set_chosen_sizes(s, c);
}

static int map_tables(struct sampler *s, struct err *err)
{
	struct sample_bpf *k = s->skel;
	const struct sampler_table table[] = {
		{ k->maps.halves, (size_t)s->sizes.n_halves * s->sizes.half_bytes,
		  (void **)&s->halves },
		{ k->maps.cpu_states, s->n_cpus * sizeof(*s->states), (void **)&s->states },
		{ k->maps.procs, s->n_procs * sizeof(*s->procs), (void **)&s->procs },
		{ k->maps.proc_labels, s->n_procs * sizeof(*s->labels), (void **)&s->labels },
		{ k->maps.label_steps, LABEL_STEPS * sizeof(*s->steps), (void **)&s->steps },
	};
	const struct sampler_table selected = { k->maps.selected, SELECT_ENTRIES * sizeof(uint64_t),
						(void **)&s->selected };
	const struct sampler_table chosen = { k->maps.chosen, CHOSEN_CELLS * sizeof(*s->chosen),
					      (void **)&s->chosen };
	int rc = sampler_map_tables(table, sizeof(table) / sizeof(table[0]), err);
	rc = rc ? rc : sampler_map_tables(&selected, s->cfg.selection != SELECTION_NONE, err);
	rc = rc ? rc : sampler_map_tables(&chosen, s->cfg.chooses, err);
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
	s->ring = ring_buffer__new(bpf_map__fd(s->skel->maps.ring), on_ring, s, NULL);
	int rc = s->ring ? 0 : -errno;
	s->copies =
		rc ? NULL : ring_buffer__new(bpf_map__fd(s->skel->maps.copies), on_copies, s, NULL);
	rc = rc ? rc : s->copies ? 0 : -errno;
	s->rings = rc ? -1 : epoll_create1(EPOLL_CLOEXEC);
	rc = rc ? rc : add_ring(s, s->ring);
	rc = rc ? rc : add_ring(s, s->copies);
	return rc ? err_sys(err, rc, "mapping the BPF ring buffers") : 0;
}

/* ---- events ---- */

static int attach_tracepoints(struct sampler *s, struct err *err)
{
	for (unsigned i = 0; i < s->cfg.n_events; i++) {
		const struct event *e = &s->cfg.event[i];
		if (!e->tracepoint)
			continue;
		char category[EVENT_NAME_MAX];
		snprintf(category, sizeof(category), "%s", e->name);
		char *colon = strchr(category, ':');
		*colon = 0;
		LIBBPF_OPTS(bpf_tracepoint_opts, opts, .bpf_cookie = i);
		s->tracepoint[i] = bpf_program__attach_tracepoint_opts(s->skel->progs.on_tracepoint,
								       category, colon + 1, &opts);
		if (!s->tracepoint[i])
			return err_sys(err, -errno, "attaching to tracepoint '%s'", e->name);
		/* Hits before the program was there are not ours. */
		for (unsigned c = 0; c < s->n_cpus; c++) {
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
	s->fork = bpf_program__attach(s->skel->progs.on_fork);
	s->ended = bpf_program__attach(s->cfg.pid_namespace ? s->skel->progs.on_exit
							    : s->skel->progs.on_free);
	return s->fork && s->ended
		       ? 0
		       : err_sys(err, -errno,
				 "attaching to sched_process_fork and the end of processes");
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

int sampler_open(struct sampler **ret, const struct sampler_config *cfg, struct err *err)
{
	struct sampler *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	struct err e = { 0 };
	int rc;
	s->rings = -1;
	s->cfg = *cfg;
	s->n_procs = cfg->processes ? cfg->processes : SAMPLER_PROCESSES;
	sampler_cpu_list("/sys/devices/system/cpu/present", max_cpu, &s->n_cpus);
	if (!s->n_cpus)
		s->n_cpus = (unsigned)sysconf(_SC_NPROCESSORS_CONF);
	if (s->n_cpus < cfg->claim_cpus)
		s->n_cpus = cfg->claim_cpus;
	s->cpu = calloc(s->n_cpus, sizeof(*s->cpu));
	if (!s->cpu) {
		rc = err_set(err, -ENOMEM, "out of memory");
		goto out;
	}
	for (unsigned c = 0; c < s->n_cpus; c++)
		for (unsigned i = 0; i < MAX_EVENTS; i++)
			s->cpu[c].fd[i] = -1;
	for (unsigned i = 0; i < cfg->n_events; i++)
		s->waits |= cfg->event[i].wait;
	s->wakers = s->waits && cfg->wakers;
	libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
	libbpf_set_print(on_libbpf);
	last_warning[0] = 0;
	rc = sampler_check_waits(s, err);
	if (rc)
		goto out;
	s->skel = sample_bpf__open();
	rc = s->skel ? set_sizes(s) : -errno;
	rc = rc ? rc : sample_bpf__load(s->skel);
	if (rc) {
		rc = load_error(err, rc);
		goto out;
	}
	rc = map_tables(s, &e);
	rc = rc ? rc : sampler_give_halves(s);
	rc = rc ? rc : open_rings(s, &e);
	rc = rc ? rc : attach_selection(s, &e);
	if (!rc) {
		struct attach_ctx a = { s, &e, 0 };
		rc = sampler_cpu_list("/sys/devices/system/cpu/online", attach_online, &a);
		rc = rc ? err_sys(&e, rc, "/sys/devices/system/cpu/online") : a.rc;
	}
	if (rc && err)
		*err = e;
out:
	if (rc) {
		sampler_close(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void sampler_close(struct sampler *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < MAX_EVENTS; i++)
		bpf_link__destroy(s->tracepoint[i]);
	bpf_link__destroy(s->fork);
	bpf_link__destroy(s->ended);
	sampler_detach_waits(s);
	sampler_end_bpf_time(s);
	bpf_link__destroy(s->threads);
	for (unsigned c = 0; s->cpu && c < s->n_cpus; c++)
		sampler_detach_cpu(s, c);
	if (s->rings >= 0)
		close(s->rings);
	ring_buffer__free(s->ring);
	ring_buffer__free(s->copies);
	if (s->halves)
		munmap(s->halves, (size_t)s->sizes.n_halves * s->sizes.half_bytes);
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
	sample_bpf__destroy(s->skel);
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
	for (unsigned i = 0; i < MAX_EVENTS; i++) {
		bpf_link__destroy(s->tracepoint[i]);
		s->tracepoint[i] = NULL;
	}
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
	return s->skel->bss->lost_bad_cpu;
}

uint32_t sampler_new_generation(struct sampler *s)
{
	return ++s->skel->data->generation;
}
