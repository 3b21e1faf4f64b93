/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a keeper has given to its recorder, and is still in use: BPF programs with their tables,
 * shards of unwind rows, perf events. Each kind has a limit that a recording does not reach. So a
 * recorder that was taken over cannot fill the kernel's memory with them.
 *
 * The recorder is not asked what it has closed:
 *
 *   maps    the kernel's list of maps has them while a descriptor, mapping or program refers to
 *           them; bpf/maps.bpf.c reads it
 *   events  an epoll set has their files until the last descriptor, mapping or link is gone
 *
 * Both are looked at only when a limit seems reached. In the keeper; for one thread.
 */
#ifndef ASCRIBE_SAMPLER_LENT_H
#define ASCRIBE_SAMPLER_LENT_H

#include "sampler/programs.h"

/* The recording, the one that replaces it at a reload, and one that the kernel is still freeing. */
#define LENT_LOADS_MAX 3u
/* Bytes of kernel memory of all tables: a quarter of the host's, but at least so much. */
#define LENT_BYTES_LEAST (512ull << 20)

/* Events that are open at a time, on a host with so many CPUs. */
size_t lent_events_max(unsigned n_cpus);

/*
 * Make sure that there is room for one more, and wait up to 2 s for what the kernel is freeing.
 * -EDQUOT: the limit is reached. Other errors: the kernel does not list its maps.
 */
int lent_may_load(struct err *err);
int lent_may_add_rows(struct err *err);

/* Remember what was made. -EDQUOT: all tables together are too large: close it. */
int lent_load(const struct programs *p, struct err *err);
int lent_rows(int fd, struct err *err);

/* Remember an event. -EDQUOT: there are too many: close it. */
int lent_event(int fd, struct err *err);

#endif
