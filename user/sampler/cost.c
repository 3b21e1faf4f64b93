/* SPDX-License-Identifier: Apache-2.0 */
/* What the BPF side costs: memory of its maps, CPU time of its programs. */
#include "sampler/loader.h"
#include "sampler/sampler_int.h"

#include <bpf/bpf.h>
#include <stdio.h>
#include <unistd.h>

#define NS 1000000000ull
#define MEASURE_EVERY 6 /* one call in so many measures; the others go on at that rate */

/* ---- memory ---- */

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

void sampler_memory(const struct sampler *s, struct sampler_memory *ret)
{
	const struct programs *p = &s->programs;
	*ret = (struct sampler_memory){ .tables = p->table_bytes,
					.rings = p->ring_bytes,
					.threads = p->thread_bytes
							   ? p->thread_bytes * count_threads()
							   : 0 };
	for (unsigned i = 0; i < UNWIND_SHARDS; i++)
		ret->unwind_rows += s->shard_made[i] ? SHARD_BYTES : 0;
}

/* ---- CPU time ---- */

/* Run time of the programs as far as the kernel counted it: while its statistics are on. */
static uint64_t counted_ns(const struct sampler *s, bool sampling)
{
	uint64_t ns = 0;
	for (unsigned i = FIRST_PROGRAM; i < N_PROGRAM_FDS; i++) {
		const bool samples = i == PROGRAM_on_event || i == PROGRAM_on_tracepoint;
		struct bpf_prog_info info = { 0 };
		uint32_t len = sizeof(info);
		if (samples == sampling && s->programs.fd[i] >= 0 &&
		    !bpf_obj_get_info_by_fd(s->programs.fd[i], &info, &len))
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
		if (loader_count(&t->stats_fd))
			t->stats_fd = 0;
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
