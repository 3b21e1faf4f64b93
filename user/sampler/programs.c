/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/programs.h"

#include "sampler/probe_support.h"
#include "sampler/wait_support.h"
#include "unwind/walk.h"

#include "sample.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define RING_BYTES (1u << 20)
#define WAIT_NS 1000000
#define TOKEN_SHIFT_MIN 23
#define TOKEN_SHIFT_MAX 27

struct loading {
	const struct sampler_config *cfg;
	unsigned n_cpus;
	uint32_t n_procs;
	bool waits, wakers, latency; /* the scheduler is watched; who wakes; weights by label */
	struct probe_support probes;
	struct wait_support support;
	struct sizes sizes;
	struct sample_bpf *skel;
};

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

/*
 * Load the smallest program that does. securityfs says it, too, but is not in every container.
 */
static bool may_read_kernel(void)
{
	const struct bpf_insn read[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 1, .src_reg = 10 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 1, .imm = -8 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 2, .imm = 8 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .imm = 0 },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_probe_read_kernel },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_PERF_EVENT, "ascribe_read", "Dual BSD/GPL", read,
			       sizeof(read) / sizeof(read[0]), NULL);
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
	if (!may_read_kernel())
		return err_set(err, rc,
			       "loading the BPF programs: this kernel forbids BPF to read its "
			       "memory (lockdown=confidentiality): boot it with "
			       "lockdown=integrity");
	return err_sys(err, rc,
		       "the kernel refused the BPF programs (Linux 5.19 or later is needed; %s)",
		       last_warning);
}

/* ---- sizes ---- */

/* The allocator gives powers of two, and the kernel puts some words before a value. */
static size_t storage_bytes(size_t value_size)
{
	size_t n = 64;
	while (n < value_size + 64)
		n *= 2;
	return n;
}

/* Of task storage those of one thread. */
static size_t map_bytes(const struct bpf_map *map, size_t n_possible)
{
	size_t value = ((size_t)bpf_map__value_size(map) + 7) & ~(size_t)7,
	       n = bpf_map__max_entries(map);
	switch (bpf_map__type(map)) {
	case BPF_MAP_TYPE_RINGBUF:
		return n;
	case BPF_MAP_TYPE_PERCPU_ARRAY:
		return value * n * n_possible;
	case BPF_MAP_TYPE_TASK_STORAGE:
		return storage_bytes(value);
	default:
		return value * n;
	}
}

/*
 * Bytes of the tables that sizes.h does not choose, and of those of each CPU; before they are made.
 */
static void fixed_bytes(const struct loading *l, size_t *ret_fixed, size_t *ret_cpu)
{
	const struct bpf_map *chosen[] = { l->skel->maps.halves, l->skel->maps.wait_others,
					   l->skel->maps.copy_cpus };
	struct bpf_map *map;
	*ret_fixed = *ret_cpu = 0;
	bpf_object__for_each_map(map, l->skel->obj)
	{
		bool skip = !bpf_map__autocreate(map) ||
			    bpf_map__type(map) == BPF_MAP_TYPE_TASK_STORAGE;
		for (size_t i = 0; i < sizeof(chosen) / sizeof(chosen[0]); i++)
			skip |= map == chosen[i];
		bool of_cpu = bpf_map__type(map) == BPF_MAP_TYPE_PERCPU_ARRAY ||
			      map == l->skel->maps.sched_cpus || map == l->skel->maps.cpu_states;
		if (!skip && of_cpu)
			*ret_cpu += ((size_t)bpf_map__value_size(map) + 7) / 8 * 8 *
				    (bpf_map__type(map) == BPF_MAP_TYPE_PERCPU_ARRAY
					     ? bpf_map__max_entries(map)
					     : 1);
		else if (!skip)
			*ret_fixed += map_bytes(map, 0);
	}
}

