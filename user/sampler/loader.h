/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sampler needs capabilities for: BPF, PERFMON, and SYS_ADMIN where the kernel wants that.
 * Each is asked of the keeper (sandbox/keeper.h), which answers with descriptors; they take none.
 */
#ifndef ASCRIBE_SAMPLER_LOADER_H
#define ASCRIBE_SAMPLER_LOADER_H

#include "sampler/programs.h"
#include "sampler/tracepoint.h"
#include "sandbox/keeper.h"

/* For the keeper's table. */
keeper_op loader_programs_op, loader_event_op, loader_probe_op, loader_sideband_op, loader_rows_op,
	loader_count_op;
#define LOADER_OPS \
	loader_programs_op, loader_event_op, loader_probe_op, loader_sideband_op, loader_rows_op, \
		loader_count_op, tracepoint_op

/* programs_load. */
int loader_programs(struct programs *ret, const struct programs_wanted *wanted, struct err *err);

/* event_open_jittered. */
int loader_event(const struct event *e, unsigned cpu, int *ret_fd, struct err *err);

/* probe_open. */
int loader_probe(int file, const struct probe_place *at, bool is_return, int *ret_fd,
		 struct err *err);

/* sideband_event. */
int loader_sideband(unsigned cpu, size_t ring_bytes, int *ret_fd, struct err *err);

/* Make a table of one shard of unwind rows: SHARD_BYTES that can be mapped. */
int loader_rows(int *ret_fd);

/* Have the kernel count the run times of BPF programs as long as the descriptor is open. */
int loader_count(int *ret_fd);

#endif
