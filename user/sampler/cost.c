/* SPDX-License-Identifier: Apache-2.0 */
/* What the BPF side costs: memory of its maps, CPU time of its programs. */
#include "sampler/sampler_int.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <unistd.h>

#define NS 1000000000ull
#define MEASURE_EVERY 6 /* one call in so many measures; the others go on at that rate */

/* ---- memory ---- */

/* The allocator gives powers of two, and the kernel puts some words before a value. */
static size_t storage_bytes(size_t value_size)
{
	size_t n = 64;
	while (n < value_size + 64)
		n *= 2;
	return n;
}

/* All threads of the host: each has a value in a map of task storage. */
static size_t count_threads(void)
{
	unsigned long n = 0;
	FILE *f = fopen("/proc/loadavg", "re");
	if (f && fscanf(f, "%*s %*s %*s %*u/%lu", &n) != 1)
		n = 0;
	if (f)
		fclose(f);
	return n;
}

static size_t map_bytes(const struct bpf_map *map, size_t n_possible, size_t n_threads)
{
	size_t value = ((size_t)bpf_map__value_size(map) + 7) & ~(size_t)7,
	       n = bpf_map__max_entries(map);
	switch (bpf_map__type(map)) {
	case BPF_MAP_TYPE_RINGBUF:
		return n;
	case BPF_MAP_TYPE_PERCPU_ARRAY:
		return value * n * n_possible;
	case BPF_MAP_TYPE_TASK_STORAGE:
		return storage_bytes(value) * n_threads;
	default:
		return value * n;
	}
}

void sampler_fixed_bytes(const struct sampler *s, size_t *ret_fixed, size_t *ret_cpu)
{
	const struct bpf_map *chosen[] = { s->skel->maps.halves, s->skel->maps.wait_others,
					   s->skel->maps.copy_cpus };
	struct bpf_map *map;
	*ret_fixed = *ret_cpu = 0;
	bpf_object__for_each_map(map, s->skel->obj)
	{
		bool skip = !bpf_map__autocreate(map) ||
			    bpf_map__type(map) == BPF_MAP_TYPE_TASK_STORAGE;
		for (size_t i = 0; i < sizeof(chosen) / sizeof(chosen[0]); i++)
			skip |= map == chosen[i];
		bool of_cpu = bpf_map__type(map) == BPF_MAP_TYPE_PERCPU_ARRAY ||
			      map == s->skel->maps.sched_cpus || map == s->skel->maps.cpu_states;
		if (!skip && of_cpu)
			*ret_cpu += ((size_t)bpf_map__value_size(map) + 7) / 8 * 8 *
				    (bpf_map__type(map) == BPF_MAP_TYPE_PERCPU_ARRAY
					     ? bpf_map__max_entries(map)
					     : 1);
		else if (!skip)
			*ret_fixed += map_bytes(map, 0, 0);
	}
}

void sampler_memory(const struct sampler *s, struct sampler_memory *ret)
{
	struct bpf_map *map;
	int n_possible = libbpf_num_possible_cpus();
	/* Claimed ones, too */
	size_t n_cpus =
		n_possible > 0 && (unsigned)n_possible > s->n_cpus ? (size_t)n_possible : s->n_cpus;
	size_t n_threads = count_threads();
	*ret = (struct sampler_memory){ 0 };
	bpf_object__for_each_map(map, s->skel->obj)
	{
		if (bpf_map__fd(map) < 0)
			continue;
		size_t n = map_bytes(map, n_cpus, n_threads);
		switch (bpf_map__type(map)) {
		case BPF_MAP_TYPE_RINGBUF:
			ret->rings += n;
			break;
		case BPF_MAP_TYPE_TASK_STORAGE:
			ret->threads += n;
			break;
		default:
			ret->tables += n;
		}
	}
	for (unsigned i = 0; i < UNWIND_SHARDS; i++)
		ret->unwind_rows += s->shard_made[i] ? sizeof(uint32_t) << UNWIND_SHARD_BITS : 0;
}

/* ---- CPU time ---- */

static bool is_sampling(const struct bpf_program *p)
{
	return bpf_program__type(p) == BPF_PROG_TYPE_PERF_EVENT ||
	       bpf_program__type(p) == BPF_PROG_TYPE_TRACEPOINT;
}

/* Run time of the programs as far as the kernel counted it: while its statistics are on. */
static uint64_t counted_ns(const struct sampler *s, bool sampling)
{
	struct bpf_program *p;
	uint64_t ns = 0;
	bpf_object__for_each_program(p, s->skel->obj)
	{
		struct bpf_prog_info info = { 0 };
		uint32_t len = sizeof(info);
		if (is_sampling(p) == sampling && bpf_program__fd(p) >= 0 &&
		    !bpf_obj_get_info_by_fd(bpf_program__fd(p), &info, &len))
			ns += info.run_time_ns;
	}
	return ns;
}

/*
 * Counting costs each program two clock readings, so it is on for one interval in MEASURE_EVERY.
 * Neither call here is an operation on a map, which would make the kernel skip samples.
 */
struct sampler_bpf_ns sampler_bpf_ns(struct sampler *s, uint64_t now_ns)
{
	struct sampler_bpf_time *t = &s->bpf_time;
	uint64_t passed = t->at_ns ? now_ns - t->at_ns : 0;
	bool counted = t->stats_fd > 0;
	t->at_ns = now_ns;
	for (int i = 0; i < 2; i++) {
		struct sampler_bpf_part *part = &t->part[i];
		uint64_t more = counted ? counted_ns(s, !i) - part->counted_ns
					: (uint64_t)(part->share * (double)passed);
		if (counted && passed)
			part->share = (double)more / (double)passed;
		part->ns += more;
	}
	if (counted) {
		close(t->stats_fd);
		t->stats_fd = 0;
	}
	if (t->calls++ % MEASURE_EVERY == 0) {
		t->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
		for (int i = 0; i < 2 && t->stats_fd > 0; i++)
			t->part[i].counted_ns = counted_ns(s, !i);
	}
	return (struct sampler_bpf_ns){ t->part[0].ns, t->part[1].ns };
}

void sampler_end_bpf_time(struct sampler *s)
{
	if (s->bpf_time.stats_fd > 0)
		close(s->bpf_time.stats_fd);
	s->bpf_time.stats_fd = 0;
}