static void choose_sizes(struct loading *l)
{
	struct sizes_question q = {
		.n_cpus = l->n_cpus,
		.window_s = l->cfg->window_s,
		.waits = l->waits,
		.wakers = l->wakers,
		.instants = l->cfg->instants,
		.rows = l->cfg->table_rows || !l->cfg->table_bytes
				? l->cfg->table_rows
				: sizes_first_rows(l->n_cpus, l->cfg->table_bytes),
		.half_extra_bytes = l->waits ? sizeof(struct wait_others) : 0,
		.run_bytes = l->waits ? CPU_RUN_BYTES : 0,
		.reuse_bytes = REUSE_SLOT_BYTES,
		.recalled_bytes = sizeof(struct recalled),
		.copy_bytes = bpf_map__value_size(l->skel->maps.copy_cpus),
	};
	for (unsigned i = 0; i < l->cfg->n_events; i++)
		q.hz += l->cfg->event[i].wait ? 0 : l->cfg->hz;
	fixed_bytes(l, &q.fixed_bytes, &q.cpu_fixed_bytes);
	sizes_choose(&q, &l->sizes);
}

/* ---- settings ---- */

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

/* As latency_text() of bpf/latency_group.bpf.h. */
static uint64_t latency_hash(const char *text)
{
	uint64_t hash = LATENCY_HASH, word;
	for (size_t at = 0, len = strlen(text); at < len; at += sizeof(word)) {
		word = 0;
		memcpy(&word, text + at, len - at < sizeof(word) ? len - at : sizeof(word));
		hash = latency_hash_word(hash, word);
	}
	return hash | 1;
}

/* The tables of groups are as small as a map can be where no weights are asked for. */
static int set_latency(struct loading *l)
{
	struct sample_bpf *k = l->skel;
	struct config *c = (struct config *)&k->rodata->cfg;
	const uint32_t groups = l->latency ? LATENCY_GROUPS : 1;
	c->latency = l->latency;
	c->latency_mask = groups - 1;
	c->latency_key = latency_hash(l->cfg->latency);
	c->latency_event = MAX_EVENTS; /* none */
	for (unsigned i = l->cfg->n_events; i-- > 0;)
		if (c->period_ns[i])
			c->latency_event = i; /* the first */
	bpf_program__set_autoload(k->progs.on_wakeup_latency, l->latency);
	int rc = bpf_map__set_max_entries(k->maps.latency_groups, groups);
	return rc ? rc
		  : bpf_map__set_max_entries(k->maps.set_groups, l->latency ? 1u << SEEN_BITS : 1);
}

static int set_waits(struct loading *l)
{
	struct sample_bpf *k = l->skel;
	struct bpf_program *programs[] = { k->progs.on_thread, k->progs.on_threads,
					   k->progs.on_wakeup, k->progs.on_wakeup_new,
					   k->progs.on_migrate };
	struct bpf_program *wakers[] = { k->progs.on_waking, k->progs.on_thread_waker,
					 k->progs.on_threads_waker };
	/* One of them, by what a context switch does beside: bit 0 wakers, bit 1 weights */
	struct bpf_program *switches[] = { k->progs.on_switch, k->progs.on_switch_waker,
					   k->progs.on_switch_latency,
					   k->progs.on_switch_waker_latency };
	const size_t with = (size_t)l->wakers | (size_t)l->latency << 1;
	struct bpf_map *maps[] = { k->maps.waits,      k->maps.wait_stacks, k->maps.call_sites,
				   k->maps.sched_cpus, k->maps.waits_out,   k->maps.wait_others };
	int rc = bpf_map__set_autocreate(k->maps.wakings, l->wakers);
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		bpf_program__set_autoload(programs[i], l->waits);
	((struct config *)&k->rodata->cfg)->queue_times = l->support.queue_times;
	((struct config *)&k->rodata->cfg)->token_shift = token_shift(l->cfg->hz);
	if (l->waits)
		bpf_program__set_autoload(
			l->support.queue_times ? k->progs.on_wakeup : k->progs.on_migrate, false);
	for (size_t i = 0; i < sizeof(wakers) / sizeof(wakers[0]); i++)
		bpf_program__set_autoload(wakers[i], l->wakers);
	for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++)
		bpf_program__set_autoload(switches[i], l->waits && i == with);
	((struct config *)&k->rodata->cfg)->wakers = l->wakers;
	((struct config *)&k->rodata->cfg)->preempt_count = l->support.wake.preempt_count;
	((struct config *)&k->rodata->cfg)->bottom_half = l->support.wake.bottom_half;
	((struct config *)&k->rodata->cfg)->backlog = l->support.wake.backlog;
	for (size_t i = 0; !rc && i < sizeof(maps) / sizeof(maps[0]); i++)
		rc = bpf_map__set_autocreate(maps[i], l->waits);
	rc = rc ? rc : bpf_map__set_max_entries(k->maps.sched_cpus, l->n_cpus);
	return rc;
}

