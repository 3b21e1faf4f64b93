/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf's side-band: exec, mmap (with build id), fork, comm and exit of every process, stamped with
 * BOOTTIME, from one dummy event per CPU. Read from memory, without system calls. The kernel may
 * lose news when a ring is full; it says so, and the caller then reads /proc again.
 */
#ifndef ASCRIBE_SAMPLER_SIDEBAND_H
#define ASCRIBE_SAMPLER_SIDEBAND_H

#include "proc/proc.h"
#include "util/err.h"

struct sideband;

/* ring_bytes: a power of two, per CPU; at least a page is used, whatever its size. */
int sideband_open(struct sideband **ret, unsigned n_cpus, size_t ring_bytes, struct err *err);
void sideband_close(struct sideband *sb);

/* Open the event of a CPU, for a ring of so many bytes. */
int sideband_event(unsigned cpu, size_t ring_bytes, int *ret_fd, struct err *err);

/*
 * Map the ring of a CPU that has come (or come back), whose event is asked of the keeper. 0 when it
 * is already there.
 */
int sideband_add_cpu(struct sideband *sb, unsigned cpu, struct err *err);
void sideband_remove_cpu(struct sideband *sb, unsigned cpu);

/* Readable when a ring has filled to a quarter: for poll(2). -1 for a CPU without a ring. */
int sideband_fd(const struct sideband *sb, unsigned cpu);

/* Called for each new executable mapping, with its first address; may be NULL. */
typedef void sideband_on_map(void *ctx, uint32_t tgid, uint64_t addr);

struct sideband_loss {
	bool any;	  /* records may be missing */
	uint64_t from_ns; /* BOOTTIME: all records before this time were read */
	/*
	 * Lost records that the kernel reported; it reports them with the next record that it
	 * writes
	 */
	uint64_t records;
};

/*
 * Apply the records that are older than this call to procs, in order of time over all CPUs; leave
 * younger ones in their rings for the next call. -ENOMEM: some CPU's records stay in its ring.
 *
 * Why the limit: the rings are read one after the other. Without it a fork on CPU 0 could miss its
 * ring's turn while the child's exec on CPU 1 does not. A record older than the limit cannot have a
 * cause that is left behind: the kernel writes the fork before the child first runs.
 */
int sideband_drain(struct sideband *sb, struct procs *procs, sideband_on_map *on_map, void *ctx,
		   struct sideband_loss *ret_loss);

/*
 * The two steps of sideband_drain: take the records of one CPU that are older than before_ns
 * (BOOTTIME), then apply all that were taken.
 */
int sideband_read(struct sideband *sb, unsigned cpu, uint64_t before_ns);
void sideband_apply(struct sideband *sb, struct procs *procs, sideband_on_map *on_map, void *ctx,
		    struct sideband_loss *ret_loss);

#endif
