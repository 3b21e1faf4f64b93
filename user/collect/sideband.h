/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf's side-band: exec, mmap (with build id), fork, comm and exit of every process, stamped with BOOTTIME, from one
 * dummy event per CPU. Read from memory, without system calls. The kernel may lose news when a ring is
 * full; it says so, and the caller then reads /proc again.
 */
#ifndef ASCRIBE_COLLECT_SIDEBAND_H
#define ASCRIBE_COLLECT_SIDEBAND_H

#include "proc/proc.h"
#include "util/err.h"

struct sideband;

/* ring_pages: a power of two, per CPU. */
int sideband_open(struct sideband **ret, unsigned n_cpus, unsigned ring_pages, struct err *err);
void sideband_close(struct sideband *sb);

/* Open the ring of a CPU that has come (or come back). 0 when it is already there. */
int sideband_add_cpu(struct sideband *sb, unsigned cpu, struct err *err);
void sideband_remove_cpu(struct sideband *sb, unsigned cpu);

/* Readable when a ring has filled to a quarter: for poll(2). -1 for a CPU without a ring. */
int sideband_fd(const struct sideband *sb, unsigned cpu);

/*
 * Apply all news that are there to procs, in order of time over all CPUs. on_map (may be NULL) is called for each new
 * executable mapping. *ret_lost counts news lost since the last call.
 */
int sideband_drain(struct sideband *sb, struct procs *procs,
		   void (*on_map)(void *ctx, uint32_t tgid, struct proc_file *file), void *ctx, uint64_t *ret_lost);

#endif