/* Cgroups that are chosen while recording, and their rates. */
static int set_choice(struct loading *l, struct config *c)
{
	const struct sampler_config *cfg = l->cfg;
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
	return bpf_map__set_max_entries(l->skel->maps.chosen, cfg->chooses ? CHOSEN_CELLS : 1);
}

/* Those that depend on how much room there is: after all others are set. */
static int set_chosen_sizes(struct loading *l, struct config *c)
{
	struct sample_bpf *k = l->skel;
	const struct sizes *z = &l->sizes;
	choose_sizes(l);
	c->row_mask = c->ref_mask = z->rows - 1;
	c->rows_max = z->rows - z->rows / 8;
	c->arena_mask = z->words - 1;
	c->half_size = z->half_bytes;
	c->instants = l->cfg->instants ? z->rows : 0;
	c->run_mask = z->runs - 1;
	c->reuse_mask = z->reuse - 1;
	c->recalled_mask = z->recalled - 1;
	c->copy_mask = z->copies - 1;
	const uint32_t runs = bpf_map__value_size(k->maps.sched_cpus) + z->runs * CPU_RUN_BYTES;
	const uint32_t reuse =
		bpf_map__value_size(k->maps.reuse_cpus) + z->reuse * REUSE_SLOT_BYTES;
	const uint32_t unwind = bpf_map__value_size(k->maps.unwind_states) +
				z->recalled * (uint32_t)sizeof(struct recalled);
	int rc = bpf_map__set_max_entries(k->maps.halves, z->n_halves);
	rc = rc ? rc : bpf_map__set_value_size(k->maps.halves, z->half_bytes);
	rc = rc ? rc : bpf_map__set_max_entries(k->maps.wait_others, z->n_halves);
	rc = rc ? rc : bpf_map__set_value_size(k->maps.sched_cpus, runs);
	rc = rc ? rc : bpf_map__set_value_size(k->maps.reuse_cpus, reuse);
	rc = rc ? rc : bpf_map__set_value_size(k->maps.unwind_states, unwind);
	return rc ? rc : bpf_map__set_max_entries(k->maps.copy_cpus, z->copies);
}

static bool has_probes(const struct sampler_config *cfg)
{
	bool any = false;
	for (unsigned i = 0; i < cfg->n_events; i++)
		any |= cfg->event[i].probe;
	return any;
}

static int set_probes(struct loading *l, struct config *c)
{
	struct sample_bpf *k = l->skel;
	for (unsigned i = 0; i < l->cfg->n_events; i++)
		c->calls |= l->cfg->event[i].calls;
	c->any_call = c->calls && !l->cfg->no_labels;
	c->guard_probes = l->probes.guard;
	bpf_program__set_autoload(k->progs.on_probe, has_probes(l->cfg));
	bpf_program__set_autoload(k->progs.on_calls_exit, c->calls);
	int rc = bpf_map__set_autocreate(k->maps.calls, c->calls);
	rc = rc ? rc : bpf_map__set_autocreate(k->maps.probe_places, has_probes(l->cfg));
	if (!rc && l->probes.multi)
		rc = bpf_program__set_expected_attach_type(k->progs.on_probe, PROBES_ATTACH_MULTI);
	return rc;
}

