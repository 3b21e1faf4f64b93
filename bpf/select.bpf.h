/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The selection: -p, -t, a command, or cgroups: those below named ones (-G, --exclude-cgroup), and
 * those that user space chose by their labels (--select, --exclude). Events fire for all tasks,
 * because an event of one task never fires in a task that lives shorter than the period. Count
 * samples of other tasks as outside.
 */
#ifndef ASCRIBE_SELECT_BPF_H
#define ASCRIBE_SELECT_BPF_H

#include "common.bpf.h"
#include "ids.bpf.h"

#define SELECT_PROBES 64
#define SELECT_GONE 0xffffffffu

/*
 * Selected ids, by open addressing; user space adds the first ones before it enables the events. 0:
 * never used. 8 bytes each: an array map has no smaller stride.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* cfg.selected_mask + 1 */
	__type(key, __u32);
	__type(value, __u64);
} selected SEC(".maps");

static __always_inline __u64 *selected_cell(__u32 id, __u32 probe)
{
	__u32 i = (((id * 0x9e3779b1u) >> 8) + probe) & cfg.selected_mask;
	return bpf_map_lookup_elem(&selected, &i);
}

static __always_inline bool selected_has(__u32 id)
{
	for (__u32 p = 0; p < SELECT_PROBES; p++) {
		__u64 *cell = selected_cell(id, p);
		if (!cell || !*cell)
			return false;
		if (*cell == id)
			return true;
	}
	return false;
}

/* Where the table has no room the id is not selected, and its samples count as outside. */
static __always_inline void selected_add(__u32 id)
{
	for (__u32 p = 0; p < SELECT_PROBES; p++) {
		__u64 *cell = selected_cell(id, p);
		if (!cell)
			return;
		__u64 old = *cell;
		if (old == id)
			return;
		if ((old == 0 || old == SELECT_GONE) &&
		    __sync_val_compare_and_swap(cell, old, (__u64)id) == old)
			return;
	}
}

static __always_inline void selected_remove(__u32 id)
{
	for (__u32 p = 0; p < SELECT_PROBES; p++) {
		__u64 *cell = selected_cell(id, p);
		if (!cell || !*cell)
			return;
		if (*cell == id)
			*cell = SELECT_GONE;
	}
}

static __always_inline bool is_selected_cgroup(void)
{
	for (__u32 i = 0; i < CGROUPS_MAX && i < cfg.n_cgroups; i++)
		if (bpf_get_current_ancestor_cgroup_id(cfg.cgroup[i].level) == cfg.cgroup[i].id)
			return !cfg.cgroup[i].excluded;
	return cfg.cgroup_others;
}

/* Cgroups that user space has decided of, by open addressing. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* cfg.chosen_mask + 1 */
	__type(key, __u32);
	__type(value, struct chosen_cell);
} chosen SEC(".maps");

/* The answer for a cgroup. */
__noinline __u32 chosen_find(__u64 id)
{
	__u32 hash = chosen_hash(id);
	for (__u32 p = 0; p < CHOSEN_PROBES; p++) {
		__u32 i = (hash + p) & cfg.chosen_mask;
		struct chosen_cell *cell = bpf_map_lookup_elem(&chosen, &i);
		if (!cell || !cell->id)
			break;
		if (cell->id == id)
			return (__u32)cell->answer;
	}
	return CHOSEN_LATE;
}

static __always_inline __u32 chosen_answer(struct task_struct *t)
{
	if (!cfg.chooses)
		return 0;
	return chosen_find(t->flags & PF_KTHREAD ? CHOSEN_KTHREADS : t->cgroups->dfl_cgrp->kn->id);
}

static __always_inline __u32 chosen_rate(__u32 answer)
{
	__u32 rate = answer & CHOSEN_LATE ? cfg.most_rate : answer & (RATES_MAX - 1);
	return rate < cfg.n_rates ? rate : 0;
}

static __always_inline bool is_selected(struct task_struct *t)
{
	switch (cfg.selection) {
	case SELECTION_TGIDS:
		return selected_has(process_id(t));
	case SELECTION_TIDS:
		return selected_has(thread_id(t));
	case SELECTION_CGROUP:
		if (!is_selected_cgroup())
			return false;
		break;
	default:
		break;
	}
	return !(chosen_answer(t) & CHOSEN_OUTSIDE);
}

#endif
