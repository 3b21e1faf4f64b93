/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The BPF programs and their tables as descriptors: who has the right loads them, the recorder maps
 * and attaches them, which takes no capability since Linux 5.19 (commit c8644cd0efe7).
 */
#ifndef ASCRIBE_SAMPLER_PROGRAMS_H
#define ASCRIBE_SAMPLER_PROGRAMS_H

#include "sampler/sampler.h"
#include "sampler/sizes.h"

#define PROGRAM_MAPS(X) \
	X(halves) \
	X(cpu_states) \
	X(procs) \
	X(probe_places) \
	X(proc_labels) \
	X(label_steps) \
	X(selected) \
	X(chosen) \
	X(hotspot_codes) \
	X(v8_layouts) \
	X(unwind_ranges) \
	X(unwind_pages) \
	X(unwind_rules) \
	X(unwind_shards) \
	X(wait_others) \
	X(latency_groups) \
	X(ring) \
	X(copies) \
	X(bss) \
	X(data)

#define PROGRAMS(X) \
	X(on_event) \
	X(on_tracepoint) \
	X(on_probe) \
	X(on_fork) \
	X(on_free) \
	X(on_exit) \
	X(on_calls_exit) \
	X(on_thread) \
	X(on_thread_waker) \
	X(on_threads) \
	X(on_threads_waker) \
	X(on_wakeup) \
	X(on_wakeup_new) \
	X(on_migrate) \
	X(on_waking) \
	X(on_wakeup_latency) \
	X(on_switch) \
	X(on_switch_latency) \
	X(on_switch_waker) \
	X(on_switch_waker_latency)

enum program_fd {
#define X(name) MAP_##name,
	PROGRAM_MAPS(X)
#undef X
#define X(name) PROGRAM_##name,
		PROGRAMS(X)
#undef X
			N_PROGRAM_FDS,
};
#define FIRST_PROGRAM PROGRAM_on_event

#define SELECT_ENTRIES 65536
#define PROGRAM_MAPS_MAX 48u /* of one load: those above and those of the programs alone */
#define SHARD_BYTES (sizeof(uint32_t) << UNWIND_SHARD_BITS)

struct programs {
	int fd[N_PROGRAM_FDS]; /* -1: this recording does not need it */
	bool probes_multi;     /* on_probe is for links of many places */
	struct sizes sizes;
	size_t table_bytes, ring_bytes; /* of kernel memory */
	size_t thread_bytes;		/* and of each thread of the host */
	uint32_t map_id[PROGRAM_MAPS_MAX];
	size_t n_maps;
};

/* What to load for. Of cfg, no pointer but cgroups counts. */
struct programs_wanted {
	struct sampler_config cfg;
	unsigned n_cpus;
	uint32_t n_procs; /* entries of procs and labels, a power of two */
};

/*
 * Load what is wanted, attached to nothing. Errors say what the host lacks (right, BTF, kernel
 * feature) and what to do. -ENOTSUP: this kernel cannot measure waits.
 */
int programs_load(struct programs *ret, const struct programs_wanted *wanted, struct err *err);

void programs_close(struct programs *p);

bool sampler_config_waits(const struct sampler_config *cfg);

#endif