static int set_sizes(struct loading *l)
{
	struct sample_bpf *k = l->skel;
	struct config *c = (struct config *)&k->rodata->cfg;
	long max = KERNEL_FRAMES_MAX;
	FILE *f = fopen("/proc/sys/kernel/perf_event_max_stack", "re");
	if (f) {
		if (fscanf(f, "%ld", &max) != 1 || max > KERNEL_FRAMES_MAX || max < 1)
			max = KERNEL_FRAMES_MAX;
		fclose(f);
	}
	*c = (struct config){
		.n_cpus = l->n_cpus,
		.proc_mask = l->n_procs - 1,
		.max_frames = (uint32_t)max,
		.address_mask = unwind_address_bits(),
		.selection = l->cfg->selection,
		.selected_mask = SELECT_ENTRIES - 1,
		.n_cgroups = (uint32_t)l->cfg->n_cgroups,
		.cgroup_others = 1,
		.ring_wake = RING_BYTES / 4,
		.cmdline = l->cfg->cmdline,
		.wait_ns = l->cfg->wait_ns ? l->cfg->wait_ns : WAIT_NS,
		.pid_namespace = l->cfg->pid_namespace,
	};
	for (size_t i = 0; i < l->cfg->n_cgroups; i++) {
		c->cgroup[i] = l->cfg->cgroups[i];
		c->cgroup_others &= l->cfg->cgroups[i].excluded;
	}
	if (getrandom(&c->secret, sizeof(c->secret), 0) != sizeof(c->secret))
		return -EIO;
	int rc = bpf_map__set_max_entries(k->maps.cpu_states, l->n_cpus);
	rc = rc ? rc : bpf_map__set_max_entries(k->maps.procs, l->n_procs);
	rc = rc ? rc : bpf_map__set_max_entries(k->maps.proc_labels, l->n_procs + 1);
	rc = rc ? rc
		: bpf_map__set_max_entries(k->maps.selected, l->cfg->selection == SELECTION_NONE
								     ? 1
								     : SELECT_ENTRIES);
	bool tracepoints = false, clocks = false;
	for (unsigned i = 0; i < l->cfg->n_events; i++) {
		const struct event *e = &l->cfg->event[i];
		tracepoints |= e->tracepoint;
		clocks |= !e->tracepoint && !e->probe && !e->wait;
		c->leaves_out[i] = e->leaves_out;
		c->heap[i] = e->heap;
		c->spreads[i] = event_has_spread(e);
		c->argument[i] = e->label;
		c->any_argument |= e->label && !l->cfg->no_labels;
		c->period_ns[i] = event_is_clock(e) ? e->attr.sample_period : 0;
		c->instant_least[i] = e->wait ? INSTANT_WAIT_NS : 0;
		if (e->wait)
			*(strcmp(e->name, EVENT_OFF) ? &c->event_runq : &c->event_off) = i;
	}
	/* Each program costs the verifier some milliseconds: only those that are attached. */
	bpf_program__set_autoload(k->progs.on_event, clocks);
	bpf_program__set_autoload(k->progs.on_tracepoint, tracepoints);
	rc = rc ? rc : set_probes(l, c);
	bool follows = l->cfg->selection == SELECTION_TGIDS, inner = l->cfg->pid_namespace;
	bpf_program__set_autoload(k->progs.on_fork, follows);
	bpf_program__set_autoload(k->progs.on_free, follows && !inner);
	bpf_program__set_autoload(k->progs.on_exit, follows && inner);
	rc = rc ? rc : set_choice(l, c);
	rc = rc ? rc : set_waits(l);
	rc = rc ? rc : set_latency(l);
	return rc ? rc : set_chosen_sizes(l, c);
}

/* ---- descriptors ---- */

/* Return -1 for a map that is not made: libbpf 1.4 gives it the descriptor of something else. */
static int map_fd(const struct bpf_map *map)
{
	return bpf_map__autocreate(map) ? bpf_map__fd(map) : -1;
}

static void measure(const struct loading *l, struct programs *p)
{
	struct bpf_map *map;
	int n_possible = libbpf_num_possible_cpus();
	/* Claimed ones, too */
	size_t n_cpus =
		n_possible > 0 && (unsigned)n_possible > l->n_cpus ? (size_t)n_possible : l->n_cpus;
	bpf_object__for_each_map(map, l->skel->obj)
	{
		if (map_fd(map) < 0)
			continue;
		size_t n = map_bytes(map, n_cpus);
		switch (bpf_map__type(map)) {
		case BPF_MAP_TYPE_RINGBUF:
			p->ring_bytes += n;
			break;
		case BPF_MAP_TYPE_TASK_STORAGE:
			p->thread_bytes += n;
			break;
		default:
			p->table_bytes += n;
		}
	}
}

static int take_map_ids(const struct loading *l, struct programs *p)
{
	struct bpf_map *map;
	bpf_object__for_each_map(map, l->skel->obj)
	{
		struct bpf_map_info info = { 0 };
		uint32_t len = sizeof(info);
		if (map_fd(map) < 0)
			continue;
		if (p->n_maps == PROGRAM_MAPS_MAX)
			return -E2BIG;
		if (bpf_obj_get_info_by_fd(map_fd(map), &info, &len))
			return -errno;
		p->map_id[p->n_maps++] = info.id;
	}
	return 0;
}

/* Copies, since libbpf closes its own. */
static int take_descriptors(const struct loading *l, struct programs *p)
{
	const int fd[N_PROGRAM_FDS] = {
#define X(name) [MAP_##name] = map_fd(l->skel->maps.name),
		PROGRAM_MAPS(X)
#undef X
#define X(name) [PROGRAM_##name] = bpf_program__fd(l->skel->progs.name),
			PROGRAMS(X)
#undef X
	};
	for (size_t i = 0; i < N_PROGRAM_FDS; i++) {
		p->fd[i] = fd[i] < 0 ? -1 : fcntl(fd[i], F_DUPFD_CLOEXEC, 0);
		if (fd[i] >= 0 && p->fd[i] < 0)
			return -errno;
	}
	return 0;
}

void programs_close(struct programs *p)
{
	for (size_t i = 0; i < N_PROGRAM_FDS; i++) {
		if (p->fd[i] >= 0)
			close(p->fd[i]);
		p->fd[i] = -1;
	}
}

bool sampler_config_waits(const struct sampler_config *cfg)
{
	bool waits = false;
	for (unsigned i = 0; i < cfg->n_events; i++)
		waits |= cfg->event[i].wait;
	return waits;
}

int programs_load(struct programs *ret, const struct programs_wanted *wanted, struct err *err)
{
	struct loading l = { .cfg = &wanted->cfg,
			     .n_cpus = wanted->n_cpus,
			     .n_procs = wanted->n_procs,
			     .waits = sampler_config_waits(&wanted->cfg) };
	struct programs p = { 0 };
	for (size_t i = 0; i < N_PROGRAM_FDS; i++)
		p.fd[i] = -1;
	l.wakers = l.waits && l.cfg->wakers;
	l.latency = l.waits && l.cfg->latency[0];
	libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
	libbpf_set_print(on_libbpf);
	last_warning[0] = 0;
	int rc = l.waits ? wait_support_find(&l.support, l.wakers, err) : 0;
	rc = rc || !has_probes(l.cfg) ? rc : probe_support_find(&l.probes, err);
	if (rc)
		return rc;
	l.skel = sample_bpf__open();
	rc = l.skel ? set_sizes(&l) : -errno;
	rc = rc ? rc : sample_bpf__load(l.skel);
	rc = rc ? load_error(err, rc) : 0;
	if (!rc) {
		measure(&l, &p);
		p.sizes = l.sizes;
		p.probes_multi = l.probes.multi;
		rc = take_map_ids(&l, &p);
		rc = rc ? rc : take_descriptors(&l, &p);
		if (rc)
			err_sys(err, rc, "the descriptors of the BPF programs");
	}
	sample_bpf__destroy(l.skel);
	if (rc)
		programs_close(&p);
	else
		*ret = p;
	return rc;
}
